"""The synchronous core of the scheduler: cluster events in, attempts out.

No event loop, no I/O, one thread. `loop` drives it live; a simulator can drive it on a virtual
clock. It owns the cache, the queue, the profiles and the search cursor. An attempt ends as a
`Placement` (assumed and reserved; the caller binds it) or as a `Failure` (already queued again; the
caller reports it). The caller must end each Placement with `bound` or `bind_failed`, exactly once.
A decision that spends too much work (`cluster.work`) is interrupted by a `Deferral`: the attempt
goes on after other pods.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from math import inf
from typing import Any

from stowplan.api.objects import Pod
from stowplan.api.resources import Resource
from stowplan.clock import Clock
from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.pod_info import PodInfo, compile_pod, held_amounts
from stowplan.cluster.work import DecisionDeferred
from stowplan.errors import ConfigError
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import call
from stowplan.framework.handle import Handle
from stowplan.framework.plugin import Eviction, Plugin
from stowplan.framework.profile import Profile
from stowplan.framework.status import SUCCESS, Status, error
from stowplan.logs import V3, V4, V10, get_logger, kv
from stowplan.plugin_failures import PluginFailures, describe
from stowplan.queue.events import ASSIGNED_POD_DELETE, EventHint
from stowplan.queue.hints import complete_hints
from stowplan.queue.pod import QueuedPod
from stowplan.queue.queue import SchedulingQueue
from stowplan.scheduler.attempt_metrics import AttemptMetrics
from stowplan.scheduler.attempt_trace import AttemptTrace, Tracer
from stowplan.scheduler.configured_extender import ConfiguredExtender
from stowplan.scheduler.cycle import decide_steps
from stowplan.scheduler.decision import Decision
from stowplan.scheduler.decision_log import log_verdicts
from stowplan.scheduler.expensive import (
    MAX_DEFERRALS,
    TOO_EXPENSIVE,
    ExpensiveDecisions,
    work_limit,
)
from stowplan.scheduler.extender_requests import EXTENDER, Answer, PreemptRequest, Request
from stowplan.scheduler.failed_attempt import attempt_failed, over, rejected_late, skip
from stowplan.scheduler.ledger import Ledger
from stowplan.scheduler.metrics import SchedulerMetrics
from stowplan.scheduler.outcome import Deferral, Failure, Placement
from stowplan.scheduler.permit import run_permit, run_reserve, run_unreserve
from stowplan.scheduler.pre_enqueue import PreEnqueue
from stowplan.scheduler.self_check import SelfCheck

log = get_logger(__name__)


class Engine:
    """Everything that decides, wired together."""

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        *,
        cache: ClusterCache,
        clock: Clock,
        handles: Mapping[str, Handle],
        extenders: Sequence[ConfiguredExtender] = (),
        draw_seed: int = 0,
        metrics: SchedulerMetrics | None = None,
        stopwatch_clock: Clock | None = None,
        observes_durations: bool = True,
        lookup: Callable[[str], Pod | None] | None = None,
        initial_backoff_s: float = 1.0,
        max_backoff_s: float = 10.0,
        max_in_unschedulable_s: float = 300.0,
    ) -> None:
        if not profiles:
            raise ConfigError("at least one profile is needed", where="profiles")
        self.profiles = dict(profiles)
        self.handles = dict(handles)
        self.cache = cache
        self.clock = clock
        self.extenders = tuple(extenders)
        #: For ties among nodes that extenders have scored.
        self.draw_seed = draw_seed
        self.metrics = metrics or SchedulerMetrics()
        self.observes_durations = observes_durations
        #: Finds the current version of a pod by namespace/name; without one, the queue's is used.
        self.lookup = lookup
        self.cursor = 0
        #: Work that a decision may spend before it is deferred. The loop sets it, to yield to I/O;
        #: by default there are no deferrals.
        self.decision_work: float = inf
        #: How to stop the PreBind plugins of a pod, by UID; set by the binder that runs them.
        self.pre_binding: dict[str, Callable[[str], None]] = {}
        #: Decisions so far; this number seeds the random choices for a pod.
        self.turn = 0
        #: Whether the diagnosis is complete for `on_decision`, also of pods that find a node.
        self.keeps_verdicts = False
        #: Called with every decision while the table is as it was decided on.
        self.on_decision: Callable[[Decision], None] | None = None
        #: Records attempts for tracing; None: they are not traced.
        self.tracer: Tracer | None = None
        #: The record of the attempt that is decided.
        self.current_trace: AttemptTrace | None = None
        #: Keeps what attempts decided; None: nothing is kept.
        self.ledger: Ledger | None = None
        #: Seconds by extension point of the latest decision, if the ledger keeps them.
        self._durations: dict[str, float] | None = None
        #: Decides every N-th pod a second time on a rebuilt cluster (`verify_decisions`).
        self._self_check: SelfCheck | None = None
        self._expensive = ExpensiveDecisions(self.metrics, clock)
        stopwatch_clock = stopwatch_clock or clock
        #: Logs what plugins raise. Real time folds repeats: virtual hours pass in a second.
        self.failures = PluginFailures(stopwatch_clock)
        self._attempt_metrics = AttemptMetrics(
            self.profiles,
            self.metrics,
            self._expensive,
            clock=clock,
            stopwatch_clock=stopwatch_clock,
            observes_durations=observes_durations,
        )
        sorter = next(iter(self.profiles.values())).at("queueSort")[0]
        self.queue = SchedulingQueue(
            clock=clock,
            key=getattr(sorter, "sort_key", None),
            less=getattr(sorter, "less", None),
            pre_enqueue=PreEnqueue(self.profiles, self._attempt_metrics, clock).run,
            hints={name: _hints(profile) for name, profile in self.profiles.items()},
            pod_requests=held_amounts,
            failures=self.failures,
            on_hint=self.metrics.hint_ran,
            initial_backoff_s=initial_backoff_s,
            max_backoff_s=max_backoff_s,
            max_in_unschedulable_s=max_in_unschedulable_s,
        )

    def plugins(self) -> list[Plugin]:
        """The plugins of all profiles."""
        return [plugin for each in self.profiles.values() for plugin in each.plugins.values()]

    def looked_up(self) -> list[Resource[Any]]:
        """The kinds besides nodes and pods that some plugin looks up."""
        return list(dict.fromkeys(kind for plugin in self.plugins() for kind in plugin.looks_up))

    def verify_decisions(self, every: int) -> None:
        """Make every N-th decision again on a rebuilt cluster and compare; 0: none of them."""
        self._self_check = SelfCheck(self, every) if every else None

    def mismatches(self) -> str:
        """How many verified decisions were wrong; empty if none was."""
        found = sum(count.value for count in self.metrics.decision_mismatches.children.values())
        if not found:
            return ""
        return f"decisions that differ from those on a rebuilt cluster: {found:.0f}; see the log"

    def serves(self, pod: Pod) -> bool:
        """Whether a pod asks for one of our profiles."""
        return pod.spec.scheduler_name in self.profiles

    # An attempt

    def attempt(self) -> Placement | Failure | None:
        """Try pods of the queue until an attempt ends; None when there is none."""
        while isinstance(outcome := self.advance(), Deferral):
            pass
        return outcome

    def advance(self) -> Placement | Failure | Deferral | None:
        """Try the next pod of the queue; None when there is none. Only without extenders."""
        try:
            next(self.attempt_steps())
        except StopIteration as finished:
            outcome: Placement | Failure | Deferral | None = finished.value
            return outcome
        raise AssertionError("a profile with extenders needs attempt_steps")

    def attempt_steps(self) -> Generator[Request, Answer, Placement | Failure | Deferral | None]:
        """`advance` with extenders; neither table nor queue may change while one is asked."""
        queued = self.queue.pop()
        if queued is None:
            return None
        if log.isEnabledFor(V3):
            log.log(V4, "About to try and schedule pod", extra=kv(pod=queued.key))
            log.log(V3, "Attempting to schedule pod", extra=kv(pod=queued.key))
        started = queued.attempt_started if queued.deferrals else self.clock.monotonic()
        if queued.initial_attempt_timestamp is None:
            queued.initial_attempt_timestamp = started
        skipped = skip(self, queued)
        if skipped is not None:
            return skipped
        if self.tracer is not None and not queued.deferrals:
            queued.trace = self.tracer.begin(queued, started)
        self.current_trace = queued.trace
        profile = self.profiles[queued.scheduler_name]
        work = self.cache.table.work
        spent = work.spent
        try:
            info = _compiled(queued)
            self.cache.table.labels.trim()
            limit = self.decision_work
            work.limit(work_limit(limit, queued.deferrals) if queued.deferrals else limit)
            check = None if queued.deferrals else self._self_check
            if check is None or not check.is_due():
                decision = yield from self._decide(info, profile)
            else:
                decide = partial(self._decide, info, profile)
                decision = yield from check.decide(info, profile, decide)
            if queued.deferrals:
                queued.deferred_work += work.spent - spent
                self._expensive.finished(queued)
            if self.ledger is not None:
                waited = started - queued.timestamp
                self.ledger.decided(queued, decision, profile, self._durations, waited)
            decision.search = None  # its columns change with the table
            if decision.node is None:
                return self._decided_nowhere(queued, decision, started)
            return self._reserve(queued, profile, decision, info, started)
        except DecisionDeferred:
            queued.deferred_work += work.spent - spent
            return self._deferred(queued, profile.name, started)
        except Exception as problem:
            # A defect of ours or of a plugin must cost this attempt only, never the process.
            self.failures.report("Scheduling attempt broke", problem, pod=queued.key)
            self.cache.forget(queued.uid)
            return attempt_failed(self, queued, error(describe(problem)), profile.name, started)

    def _deferred(self, queued: QueuedPod, profile: str, started: float) -> Deferral | Failure:
        """Go on with the attempt later, unless so far all of its work led nowhere."""
        if queued.deferrals >= MAX_DEFERRALS:
            self._expensive.finished(queued)
            return attempt_failed(self, queued, error(TOO_EXPENSIVE), profile, started)
        queued.attempt_started = started
        if not self.queue.defer(queued):
            return over(queued, "the pod is gone")
        self._expensive.deferred(queued)
        return Deferral(queued.pod)

    def _decide(self, info: PodInfo, profile: Profile) -> Generator[Request, Answer, Decision]:
        trace = self.current_trace
        observed, monotonic = self._attempt_metrics, self.clock.monotonic
        before = last = monotonic()
        durations = self.metrics.framework_extension_point_duration
        kept: dict[str, float] | None = None
        if self.ledger is not None and self.ledger.has_time(before, is_rush=self.queue.has_rush):
            kept = {}
        self._durations = kept

        def on_point(point: str, status: str) -> None:
            nonlocal last
            now = monotonic()
            durations.at(point, status, profile.name).observe(now - last)
            if trace is not None:
                trace.point(point, status, last, now)
            if kept is not None:
                # A nominated node is filtered before all others.
                kept[point] = kept.get(point, 0.0) + now - last
            last = now

        is_timed = self.observes_durations or trace is not None or kept is not None
        nominator, table = self.queue.nominator, self.cache.table
        is_explained = log.isEnabledFor(V10)
        steps = decide_steps(
            table,
            info,
            profile,
            cursor=self.cursor,
            turn=self.turn,
            nominated=nominator if len(nominator) else None,
            extenders=self.extenders,
            draw_seed=self.draw_seed,
            on_point=on_point if is_timed else None,
            watch=observed.watch(profile.name),
            keeps_verdicts=is_explained or self.keeps_verdicts,
        )
        try:
            request = next(steps)
            # An extender must not be asked twice about the same decision.
            table.work.unlimit()
            while True:
                answer = yield request
                if not isinstance(request, PreemptRequest):  # which is a part of PostFilter
                    last = monotonic()  # the time until now was the extender's
                request = steps.send(answer)
        except StopIteration as finished:
            decision: Decision = finished.value
            if trace is not None:
                trace.decided(decision)
            self.cursor = decision.cursor
            self.turn += 1
            observed.evaluations[profile.name].count(decision)
            self.metrics.scheduling_algorithm_duration.at().observe(monotonic() - before)
            self._log_failures(decision.cycle)
            if is_explained:
                log_verdicts(decision, [extender.name for extender in self.extenders])
            observed.report_slow_plugins(decision.cycle, profile)
            if self.on_decision is not None:
                table.work.unlimit()
                self.on_decision(decision)
            if decision.node is not None:
                decision.diagnosis = None  # its columns change with the table
            return decision
        finally:
            table.work.unlimit()

    def _decided_nowhere(self, queued: QueuedPod, decision: Decision, started: float) -> Failure:
        queued.unschedulable_plugins = decision.unschedulable_plugins
        queued.pending_plugins = decision.pending_plugins
        queued.info = decision.cycle.info
        eviction = self._hold_for(queued.pod, decision)
        failure = attempt_failed(
            self,
            queued,
            decision.status,
            decision.profile,
            started,
            message=decision.message,
            nominated_node=decision.nominated_node,
            decision=decision,
        )
        failure.eviction, failure.effect = eviction, decision.effect
        return failure

    def _hold_for(self, pod: Pod, decision: Decision) -> Eviction | None:
        """Gate the pod before it is queued again, until its victims are being deleted.

        Victims that terminate already are not evicted again.
        """
        if decision.eviction is None:
            return None
        self.metrics.preemption_victims.at().observe(len(decision.eviction.victims))
        victims = tuple(each for each in decision.eviction.victims if not each.is_terminating)
        if not victims:
            return None
        self.handles[decision.profile].preempting.begin(pod)
        return Eviction(decision.eviction.node, victims)

    def _reserve(
        self,
        queued: QueuedPod,
        profile: Profile,
        decision: Decision,
        info: PodInfo,
        started: float,
    ) -> Placement | Failure:
        node = decision.node
        assert node is not None
        pod = self.cache.assume(queued.pod, node, info)
        self.queue.nominator.delete(pod)
        placement = Placement(queued, profile, decision, pod, node, started)
        now = self.clock.monotonic()
        status = run_reserve(profile, decision.cycle, pod, node)
        ended, trace, kept = self._attempt_metrics.point_ended, queued.trace, self._durations
        now = ended("Reserve", status, profile, now, trace, kept)
        if status.is_success:
            status, placement.waiting = run_permit(profile, decision.cycle, pod, node, now=now)
            ended("Permit", status, profile, now, trace, kept)
        self._attempt_metrics.report_slow_plugins(decision.cycle, profile)
        if status.is_success or status.is_wait:
            if placement.waiting is not None:
                self.handles[profile.name].waiting.add(placement.waiting)
            return placement
        self._unreserve(placement)
        self.cache.forget(pod.uid)
        return rejected_late(self, queued, status, profile.name, started)

    def _unreserve(self, placement: Placement) -> None:
        now = self.clock.monotonic()
        cycle = placement.decision.cycle
        run_unreserve(placement.profile, cycle, placement.pod, placement.node)
        trace = placement.queued.trace
        self._attempt_metrics.point_ended("Unreserve", SUCCESS, placement.profile, now, trace)
        self._log_failures(cycle)

    def cancel_pre_bind(self, uid: str, message: str) -> bool:
        """Turn back a pod that PreBind plugins are still busy with; False if there is none."""
        cancel = self.pre_binding.pop(uid, None)
        if cancel is None:
            return False
        cancel(message)
        return True

    # How a placement ends

    def permitted(self, placement: Placement) -> None:
        """No plugin holds the pod any more: from here on failures are errors."""
        self.queue.done(placement.queued.uid)

    def bound(self, placement: Placement) -> None:
        """The API server took the binding."""
        queued, now = placement.queued, self.clock.monotonic()
        profile = placement.profile.name
        self.queue.done(queued.uid)
        self.metrics.attempt_ended("scheduled", profile, now - placement.started)
        first = queued.initial_attempt_timestamp
        self.metrics.pod_scheduled(
            queued.attempts, now - (placement.started if first is None else first)
        )
        if self.ledger is not None:
            self.ledger.ended(queued, "scheduled", now - placement.started)
        if queued.is_flushed:
            self.metrics.pod_scheduled_after_flush.at().value += 1

    def finished(self, placement: Placement) -> None:
        """The pod is bound and PostBind has run."""
        self.end_trace(placement.queued, "scheduled")

    def end_trace(self, queued: QueuedPod, result: str, message: str = "") -> None:
        """End the record of an attempt that is traced."""
        assert self.tracer is not None
        trace, queued.trace = queued.trace, None
        self.tracer.end(trace, result, message)

    def bind_failed(self, placement: Placement, status: Status) -> Failure:
        """Undo everything and queue the pod again, unless it is gone or has a node after all."""
        queued, pod = placement.queued, placement.pod
        self._unreserve(placement)
        was_there = self.cache.forget(pod.uid)
        profile, started = placement.profile.name, placement.started
        if placement.is_lost:
            # Until the informer delivers that, the pod must not be tried or reported again.
            failure = attempt_failed(self, queued, status, profile, started, is_over=True)
        else:
            failure = rejected_late(self, queued, status, profile, started)
        if was_there:
            # For other pods only, and only now: while the pod is in flight its own deletion would
            # be recorded for it, and queue it again.
            self.queue.move_all(ASSIGNED_POD_DELETE, pod, None, lambda other: other.uid != pod.uid)
        return failure

    def _log_failures(self, cycle: Cycle) -> None:
        """Log what plugins raised in an attempt, once."""
        for problem in cycle.failures:
            self.failures.report(
                "Plugin broke",
                problem,
                plugin=problem.plugin,
                point=problem.point,
                pod=cycle.pod.key,
            )
        cycle.failures.clear()


def _compiled(queued: QueuedPod) -> PodInfo:
    """The pod, compiled by its last attempt if it has not changed since."""
    info: PodInfo | None = queued.info
    # Once it is placed, it belongs to the table, which changes it.
    queued.info = None
    return info if info is not None and info.pod is queued.pod else compile_pod(queued.pod)


def _hints(profile: Profile) -> Mapping[str, Sequence[EventHint]]:
    """The events each plugin registers; every event for plugins without `events`, and extenders."""
    wanted = {name: call(plugin.events, name, "events") for name, plugin in profile.plugins.items()}
    return complete_hints({**wanted, EXTENDER: None})
