"""One hostile pod's life on an engine, measured piece by piece. `bench.attack` is the caller.

The driver does what the live loop does: informer events, attempts until a pod is decided, the end
of its binding, the informer's confirmation. Everything the loop runs without yielding is a
*piece*. At the start of each piece of work for the hostile pod a plain pod is created in another
namespace; it reaches the queue after that piece, as it would live, and attempts go on until it is
decided. Its wait includes the whole piece, so it is the worst that any pod can meet.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeAlias

from stowplan.api.objects import Pod
from stowplan.cluster.work import DECISION_WORK
from stowplan.config.defaults import default_config
from stowplan.lab.bench.hostile import decoded
from stowplan.lab.bench.synthetic import KINDS, as_informed, existing_pods, nodes
from stowplan.plugins.registry import in_tree_registry
from stowplan.scheduler.assembly import build_engine
from stowplan.scheduler.event_handlers import EventHandlers
from stowplan.scheduler.outcome import Deferral, Failure, Placement

#: A manifest by serial number.
Maker: TypeAlias = Callable[[int], dict[str, Any]]

_MIB = 1024 * 1024
#: Plain pods between the deletion of a hostile pod and the look at what is left: caches are
#: evicted when they have not been used for some thousand events.
_AFTERWARDS = 2_500
#: Plain pods before anything is measured: columns are kept from their second use on.
_WARM_UP = 20
#: Plain pods, the median of which is the price of one.
_PLAIN = 30
#: Hostile pods of the memory trial; the second must leave nothing that the first did not.
_LIVES = 2
#: Where hostile pods are created that need no decision.
_NODE = "node-00007"


class TimeLimitError(BaseException):
    """The time of a trial is over. Not an Exception: the engine survives those."""


@dataclass
class Report:
    """What a trial found; a trial that was stopped leaves what it has found so far."""

    #: The longest that a plain pod waited for its decision.
    wait_s: float = 0.0
    #: The longest synchronous piece, and what it was.
    longest_s: float = 0.0
    longest_of: str = ""
    #: All work for the hostile pod until it was decided.
    cpu_s: float = 0.0
    #: What decisions counted as work for it, in array elements.
    work: int = 0
    #: Times that its decision was deferred.
    deferrals: int = 0
    outcome: str = ""
    #: A plain pod's decision and events: before, beside and after the hostile pod.
    plain_before_ms: float = 0.0
    plain_beside_ms: float = 0.0
    plain_after_ms: float = 0.0
    #: Memory at its peak, what was left after deleting, and what the last of several left.
    rise_mib: float | None = None
    kept_mib: float | None = None
    leak_mib: float | None = None
    stored_bytes: int = 0
    #: Why the trial ended early.
    problem: str = ""
    pieces: dict[str, float] = field(default_factory=dict)

    def take_memory(self, traced: Report) -> None:
        self.rise_mib, self.kept_mib = traced.rise_mib, traced.kept_mib
        self.leak_mib = traced.leak_mib
        self.problem = self.problem or (traced.problem and f"memory trial: {traced.problem}")


class AttackedCluster:
    """An engine with nodes and standing pods."""

    def __init__(self, node_count: int, pod_count: int, label_sets: int) -> None:
        self.engine = build_engine(default_config(), registry=in_tree_registry(), rng=Random(1))
        self.engine.decision_work = DECISION_WORK  # as the live loop sets it
        self.handlers = EventHandlers(self.engine)
        for node in nodes(node_count):
            self.handlers.add_node(node)
        for pod in existing_pods(pod_count, node_count, label_sets):
            self.handlers.add_pod(pod)
        self.plain: Iterator[Pod] = KINDS["one shape"]()
        trial = AttackTrial(self, Report())
        for _ in range(_WARM_UP):
            trial.plain_pod()
        gc.collect()
        gc.freeze()  # as a running scheduler does after its first list


class AttackTrial:
    """Hostile pods on a cluster, one after the other, and plain pods behind them."""

    def __init__(self, cluster: AttackedCluster, report: Report) -> None:
        self._cluster = cluster
        self._engine = cluster.engine
        self._handlers = cluster.handlers
        self._report = report
        self._hostile: Pod | None = None
        #: The hostile pod as it stands on a node.
        self._standing: Pod | None = None
        self._is_decided = False

    def create(self, hostile: Pod) -> None:
        """Create a hostile pod and see it decided; a plain pod arrives with each piece."""
        self._hostile = hostile
        self._standing, self._is_decided = None, False
        began = time.thread_time()
        self._informed("informer add", lambda: self._handlers.add_pod(hostile))
        if hostile.spec.node_name:
            self._standing, self._is_decided = hostile, True
            self._report.outcome = "standing"
        self.plain_pod(began)
        while not self._is_decided:
            began = time.thread_time()
            self._advance()
            self.plain_pod(began)

    def update(self, new: Pod) -> None:
        """Update the placed hostile pod to another version."""
        old, self._standing = self._standing, new
        assert old is not None
        began = time.thread_time()
        self._informed("informer update", lambda: self._handlers.update_pod(old, new))
        self.plain_pod(began)

    def delete(self) -> None:
        """Delete the hostile pod."""
        gone = self._standing or self._hostile
        assert gone is not None
        began = time.thread_time()
        self._informed("informer delete", lambda: self._handlers.delete_pod(gone))
        self._hostile = self._standing = None
        self.plain_pod(began)

    def plain_pod(self, created: float | None = None) -> float:
        """See one plain pod decided, confirmed and deleted; what it took without its deletion.

        It was `created` when a piece of work began, and could not be noticed before the end of it.
        """
        began = time.thread_time()
        pod = next(self._cluster.plain)
        self._handlers.add_pod(pod)
        outcome = self._advance()
        while outcome.pod.uid != pod.uid:
            outcome = self._advance()
        decided = time.thread_time()
        if created is not None:
            self._report.wait_s = max(self._report.wait_s, decided - created)
        if not isinstance(outcome, Placement):
            raise RuntimeError(f"a plain pod was not placed: {outcome}")
        placed = self._confirm(outcome)
        took = time.thread_time() - began
        self._handlers.delete_pod(placed)
        return took

    def plain_ms(self) -> float:
        """The price of a plain pod: the median of several."""
        costs = sorted(self.plain_pod() for _ in range(_PLAIN))
        return costs[_PLAIN // 2] * 1e3

    def _advance(self) -> Placement | Failure | Deferral:
        """One attempt, or a part of one. Those of the hostile pod are pieces of work."""
        hostile, work = self._hostile, self._engine.cache.table.work
        began, spent = time.thread_time(), work.spent
        outcome: Placement | Failure | Deferral | None = None
        try:
            outcome = self._engine.advance()
        finally:
            # One that is stopped by a limit is of the hostile pod.
            is_hostile = hostile and (outcome is None or outcome.pod.uid == hostile.uid)
            if is_hostile:
                self._note("decision", time.thread_time() - began)
                self._report.work += work.spent - spent
        if outcome is None:
            raise RuntimeError("no pod is left in the queue, and one is not decided")
        if isinstance(outcome, Deferral):
            self._report.deferrals += 1
        elif is_hostile:
            self._is_decided = True
            self._hostile_decided(outcome)
        return outcome

    def _hostile_decided(self, outcome: Placement | Failure) -> None:
        if isinstance(outcome, Placement):
            self._report.outcome = outcome.node
            self._informed("confirmation", lambda: self._stand(outcome))
            return
        self._report.outcome = outcome.message[:200]
        if outcome.reason == "SchedulerError":
            self._report.problem = outcome.message[:80]

    def _stand(self, placement: Placement) -> None:
        self._standing = self._confirm(placement)

    def _confirm(self, placement: Placement) -> Pod:
        """Finish a binding, and deliver the informer's event for it."""
        self._engine.permitted(placement)
        self._engine.bound(placement)
        informed = as_informed(placement.pod)
        self._handlers.update_pod(placement.queued.pod, informed)
        return informed

    def _informed(self, name: str, work: Callable[[], None]) -> None:
        began = time.thread_time()
        try:
            work()
        finally:
            self._note(name, time.thread_time() - began)

    def _note(self, name: str, took: float) -> None:
        """Record the end of a piece of work for the hostile pod."""
        report = self._report
        report.pieces[name] = max(report.pieces.get(name, 0.0), took)
        report.wait_s = max(report.wait_s, took)
        if name not in ("informer update", "informer delete"):
            report.cpu_s += took
        if took > report.longest_s:
            report.longest_s, report.longest_of = took, name


def time_trial(cluster: AttackedCluster, make: Maker, report: Report, *, is_standing: bool) -> None:
    """Waiting, pieces and CPU time of one hostile pod."""
    trial = AttackTrial(cluster, report)
    hostile = decoded(make(0), node=_NODE if is_standing else "")
    report.plain_before_ms = trial.plain_ms()
    trial.create(hostile)
    report.plain_beside_ms = trial.plain_ms()
    trial.delete()
    report.plain_after_ms = trial.plain_ms()


def memory_trial(
    cluster: AttackedCluster, make: Maker, report: Report, *, is_standing: bool
) -> None:
    """What hostile pods allocate, and what of it stays when they are deleted."""
    trial = AttackTrial(cluster, report)
    left = 0.0
    tracemalloc.start(1)
    report.rise_mib = 0.0
    try:
        for serial in range(_LIVES):
            hostile = decoded(make(serial), node=_NODE if is_standing else "")
            trial.create(hostile)
            trial.delete()
            del hostile
            for _ in range(_AFTERWARDS):
                trial.plain_pod()
            gc.collect()
            now, peak = (each / _MIB for each in tracemalloc.get_traced_memory())
            report.rise_mib = max(report.rise_mib, peak)
            left, report.leak_mib, report.kept_mib = now, now - left, now
    except TimeLimitError:
        report.rise_mib = max(report.rise_mib, tracemalloc.get_traced_memory()[1] / _MIB)
        raise
    finally:
        tracemalloc.stop()
