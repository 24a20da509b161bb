"""What happened to the objects of one kind, so that watches can start in the past.

A `Record` is one version of an object: never changed, encoded at most once for all readers.
A `Change` is one write. `History` keeps the last changes and knows what it has forgotten; a
`Subscription` hands new changes to one reader and wakes it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

import msgspec

from stowplan.apiserver.statuses import too_old

Json: TypeAlias = dict[str, Any]
ChangeType: TypeAlias = Literal["ADDED", "MODIFIED", "DELETED"]

_encode = msgspec.json.Encoder().encode


class Record:
    """One version of one object. `object` must not be mutated by anyone.

    `twin` caches the same Event in the other API group.
    """

    __slots__ = ("_encoded", "object", "twin", "version")

    def __init__(self, object_: Json, version: int) -> None:
        self.object = object_
        self.version = version
        self.twin: Record | None = None
        self._encoded: bytes | None = None

    @property
    def encoded(self) -> bytes:
        if self._encoded is None:
            self._encoded = _encode(self.object)
        return self._encoded

    @property
    def key(self) -> tuple[str, str]:
        metadata = self.object["metadata"]
        return metadata.get("namespace", ""), metadata["name"]


class Change:
    """One write. `previous` is None for ADDED; for DELETED `record` is the last state."""

    __slots__ = ("_previous_at_version", "previous", "record", "type", "version")

    def __init__(self, type_: ChangeType, record: Record, previous: Record | None) -> None:
        self.type = type_
        self.record = record
        self.previous = previous
        self.version = record.version
        self._previous_at_version: Record | None = None

    @property
    def left(self) -> Record:
        """What a selector that lost the object is shown: the old state at the new version."""
        if self._previous_at_version is None:
            assert self.previous is not None
            old = self.previous.object
            metadata = {**old["metadata"], "resourceVersion": str(self.version)}
            self._previous_at_version = Record({**old, "metadata": metadata}, self.version)
        return self._previous_at_version


class Subscription:
    """A reader's inbox. `drop()` ends it; with a `limit` a reader too slow is dropped too."""

    def __init__(self, histories: Iterable[History], limit: int | None = None) -> None:
        self._limit = limit
        self._pending: list[Change] = []
        self._wakeup = asyncio.Event()
        self._histories = tuple(histories)
        self.dropped = False
        for history in self._histories:
            history.join(self)

    def push(self, change: Change) -> None:
        if self.dropped:
            return
        self._pending.append(change)
        self._wakeup.set()
        if self._limit is not None and len(self._pending) > self._limit:
            self.drop()

    @property
    def has_news(self) -> bool:
        return bool(self._pending)

    def take(self) -> list[Change]:
        """Everything new, without waiting."""
        taken, self._pending = self._pending, []
        if not self.dropped:
            self._wakeup.clear()
        return taken

    def wake(self) -> None:
        """Have `wait` return although there is nothing to take."""
        self._wakeup.set()

    async def wait(self, timeout_s: float | None = None) -> None:
        """Returns when there is something to take, when dropped, or after the time given."""
        if self._wakeup.is_set():
            return
        if timeout_s is None:
            await self._wakeup.wait()
            return
        # Ten times a pod, in a simulation: half the price of asyncio.timeout.
        timer = asyncio.get_running_loop().call_later(timeout_s, self._wakeup.set)
        try:
            await self._wakeup.wait()
        finally:
            timer.cancel()

    def drop(self) -> None:
        self.dropped = True
        self._pending.clear()
        self._wakeup.set()

    def close(self) -> None:
        for history in self._histories:
            history.leave(self)


class History:
    """The last `size` changes of one kind, oldest first."""

    def __init__(self, size: int, version: int) -> None:
        self._changes: deque[Change] = deque()
        self._size = size
        self._forgotten = version
        #: In the order they joined, which is the order they hear of things.
        self._subscriptions: dict[Subscription, None] = {}

    def append(self, change: Change) -> None:
        self._changes.append(change)
        if len(self._changes) > self._size:
            self._forgotten = self._changes.popleft().version
        for subscription in self._subscriptions:
            subscription.push(change)

    def since(self, version: int) -> list[Change]:
        """The changes after that version; Expired when some of them are forgotten."""
        if version < self._forgotten:
            raise too_old(version, self._forgotten)
        found: list[Change] = []
        for change in reversed(self._changes):
            if change.version <= version:
                break
            found.append(change)
        found.reverse()
        return found

    def compact(self, version: int) -> None:
        """Forget everything up to that version."""
        while self._changes and self._changes[0].version <= version:
            self._changes.popleft()
        self._forgotten = max(self._forgotten, version)

    def join(self, subscription: Subscription) -> None:
        self._subscriptions[subscription] = None

    def leave(self, subscription: Subscription) -> None:
        self._subscriptions.pop(subscription, None)
