"""The plugin: which constraints apply to a pod, and when a refused one is worth another try.

Constraints compare the pods that a selector finds in each topology domain. Hard ones filter
(`filtering`), soft ones score (`scoring`). Both read sums that the table keeps for each selector,
so that nothing here walks over pods. One pod that is placed may change the verdict on a whole
domain: kept columns of Filter serve while the same domains are too full (`surroundings`), those of
Score are never kept.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from stowplan.api.objects import Node, Pod
from stowplan.api.resources import (
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    SERVICES,
    STATEFUL_SETS,
)
from stowplan.cluster.catalog import Catalog
from stowplan.cluster.journal import Rows
from stowplan.cluster.pod_info import PodInfo
from stowplan.cluster.table import Int32Array, Int64Array
from stowplan.cluster.views import NodeView, Overlay
from stowplan.config.plugin_args import PodTopologySpreadArgs
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import RowSet, takes_slices
from stowplan.framework.handle import Handle
from stowplan.framework.plugin import NOT_KEPT, Need, Plugin, Reads
from stowplan.framework.status import SKIP, Status, error, unresolvable, unschedulable
from stowplan.plugins.pod_topology_spread.constraints import (
    HARD,
    SOFT,
    SYSTEM_DEFAULTS,
    Constraints,
    own_constraints,
    topology_keys,
    with_selector,
)
from stowplan.plugins.pod_topology_spread.default_selector import DefaultSelectors
from stowplan.plugins.pod_topology_spread.filtering import HardSpread
from stowplan.plugins.pod_topology_spread.scoring import Landscape, SoftSpread
from stowplan.queue.events import ActionType, ClusterEvent, EventHint, Hint, Topics

_REASON = "node(s) didn't match pod topology spread constraints"
_LABEL_MISSING = unresolvable(f"{_REASON} (missing required label)")
_TOO_SKEWED = unschedulable(_REASON)


class PodTopologySpread(Plugin):
    name = "PodTopologySpread"
    Args = PodTopologySpreadArgs
    looks_up = (SERVICES, REPLICATION_CONTROLLERS, REPLICA_SETS, STATEFUL_SETS)
    verdicts = (_LABEL_MISSING, _TOO_SKEWED)
    needs = (
        Need(
            "filter", "preFilter", 'reading "PreFilterPodTopologySpread" from cycleState: not found'
        ),
        Need(
            "score",
            "preScore",
            'error reading "PreScorePodTopologySpread" from cycleState: not found',
        ),
    )
    reads = Reads.NODE
    score_reads = Reads.ANYTHING

    def __init__(
        self, args: PodTopologySpreadArgs | None = None, handle: Handle | None = None
    ) -> None:
        super().__init__(args, handle)
        args = args or PodTopologySpreadArgs()
        self._is_system = args.defaulting_type == "System"
        defaults = SYSTEM_DEFAULTS if self._is_system else args.default_constraints
        self._defaults = {
            action: tuple(each for each in defaults if each.when_unsatisfiable == action)
            for action in (HARD, SOFT)
        }
        self._selectors = DefaultSelectors(handle.catalog if handle is not None else Catalog())
        #: Of the last pod that was scored.
        self._landscape: Landscape | None = None

    def _constraints(self, pod: Pod, action: str) -> Constraints:
        """The pod's own constraints, or the defaults. ValueError says which, and what is wrong."""
        if pod.spec.topology_spread_constraints:
            try:
                return own_constraints(pod, action)
            except ValueError as problem:
                kind = "hard" if action == HARD else "soft"
                text = f"obtaining pod's {kind} topology spread constraints: {problem}"
                raise ValueError(text) from None
        defaults = self._defaults[action]
        if not defaults:
            return ()
        selector = self._selectors.of(pod)
        return () if selector.is_empty else with_selector(defaults, selector)

    # Filter

    def pre_filter(self, cycle: Cycle) -> Status | None:
        try:
            constraints = self._constraints(cycle.pod, HARD)
        except ValueError as problem:
            return error(f"get constraints from pod: {problem}")
        if not constraints:
            return SKIP
        cycle.write(HardSpread, HardSpread.of(cycle.pod, cycle.table, constraints))
        return None

    def sign(self, info: PodInfo) -> Hashable:
        return ()

    def surroundings(self, cycle: Cycle) -> Hashable:
        """The verdict on each domain; pods with equal verdicts can share columns."""
        spread = cycle.get(HardSpread)
        return NOT_KEPT if spread is None or spread.has_many_domains else spread.by_domain()

    def what_if(self, cycle: Cycle, other: PodInfo, row: int, delta: int) -> None:
        if other.pod.metadata.namespace == cycle.pod.metadata.namespace:
            hard: HardSpread = cycle.read(HardSpread)
            hard.what_if(cycle.table, other.pod, row, delta)

    @takes_slices
    def filter_columns(
        self, cycle: Cycle, rows: RowSet, out: Int32Array, overlay: Overlay | None
    ) -> None:
        hard: HardSpread = cycle.read(HardSpread)
        hard.fill(cycle.table, rows, out)

    def filter(self, pod: Pod, node: NodeView, cycle: Cycle) -> Status | None:
        hard: HardSpread = cycle.read(HardSpread)
        verdict_id = hard.judge(cycle.table, node.labels)
        return self.verdicts[verdict_id - 1] if verdict_id else None

    # Score

    def pre_score(self, cycle: Cycle, rows: Rows) -> Status | None:
        pod = cycle.pod
        try:
            constraints = self._constraints(pod, SOFT)
        except ValueError as problem:
            return error(f"calculating preScoreState: {problem}")
        if not constraints:
            return SKIP
        # With system defaults a node without a zone still takes part by its hostname.
        all_keys = bool(pod.spec.topology_spread_constraints) or not self._is_system
        keys = topology_keys(constraints) if all_keys else ()
        landscape = self._landscape
        if landscape is None or not landscape.is_of(cycle.table, rows, keys):
            landscape = self._landscape = Landscape(cycle.table, rows, keys)
        cycle.write(SoftSpread, SoftSpread(pod, cycle.table, constraints, landscape))
        return None

    @takes_slices
    def score_columns(self, cycle: Cycle, rows: RowSet, out: Int64Array) -> None:
        soft: SoftSpread = cycle.read(SoftSpread)
        soft.fill(rows, out)

    def score(self, pod: Pod, node: NodeView, cycle: Cycle) -> int:
        soft: SoftSpread = cycle.read(SoftSpread)
        return soft.score(node)

    def normalize(self, cycle: Cycle, scores: Int64Array) -> Int64Array:
        soft: SoftSpread = cycle.read(SoftSpread)
        return soft.normalize(scores)

    # Coming back

    def events(self) -> Sequence[EventHint]:
        pod = ClusterEvent(
            "Pod",
            ActionType.ADD
            | ActionType.UPDATE_POD_LABEL
            | ActionType.UPDATE_POD_TOLERATION
            | ActionType.DELETE,
        )
        node = ClusterEvent(
            "Node",
            ActionType.ADD
            | ActionType.DELETE
            | ActionType.UPDATE_NODE_LABEL
            | ActionType.UPDATE_NODE_TAINT,
        )
        return (EventHint(pod, self._counts_changed, _NEAR), EventHint(node, self._domains_changed))

    def _counts_changed(self, pod: Pod, old: object, new: object) -> Hint:
        """A pod that a constraint counts came, went or changed, or the pod itself did."""
        before = old if isinstance(old, Pod) else None
        after = new if isinstance(new, Pod) else None
        others = [other for other in (before, after) if other is not None]
        if not all(_is_involved(other, pod) for other in others):
            return Hint.SKIP
        try:
            constraints = self._constraints(pod, HARD)
        except ValueError:
            return Hint.QUEUE
        matching = [
            [other for other in others if each.selector.matches(other.metadata.labels)]
            for each in constraints
        ]
        if before is None or after is None:
            return _queue_if(not others or any(matching))
        if (
            after.uid == pod.uid
            and any(each.honors_taints for each in constraints)
            and (before.spec.tolerations or ()) != (after.spec.tolerations or ())
        ):
            return Hint.QUEUE
        return _queue_if(any(len(found) == 1 for found in matching))

    def _domains_changed(self, pod: Pod, old: object, new: object) -> Hint:
        """A node takes part that did not, or no more, or in another way."""
        if not isinstance(old, Node | None) or not isinstance(new, Node | None):
            return Hint.QUEUE
        try:
            constraints = self._constraints(pod, HARD)
        except ValueError:
            return Hint.QUEUE
        keys = [each.topology_key for each in constraints]
        before, after = _values(old, keys), _values(new, keys)
        if before is None or after is None:
            return _queue_if(before is not after)
        assert old is not None
        assert new is not None
        taints_differ = (old.spec.taints or ()) != (new.spec.taints or ())
        return _queue_if(before != after or taints_differ)


def _is_involved(other: Pod, pod: Pod) -> bool:
    """Whether another pod, or the pod itself, may count in the pod's spreading."""
    if other.uid == pod.uid:
        return True
    has_place = other.spec.node_name or other.status.nominated_node_name
    return bool(has_place) and other.metadata.namespace == pod.metadata.namespace


def _near(pod: Pod) -> tuple[Hashable, ...]:
    """The pod itself and its namespace: `_is_involved` is False for all others."""
    return pod.uid, (pod.metadata.namespace,)


def _near_event(old: object, new: object) -> tuple[Hashable, ...] | None:
    changed = new if isinstance(new, Pod) else old
    return _near(changed) if isinstance(changed, Pod) else None


_NEAR = Topics(_near, _near_event)


def _values(node: Node | None, keys: Sequence[str]) -> list[str] | None:
    """A node's domains; None if it takes no part, as it lacks a label or is not there."""
    labels = (node.metadata.labels or {}) if node is not None else None
    if labels is None or not all(key in labels for key in keys):
        return None
    return [labels[key] for key in keys]


def _queue_if(helps: bool) -> Hint:
    return Hint.QUEUE if helps else Hint.SKIP
