"""Watches a cluster and calls one function for every change of some kinds.

Read-only: lists and watches. Kinds that the cluster lacks or that the account may not read are
skipped and reported. Updates that change no field that schedulers read, such as heartbeats, are
dropped. A list after the first one (the watch expired, or the server kept failing) is reported as a
gap, followed by the differences. Events of schedulers have a separate callback.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Final

import msgspec

from stowplan.api.client import ApiClient
from stowplan.api.informer import Informer
from stowplan.api.resources import NAMESPACES, NODES, PODS, Resource
from stowplan.clock import Clock
from stowplan.errors import Forbidden, NotFound
from stowplan.logs import V2, get_logger, kv
from stowplan.recording.decisions import EVENTS, RESULTS, SchedulingEvent
from stowplan.recording.entries import EntryType
from stowplan.recording.scrub import scrubbed

log = get_logger(__name__)

#: The remedy for missing permissions.
FIX_PERMISSIONS: Final = (
    "Fix: apply the ClusterRole in deploy/record/base/rbac.yaml, and bind it to this account"
)
#: Why a kind cannot be read: this account may not list it, or the server does not have it. The
#: server's own words are not recorded, because they name the account.
FORBIDDEN: Final = "forbidden"
ABSENT: Final = "absent"
#: Watches are opened again and again. A pause this short is no outage.
_PAUSE_S: Final = 1.0
_replace = msgspec.structs.replace


class Watching:
    """One informer per kind, as an async context manager."""

    def __init__(
        self,
        client: ApiClient,
        kinds: Sequence[Resource[Any]],
        *,
        on_change: Callable[[EntryType, Resource[Any], Any], None],
        on_gap: Callable[[Resource[Any]], None],
        on_event: Callable[[SchedulingEvent], None] | None = None,
        optional: Collection[Resource[Any]] = (),
        clock: Clock,
    ) -> None:
        """`on_change` gets ADDED, MODIFIED or DELETED, also for the first lists; `on_event` gets
        only events after them. `optional` kinds are left out without a warning.
        """
        self._client = client
        self._kinds = kinds
        self._optional = optional
        self._on_event = on_event
        self._on_change = on_change
        self._on_gap = on_gap
        self._clock = clock
        self._informers: dict[Resource[Any], Informer[Any]] = {}
        self._events: list[Informer[SchedulingEvent]] = []
        self._tasks: list[asyncio.Task[None]] = []
        #: Kinds that cannot be read, and why: `FORBIDDEN` or `ABSENT`.
        self.unread: dict[str, str] = {}

    async def __aenter__(self) -> Watching:
        """List everything. Raises ApiError if nodes or pods cannot be read."""
        await self._check_essential()
        for kind in self._kinds:
            if await self._may_read(kind):
                self._informers[kind] = self._informer(kind)
        if self._on_event is not None and await self._may_read(EVENTS):
            self._events = [self._event_informer(reason) for reason in RESULTS]
        self._tasks = [
            asyncio.create_task(informer.run(), name=f"watch-{kind.plural}")
            for kind, informer in self._informers.items()
        ]
        self._tasks += [
            asyncio.create_task(informer.run(), name="watch-events") for informer in self._events
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

    @property
    def cluster(self) -> str:
        """The UID of the namespace kube-system, which tells clusters apart; empty if unknown."""
        namespaces = self._informers.get(NAMESPACES)
        system = None if namespaces is None else namespaces.store.get("kube-system")
        return "" if system is None else str(system.metadata.uid)

    def objects(self) -> Iterator[tuple[Resource[Any], Any]]:
        """All objects that exist now."""
        for kind, informer in self._informers.items():
            for obj in informer.store.values():
                yield kind, obj

    async def wait(self, seconds: float) -> None:
        """Wait this long. Raises the error that ended an informer."""
        await asyncio.wait(self._tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        self._check()

    def _check(self) -> None:
        for task in self._tasks:
            if task.done():
                task.result()

    def outage(self) -> str:
        """How long some kinds have not been watched, and which; empty if all are watched."""
        now, is_away = self._clock.monotonic(), self._client.reachability.is_away
        lost = {
            kind.kind: since
            for kind, each in self._informers.items()
            if (since := each.unwatched_since) is not None
            and (is_away or each.must_list or now - since > _PAUSE_S)
        }
        if not lost:
            return ""
        what = "no connection to the API server" if is_away else "no watch"
        which = "" if len(lost) == len(self._informers) else f": {', '.join(lost)}"
        return f"{what} in the last {now - min(lost.values()):,.1f} s{which}"

    def warnings(self, consequence: str) -> list[str]:
        """What cannot be read, in at most two messages; `consequence` is such as "are left out"."""
        found = []
        if listed := self._unread(FORBIDDEN):
            found.append(
                f"this account may not list {listed}: these kinds {consequence}. {FIX_PERMISSIONS}"
            )
        if listed := self._unread(ABSENT):
            found.append(f"the server does not have {listed}: these kinds {consequence}")
        return found

    def _unread(self, why: str) -> str:
        return ", ".join(kind for kind, each in self.unread.items() if each == why)

    async def _check_essential(self) -> None:
        """Raise Forbidden if nodes or pods cannot be listed; one message names both."""
        refused: list[Forbidden] = []
        kinds: list[str] = []
        for kind in (NODES, PODS):
            try:
                await self._probe(kind)
            except Forbidden as problem:
                refused.append(problem)
                kinds.append(kind.plural)
        if refused:
            raise Forbidden(
                f"this account may not list {' and '.join(kinds)}, without which nothing can be"
                f" compared or recorded ({refused[0]}). {FIX_PERMISSIONS}"
            )

    async def _probe(self, kind: Resource[Any]) -> None:
        await self._client.request("GET", kind.path(), params={"limit": 1})

    async def _may_read(self, kind: Resource[Any]) -> bool:
        if kind in (NODES, PODS):
            return True  # checked before
        try:
            await self._probe(kind)
        except (Forbidden, NotFound) as problem:
            log.log(V2, "A kind is left out", extra=kv(kind=kind.plural, err=problem))
            if kind not in self._optional:
                is_forbidden = isinstance(problem, Forbidden)
                self.unread[kind.plural] = FORBIDDEN if is_forbidden else ABSENT
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

    def _event_informer(self, reason: str) -> Informer[SchedulingEvent]:
        """An informer for one reason: field selectors have no "or", and most events are others."""
        tell = self._on_event
        assert tell is not None

        def added(event: SchedulingEvent) -> None:
            if informer.synced.is_set():
                tell(event)

        informer = Informer(
            self._client,
            EVENTS,
            on_add=added,
            on_update=lambda _, event: tell(event),
            on_delete=lambda _: None,
            field_selector=f"reason={reason}",
            clock=self._clock,
        )
        return informer

    async def _synced(self) -> None:
        async def wait() -> None:
            for informer in (*self._informers.values(), *self._events):
                await informer.synced.wait()

        syncing = asyncio.create_task(wait(), name="first-lists")
        try:
            await asyncio.wait([syncing, *self._tasks], return_when=asyncio.FIRST_COMPLETED)
            self._check()
            await syncing
        finally:
            syncing.cancel()


def _is_same(old: Any, new: Any) -> bool:
    """Whether an update changes no recorded field."""
    version = new.metadata.resource_version
    older = _replace(old, metadata=_replace(old.metadata, resource_version=version))
    return bool(scrubbed(older) == scrubbed(new))
