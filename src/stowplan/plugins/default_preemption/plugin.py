"""DefaultPreemption: a pod that fits nowhere may evict pods of lower priority.

Only decides on the node and the victims. The eviction itself is an effect, named in the result and
carried out by the scheduler beside its loop; meanwhile PreEnqueue keeps the preemptor out of the
queue.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from stowplan.api.objects import Pod
from stowplan.api.resources import POD_DISRUPTION_BUDGETS, PODS
from stowplan.cluster.work import DecisionDeferred
from stowplan.config.plugin_args import DefaultPreemptionArgs
from stowplan.framework.candidates import PostFilterSteps, Victims, unopposed
from stowplan.framework.cycle import Cycle
from stowplan.framework.handle import Handle
from stowplan.framework.plugin import Eviction, Plugin, PostFilterResult, Rejections
from stowplan.framework.status import (
    SUCCESS,
    Code,
    Status,
    error,
    fit_error,
    unresolvable,
    unschedulable,
)
from stowplan.framework.what_if_cache import Counted
from stowplan.logs import V2, V3, Plain, get_logger, kv
from stowplan.plugins.default_preemption.choice import best_node
from stowplan.plugins.default_preemption.dry_run import NO_VICTIMS, DryRun, Outcome
from stowplan.plugins.default_preemption.unfinished import Unfinished
from stowplan.plugins.default_preemption.victims import read_budgets
from stowplan.queue.events import ActionType, ClusterEvent, EventHint, Hint

log = get_logger(__name__)

_NO_CANDIDATE = "No preemption candidate is found; preemption is not helpful for scheduling"
_NEVER = "not eligible due to preemptionPolicy=Never."
_TERMINATING = "not eligible due to a terminating pod on the nominated node."
_NONE_LEFT = "no candidate node for preemption"
_NOT_HELPFUL = "Preemption is not helpful for scheduling"
#: Deferred searches that are remembered; a pod that is gone leaves its own behind.
_UNFINISHED_PODS = 16
_HELD = unresolvable("waiting for the preemption for this pod to be finished")


class DefaultPreemption(Plugin):
    name = "DefaultPreemption"
    Args = DefaultPreemptionArgs
    looks_up = (POD_DISRUPTION_BUDGETS,)
    deletes = (PODS,)

    def __init__(
        self, args: DefaultPreemptionArgs | None = None, handle: Handle | None = None
    ) -> None:
        self.args: DefaultPreemptionArgs
        super().__init__(args or DefaultPreemptionArgs(), handle)
        #: Searches that were deferred, by the UID of the pod.
        self._unfinished: dict[str, Unfinished] = {}

    def pre_enqueue(self, pod: Pod) -> Status | None:
        return _HELD if self.handle.preempting.holds(pod) else None

    def events(self) -> Sequence[EventHint]:
        """The plugins that rejected the pod say when it comes back, never this one."""
        return (EventHint(ClusterEvent("Pod", ActionType.DELETE), lambda *_: Hint.SKIP),)

    def post_filter(self, cycle: Cycle, diagnosis: Rejections) -> PostFilterResult:
        return unopposed(self.post_filter_steps(cycle, diagnosis))

    def post_filter_steps(self, cycle: Cycle, diagnosis: Rejections) -> PostFilterSteps:
        before = self._unfinished.pop(cycle.pod.uid, None)
        if before is None:
            self.handle.preempting.attempts += 1
        reason = self._not_eligible(cycle, diagnosis)
        if reason:
            return PostFilterResult(_said(unschedulable(reason)))
        candidates, statuses = self._candidates(cycle, diagnosis, before)
        if not candidates:
            if log.isEnabledFor(V2):
                log.log(V2, _NO_CANDIDATE, extra=kv(pod=cycle.pod.key))
            if len(statuses) == 1 and statuses[0][0] is NO_VICTIMS:
                return _without_victims(diagnosis.total_nodes, statuses[0][1])
            return _in_vain(diagnosis.total_nodes, statuses)
        left = yield candidates
        if isinstance(left, Status):
            return PostFilterResult(_said(left))
        if before is not None and left is candidates:
            best = self._still_best(cycle, candidates)
        else:
            best = best_node(left, self.handle.clock.time()) if left else ""
        if not best:
            return PostFilterResult(_said(unschedulable(_NONE_LEFT)))
        chosen = kv(node=Plain(best), pod=cycle.pod.key)
        log.log(V2, "the target node for the preemption is determined", extra=chosen)
        eviction = Eviction(best, tuple(info.pod for info in left[best].pods))
        return PostFilterResult(SUCCESS, nominated_node=best, eviction=eviction)

    def _not_eligible(self, cycle: Cycle, diagnosis: Rejections) -> str:
        """Return why this pod must not evict others now, or "" if it may."""
        pod, table = cycle.pod, cycle.table
        if pod.spec.preemption_policy == "Never":
            return _NEVER
        row = table.live_row(pod.status.nominated_node_name)
        if row is None or diagnosis.status_of(row).code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return ""
        leaving = any(
            other.pod.priority < pod.priority and _is_being_preempted(other.pod)
            for other in table.pods[row].values()
        )
        return _TERMINATING if leaving else ""

    def _candidates(
        self, cycle: Cycle, diagnosis: Rejections, before: Unfinished | None
    ) -> tuple[dict[str, Victims], Counted]:
        """Nodes that could be cleared, and what the others said.

        Stops at `wanted` nodes, one of them at least without a violated budget. Of nodes with
        violated budgets only the first `wanted` are candidates. As upstream has it, `wanted` is 0,
        and no node a candidate, where a small percentage of few nodes is below 1.
        """
        rows: list[int] = diagnosis.rows_of(Code.UNSCHEDULABLE).tolist()
        if not rows:
            no_help = "Preemption will not help schedule pod on any node"
            log.log(V3, no_help, extra=kv(pod=cycle.pod.key))
            return {}, []
        draw = self.handle.rng.randrange(len(rows)) if before is None else before.draw
        if cycle.table.priorities.lowest >= cycle.pod.priority:
            return {}, [(NO_VICTIMS, len(rows))]
        dry_run = self._dry_run(cycle, {} if before is None else before.said(cycle, rows))
        refusals = dry_run.refusals
        if refusals is not None and (known := refusals.refusals(rows)) is not None:
            return {}, known
        start = draw % len(rows)
        try:
            found, statuses = self._search(dry_run, rows[start:] + rows[:start], cycle.table.names)
            if refusals is not None and not found and not _has_error(statuses):
                refusals.learn_refusals(rows, statuses)
            return found, statuses
        except DecisionDeferred:
            while len(self._unfinished) >= _UNFINISHED_PODS:
                del self._unfinished[next(iter(self._unfinished))]
            self._unfinished[cycle.pod.uid] = Unfinished(cycle, draw, dry_run.said)
            raise

    def _dry_run(self, cycle: Cycle, said: dict[int, Outcome]) -> DryRun:
        budgets = read_budgets(self.handle.catalog[POD_DISRUPTION_BUDGETS])
        return DryRun(cycle, budgets, self.handle.clock.time(), said)

    def _search(
        self, dry_run: DryRun, rows: Sequence[int], names: Sequence[str]
    ) -> tuple[dict[str, Victims], Counted]:
        wanted = self._wanted(len(rows))
        found: dict[str, Victims] = {}
        statuses: list[Status] = []
        kept = {True: 0, False: 0}
        begin, size = 0, max(wanted, 1)
        while begin < len(rows):
            some = rows[begin : begin + size]
            # If many rows fail, larger batches are faster.
            begin, size = begin + size, 2 * size
            outcomes = dry_run.try_rows(some)
            for row in some:
                outcome = outcomes[row]
                if not isinstance(outcome, Victims):
                    statuses.append(outcome)
                    continue
                is_violating = outcome.violations > 0
                if kept[is_violating] < wanted:
                    kept[is_violating] += 1
                    found[names[row]] = outcome
                if kept[False] and len(found) >= wanted:
                    return found, _counted(statuses)
        return found, _counted(statuses)

    def _still_best(self, cycle: Cycle, candidates: dict[str, Victims]) -> str:
        """The best node, whose victims are as the cluster is now; "" if there is none any more.

        The search was deferred on the way, so what happened elsewhere may have changed an outcome.
        """
        asked: set[str] = set()
        while candidates:
            best = best_node(candidates, self.handle.clock.time())
            if best in asked:
                return best
            asked.add(best)
            outcome = self._dry_run(cycle, {}).try_row(cycle.table.row_of[best])
            if isinstance(outcome, Victims):
                candidates[best] = outcome
            else:
                del candidates[best]
        return ""

    def _wanted(self, nodes: int) -> int:
        share = nodes * self.args.min_candidate_nodes_percentage // 100
        return min(max(share, self.args.min_candidate_nodes_absolute), nodes)


def _in_vain(total_nodes: int, statuses: Counted) -> PostFilterResult:
    errors = dict.fromkeys(status.message for status, _ in statuses if status.code is Code.ERROR)
    if errors:
        text = ", ".join(errors)
        if len(errors) > 1:
            text = f"[{text}]"
        return PostFilterResult(_said(error(text)))
    reasons: Counter[str] = Counter()
    for status, count in statuses:
        for reason in status.reasons:
            reasons[reason] += count
    if rest := total_nodes - sum(count for _, count in statuses):
        reasons[_NOT_HELPFUL] += rest
    text = fit_error(total_nodes, reasons)
    return PostFilterResult(_said(unschedulable(text)), nominated_node="")


@lru_cache(maxsize=64)
def _without_victims(total_nodes: int, nodes: int) -> PostFilterResult:
    """The result where nothing can be evicted, which every waiting pod gets again and again."""
    return _in_vain(total_nodes, [(NO_VICTIMS, nodes)])


def _counted(statuses: Sequence[Status]) -> Counted:
    """Hundreds of rows may share one status, and then it is the same object."""
    distinct = {id(status): status for status in statuses}
    return [(distinct[each], count) for each, count in Counter(map(id, statuses)).items()]


def _has_error(statuses: Counted) -> bool:
    return any(status.code is Code.ERROR for status, _ in statuses)


def _said(status: Status) -> Status:
    return Status(status.code, (f"preemption: {status.message}",))


def _is_being_preempted(pod: Pod) -> bool:
    """Whether a pod is on its way out because a scheduler wanted it so."""
    if not pod.is_terminating:
        return False
    for condition in pod.status.conditions or ():
        if condition.type == "DisruptionTarget":
            return condition.status == "True" and condition.reason == "PreemptionByScheduler"
    return False
