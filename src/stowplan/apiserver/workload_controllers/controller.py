"""The workload controllers as one task: which object is reconciled when.

A change queues its object, the owners of the object and the workloads that may adopt it. Each
queued object is reconciled alone, and requests are served in between. An object that was just
reconciled waits `settle_s`, and longer if it has many dependents, so a burst of changes costs one
reconciliation. A failed one is repeated after a growing pause, until it succeeds or the object is
gone.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass

from stowplan.apiserver.deletion import Deleter
from stowplan.apiserver.history import Change, Json, Record, Subscription
from stowplan.apiserver.kinds import (
    DEPLOYMENTS,
    EVENTS,
    JOBS,
    KINDS,
    NODES,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    Kind,
)
from stowplan.apiserver.store import Store, storage_kind
from stowplan.apiserver.workload_controllers.deployments import Deployments
from stowplan.apiserver.workload_controllers.garbage import GarbageCollector, waits_for_collector
from stowplan.apiserver.workload_controllers.jobs import Jobs
from stowplan.apiserver.workload_controllers.objects import ClusterObjects
from stowplan.apiserver.workload_controllers.owner_index import ADOPTS, Thing, controller_of
from stowplan.apiserver.workload_controllers.replica_sets import ReplicaSets
from stowplan.apiserver.workload_controllers.stateful_sets import StatefulSets
from stowplan.apiserver.writing import Writer
from stowplan.errors import ApiError
from stowplan.logs import get_logger, kv

log = get_logger(__name__)

_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 60.0
#: A reconciliation looks at all dependents, so one with many comes less often.
_DEPENDENTS_A_PAUSE = 500
_WATCHED = tuple(
    kind for kind in KINDS if kind.stored and storage_kind(kind) is kind and kind is not EVENTS
)
_KIND_OF = {(kind.api_version, kind.kind): kind for kind in _WATCHED}


@dataclass(frozen=True, slots=True)
class WorkloadControllerOptions:
    """Times in seconds. With `enabled` off workloads stay as they were written.

    `settle_s` is the least time between two reconciliations of one object, `job_backoff_s` the
    pause after a Job's first failed pod.
    """

    enabled: bool = True
    settle_s: float = 0.05
    job_backoff_s: float = 10.0


class WorkloadController:
    """Makes and replaces the pods of workloads, and deletes what deleted owners leave."""

    def __init__(
        self,
        store: Store,
        writer: Writer,
        deleter: Deleter,
        options: WorkloadControllerOptions,
    ) -> None:
        self._store = store
        self._options = options
        self._writer = writer
        self._deleter = deleter
        self._inbox: Subscription | None = None
        self._order = itertools.count()
        self._begin()

    def _begin(self) -> None:
        """Start from nothing, so that a second run finds what is stored then."""
        objects = ClusterObjects(self._store, self._writer, self._deleter)
        self._objects = objects
        self._garbage = GarbageCollector(objects)
        self._jobs = Jobs(objects, self._options.job_backoff_s)
        self._reconcilers = {
            REPLICA_SETS: ReplicaSets(objects).reconcile,
            DEPLOYMENTS: Deployments(objects).reconcile,
            STATEFUL_SETS: StatefulSets(objects).reconcile,
            JOBS: self._jobs.reconcile,
        }
        self._due: list[tuple[float, int, Thing]] = []
        #: When each queued object is due; entries of `_due` with another time are void.
        self._when: dict[Thing, float] = {}
        self._last: dict[Thing, float] = {}
        self._failures: dict[Thing, int] = {}
        self._gone: list[str] = []
        self._gone_nodes: list[str] = []

    @property
    def has_work(self) -> bool:
        """Some object is to be reconciled soon, or a change has not been looked at yet."""
        horizon = self._store.clock.monotonic() + 2 * self._options.settle_s
        is_soon = bool(self._due) and self._due[0][0] <= horizon
        return is_soon or (self._inbox is not None and self._inbox.has_news)

    async def run(self) -> None:
        """Until cancelled."""
        inbox = self._inbox = self._store.subscribe(*_WATCHED)
        self._begin()
        try:
            for kind in _WATCHED:
                for record in self._store.records(kind):
                    self._see(Change("ADDED", record, None))
            while True:
                for change in inbox.take():
                    self._see(change)
                if self._do_next():
                    await asyncio.sleep(0)
                else:
                    await inbox.wait(self._pause())
        finally:
            inbox.close()
            self._inbox = None

    # What is queued

    def _see(self, change: Change) -> None:
        obj, key = change.record.object, change.record.key
        kind = _KIND_OF[obj["apiVersion"], obj["kind"]]
        thing = kind, key
        gone = change.type == "DELETED"
        current = self._store.get(kind, *key)
        self._objects.index.put(kind, key, None if current is None else current.object)
        if gone:
            self._gone.append(obj["metadata"]["uid"])
            if current is None:
                self._forget(thing, obj)
            if kind is NODES:
                self._gone_nodes.append(key[1])
        elif self._concerns_us(kind, obj):
            self._soon(thing)
        for version in (obj, change.previous.object if change.previous else obj):
            self._queue_owners(version)
        if current is not None and controller_of(current.object) is None:
            self._queue_adopters(kind, current)
        if change.type == "ADDED" and kind in ADOPTS:
            self._offer_orphans(thing)

    def _concerns_us(self, kind: Kind, obj: Json) -> bool:
        if kind in self._reconcilers or waits_for_collector(obj):
            return True
        return kind is PODS and bool(obj["metadata"].get("finalizers"))

    def _queue_owners(self, obj: Json) -> None:
        for reference in obj["metadata"].get("ownerReferences") or ():
            owner = self._objects.owner(obj, reference)
            if owner is not None:
                kind = _KIND_OF[owner.object["apiVersion"], owner.object["kind"]]
                if self._concerns_us(kind, owner.object):
                    self._soon((kind, owner.key))

    def _queue_adopters(self, kind: Kind, record: Record) -> None:
        labels = record.object["metadata"].get("labels") or {}
        if "deletionTimestamp" in record.object["metadata"]:
            return
        for thing in self._objects.index.selecting(kind, record.key, labels):
            self._objects.adoptable.setdefault(thing, {})[record.key] = None
            self._soon(thing)

    def _offer_orphans(self, thing: Thing) -> None:
        kind, key = thing
        orphans = self._objects.index.orphans(ADOPTS[kind], key[0])
        if orphans:
            self._objects.adoptable.setdefault(thing, {}).update(dict.fromkeys(orphans))

    def _forget(self, thing: Thing, obj: Json) -> None:
        for table in (self._when, self._last, self._failures, self._objects.adoptable):
            table.pop(thing, None)
        self._jobs.forget(obj["metadata"]["uid"])

    # When

    def _soon(self, thing: Thing) -> None:
        now = self._store.clock.monotonic()
        record = self._objects.get(*thing)
        uid = "" if record is None else record.object["metadata"]["uid"]
        size = self._objects.index.count_dependents(uid)
        pause = self._options.settle_s * (1 + size / _DEPENDENTS_A_PAUSE)
        self._at(thing, max(now, self._last.get(thing, now) + pause))

    def _at(self, thing: Thing, when: float) -> None:
        if when < self._when.get(thing, float("inf")):
            self._when[thing] = when
            heapq.heappush(self._due, (when, next(self._order), thing))

    def _pause(self) -> float | None:
        if not self._due:
            return None
        return max(0.0, self._due[0][0] - self._store.clock.monotonic())

    def _do_next(self) -> bool:
        """Do one piece of work; False if none is due."""
        if self._gone:
            self._garbage.owner_is_gone(self._gone.pop())
            return True
        if self._gone_nodes:
            self._garbage.node_is_gone(self._gone_nodes.pop())
            return True
        now = self._store.clock.monotonic()
        while self._due and self._due[0][0] <= now:
            when, _, thing = heapq.heappop(self._due)
            if self._when.get(thing) == when:
                del self._when[thing]
                self._last[thing] = now
                self._reconcile(thing)
                return True
        return False

    def _reconcile(self, thing: Thing) -> None:
        kind, key = thing
        record = self._objects.get(kind, key)
        if record is None:
            return
        try:
            if waits_for_collector(record.object):
                self._garbage.finish(kind, record)
            elif kind is PODS:
                self._jobs.release(record)
            elif "deletionTimestamp" not in record.object["metadata"]:
                self._reconcilers[kind](record, self._again_in(thing))
        except ApiError as error:
            self._retry(thing, error.message)
        except Exception as error:
            log.exception("A workload controller failed", extra=kv(kind=kind.kind, key=key))
            self._retry(thing, f"{type(error).__name__}: {error}")
        else:
            self._failures.pop(thing, None)

    def _again_in(self, thing: Thing) -> Callable[[float], None]:
        def again(seconds: float) -> None:
            pause = max(seconds, self._options.settle_s)
            self._at(thing, self._store.clock.monotonic() + pause)

        return again

    def _retry(self, thing: Thing, why: str) -> None:
        count = self._failures[thing] = self._failures.get(thing, 0) + 1
        pause = min(_FIRST_PAUSE_S * 2 ** min(count - 1, 10), _LONGEST_PAUSE_S)
        self._at(thing, self._store.clock.monotonic() + pause)
        kind, key = thing
        log.info(
            "Workload will be tried again",
            extra=kv(kind=kind.kind, key="/".join(key), after_s=pause, reason=why),
        )
