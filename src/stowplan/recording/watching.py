"""All changes of a cluster, of every kind that a scheduler looks at, as calls of one function.

Read-only: lists and watches. Kinds that the cluster lacks or hides are left out and named. Updates
that change nothing a scheduler reads, such as heartbeats, are not told. A list after the first one
(history was gone, or a server kept failing) is told as a gap; the differences that it shows follow.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from stowplan.api.client import ApiClient
from stowplan.api.informer import Informer
from stowplan.api.resources import NODES, PODS, Resource
from stowplan.clock import Clock
from stowplan.errors import Forbidden, NotFound
from stowplan.logs import get_logger, kv
from stowplan.recording.entries import KINDS, EntryType
from stowplan.recording.scrub import scrubbed

log = get_logger(__name__)
_replace = msgspec.structs.replace


class Watching:
    """One informer per kind, as an async context manager."""

    def __init__(
        self,
        client: ApiClient,
        *,
        on_change: Callable[[EntryType, Resource[Any], Any], None],
        on_gap: Callable[[Resource[Any]], None],
        clock: Clock,
    ) -> None:
        """`on_change` gets ADDED, MODIFIED or DELETED, also for what the first lists show."""
        self._client = client
        self._on_change = on_change
        self._on_gap = on_gap
        self._clock = clock
        self._informers: dict[Resource[Any], Informer[Any]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        #: Kinds that cannot be read, and why.
        self.unread: dict[str, str] = {}

    async def __aenter__(self) -> Watching:
        """Returns when everything was listed. Raises ApiError if nodes or pods cannot be read."""
        for kind in KINDS:
            if await self._may_read(kind):
                self._informers[kind] = self._informer(kind)
        self._tasks = [
            asyncio.create_task(informer.run(), name=f"watch-{kind.plural}")
            for kind, informer in self._informers.items()
        ]
        try:
            await self._synced()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(kind.kind for kind in self._informers)

    def objects(self) -> Iterator[tuple[Resource[Any], Any]]:
        """Everything that is there now."""
        for kind, informer in self._informers.items():
            for obj in informer.store.values():
                yield kind, obj

    async def wait(self, seconds: float) -> None:
        """Let time pass; raises what ends an informer."""
        await asyncio.wait(self._tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        self._check()

    def _check(self) -> None:
        for task in self._tasks:
            if task.done():
                task.result()

    async def _may_read(self, kind: Resource[Any]) -> bool:
        try:
            await self._client.request("GET", kind.path(), params={"limit": 1})
        except (Forbidden, NotFound) as problem:
            if kind in (NODES, PODS):
                raise
            self.unread[kind.plural] = str(problem)
            log.warning("A kind is left out", extra=kv(kind=kind.plural, err=problem))
            return False
        return True

    def _informer(self, kind: Resource[Any]) -> Informer[Any]:
        def changed(old: Any, new: Any) -> None:
            if not _is_same(old, new):
                self._on_change(EntryType.MODIFIED, kind, new)

        return Informer(
            self._client,
            kind,
            on_add=lambda obj: self._on_change(EntryType.ADDED, kind, obj),
            on_update=changed,
            on_delete=lambda obj: self._on_change(EntryType.DELETED, kind, obj),
            on_relist=lambda: self._on_gap(kind),
            clock=self._clock,
        )

    async def _synced(self) -> None:
        async def wait() -> None:
            for informer in self._informers.values():
                await informer.synced.wait()

        syncing = asyncio.create_task(wait(), name="first-lists")
        try:
            await asyncio.wait([syncing, *self._tasks], return_when=asyncio.FIRST_COMPLETED)
            self._check()
            await syncing
        finally:
            syncing.cancel()


def _is_same(old: Any, new: Any) -> bool:
    """Whether an update changes nothing that is recorded."""
    version = new.metadata.resource_version
    older = _replace(old, metadata=_replace(old.metadata, resource_version=version))
    return bool(scrubbed(older) == scrubbed(new))
