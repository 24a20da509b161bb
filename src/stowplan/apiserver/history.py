"""What happened to the objects of one kind, so that watches can start in the past.

A `Record` is one version of an object, never changed.
A `Change` is one write. `History` keeps the last changes and knows what it has forgotten; a
`Subscription` hands new changes to one reader and wakes it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from contextvars import copy_context
from typing import Any, Literal, TypeAlias

import msgspec

from stowplan.apiserver.statuses import too_old

Json: TypeAlias = dict[str, Any]
ChangeType: TypeAlias = Literal["ADDED", "MODIFIED", "DELETED"]

_encode = msgspec.json.Encoder().encode


class Record:
    """One version of one object. `object` must not be mutated by anyone.

    `key` is namespace and name. `twin` caches the same Event in the other API group.
    """

    __slots__ = ("_encoded", "_keeps_encoding", "key", "object", "twin", "version")

    def __init__(self, object_: Json, version: int, key: tuple[str, str] | None = None) -> None:
        """`key`: that of the version before, which saves memory."""
        self.object = object_
        self.version = version
        if key is None:
            metadata = object_["metadata"]
            key = metadata.get("namespace", ""), metadata.get("name", "")
        self.key = key
        self.twin: Record | None = None
        self._keeps_encoding = True
        self._encoded: bytes | None = None

    @property
    def encoded(self) -> bytes:
        """The object as JSON, encoded once for all readers until `forget_encoding`."""
        if self._encoded is not None:
            return self._encoded
        encoded = _encode(self.object)
        if self._keeps_encoding:
            self._encoded = encoded
        return encoded

    def forget_encoding(self) -> None:
        """Encode the object for each reader from now on, which saves memory."""
        self._encoded, self._keeps_encoding = None, False


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
    """A reader's inbox. `drop()` ends it; with a `limit` a reader too slow is dropped too.

    `wants` is asked about each change at once, so that others do not wake the reader.
    """

    def __init__(
        self,
        histories: Iterable[History],
        limit: int | None = None,
        wants: Callable[[Change], bool] | None = None,
    ) -> None:
        self._limit = limit
        self.wants = wants
        self._pending: list[Change] = []
        #: Resolved when the reader must look; a plain future, because an asyncio.Event asks for
        #: the running loop, and so for the process's id, each time it is waited for.
        self._waiter: asyncio.Future[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        #: In place of `_waiter` while a reader follows: has its callback run soon.
        self._call_soon: Callable[[], object] | None = None
        self._is_called = False
        self._is_woken = False
        self._histories = tuple(histories)
        self.dropped = False
        for history in self._histories:
            history.join(self)

    def push(self, change: Change) -> None:
        if self.dropped:
            return
        self._pending.append(change)
        self.wake()
        if self._limit is not None and len(self._pending) > self._limit:
            self.drop()

    @property
    def has_news(self) -> bool:
        return bool(self._pending)

    def take(self) -> list[Change]:
        """Everything new, without waiting."""
        taken, self._pending = self._pending, []
        self._is_woken = self.dropped
        return taken

    def wake(self) -> None:
        """Have `wait` return, or `follow` look, although there is nothing to take."""
        self._is_woken = True
        if self._call_soon is not None:
            if not self._is_called:
                self._is_called = True
                self._call_soon()
        elif self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self, timeout_s: float | None = None) -> None:
        """Returns when there is something to take, when dropped, or after the time given.

        For one reader: a second one must not wait at the same time.
        """
        if self._is_woken:
            return
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        self._waiter = self._loop.create_future()
        timer = None
        if timeout_s is not None:
            # Ten times a pod, in a simulation: half the price of asyncio.timeout.
            timer = self._loop.call_later(timeout_s, self.wake)
        try:
            await self._waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()

    async def follow(self, look: Callable[[], None]) -> None:
        """Call `look`, which must `take`, for all that is new, until dropped.

        Raises what it raises. The same as a loop of `wait` and `take`, in the same turns of the
        event loop, for less: no future and no coroutine is resumed for a change.
        """
        loop = asyncio.get_running_loop()
        over = loop.create_future()
        context = copy_context()

        def look_until_nothing_is_new() -> None:
            try:
                while self._is_woken and not over.done():
                    if self.dropped:
                        over.set_result(None)
                    else:
                        look()
            except Exception as error:
                if not over.done():
                    over.set_exception(error)
            finally:
                self._is_called = False

        self._call_soon = lambda: loop.call_soon(look_until_nothing_is_new, context=context)
        try:
            self._is_called = True
            look_until_nothing_is_new()
            await over
        finally:
            self._call_soon = None
            self._is_called = False

    def drop(self) -> None:
        self.dropped = True
        self._pending.clear()
        self.wake()

    def close(self) -> None:
        for history in self._histories:
            history.leave(self)


class History:
    """The last `size` changes of one kind, oldest first."""

    def __init__(self, size: int, version: int, *, keeps_encodings: bool = True) -> None:
        """Without `keeps_encodings`, what leaves the history is encoded again when it is read."""
        self._changes: deque[Change] = deque()
        self._size = size
        self._keeps_encodings = keeps_encodings
        self._forgotten = version
        #: In the order they joined, which is the order they hear of things.
        self._subscriptions: dict[Subscription, None] = {}

    def append(self, change: Change) -> None:
        self._changes.append(change)
        if len(self._changes) > self._size:
            self._forgotten = self._forget_oldest()
        for subscription in self._subscriptions:
            if subscription.wants is None or subscription.wants(change):
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
            self._forget_oldest()
        self._forgotten = max(self._forgotten, version)

    def _forget_oldest(self) -> int:
        oldest = self._changes.popleft()
        if not self._keeps_encodings:
            oldest.record.forget_encoding()
        return oldest.version

    def join(self, subscription: Subscription) -> None:
        self._subscriptions[subscription] = None

    def leave(self, subscription: Subscription) -> None:
        self._subscriptions.pop(subscription, None)
