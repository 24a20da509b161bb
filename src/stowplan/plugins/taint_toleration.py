"""TaintToleration: keeps pods off nodes whose taints they do not tolerate.

Nodes with the same taints share a taint class, so tolerations are matched once a class, not once
a node; the column is a look-up by class.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from stowplan.api.objects import Node, Pod, Taint
from stowplan.api.tolerations import HARD_EFFECTS, PREFER_NO_SCHEDULE, Tolerations
from stowplan.cluster.pod_info import PodInfo
from stowplan.cluster.table import Int32Array, Int64Array
from stowplan.cluster.views import NodeView, Overlay
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import RowSet, takes_slices
from stowplan.framework.integers import default_normalize
from stowplan.framework.plugin import Need, Plugin, Reads
from stowplan.framework.status import Status, unresolvable
from stowplan.queue.events import ActionType, ClusterEvent, EventHint, Hint
from stowplan.queue.topics import OWN_POD

_UNTOLERATED = unresolvable("node(s) had untolerated taint(s)")


class TaintToleration(Plugin):
    name = "TaintToleration"
    reads = Reads.NODE
    overlays = True
    verdicts = (_UNTOLERATED,)
    needs = (
        Need(
            "score",
            "preScore",
            'failed to read "PreScoreTaintToleration" from cycleState: not found',
        ),
    )

    def sign(self, info: PodInfo) -> Hashable:
        return info.pod.spec.tolerations or ()

    @takes_slices
    def filter_columns(
        self, cycle: Cycle, rows: RowSet, out: Int32Array, overlay: Overlay | None
    ) -> None:
        table, tolerations = cycle.table, _tolerations(cycle)
        by_class = np.array(
            [not _fits(tolerations, taints) for taints in table.taint_classes.values], np.int32
        )
        out[rows] = by_class[table.taint_class[rows]]

    def filter(self, pod: Pod, node: NodeView, cycle: Cycle) -> Status | None:
        return None if _fits(_tolerations(cycle), node.taints) else _UNTOLERATED

    def pre_score(self, cycle: Cycle, rows: object) -> None:
        """Upstream never skips here: a pod on untainted nodes scores 100 everywhere."""

    @takes_slices
    def score_columns(self, cycle: Cycle, rows: RowSet, out: Int64Array) -> None:
        table, tolerations = cycle.table, _tolerations(cycle)
        by_class = np.array(
            [_disliked(tolerations, taints) for taints in table.taint_classes.values], np.int64
        )
        out[rows] = by_class[table.taint_class[rows]]

    def score(self, pod: Pod, node: NodeView, cycle: Cycle) -> int:
        return _disliked(_tolerations(cycle), node.taints)

    def normalize(self, cycle: Cycle, scores: Int64Array) -> Int64Array:
        return default_normalize(scores, reverse=True)

    def events(self) -> Sequence[EventHint]:
        node = ClusterEvent("Node", ActionType.ADD | ActionType.UPDATE_NODE_TAINT)
        pod = ClusterEvent("Pod", ActionType.UPDATE_POD_TOLERATION)
        return (EventHint(node, _became_tolerable), EventHint(pod, topics=OWN_POD))


def _tolerations(cycle: Cycle) -> Tolerations:
    """The pod's tolerations, indexed once a cycle."""
    tolerations = cycle.get(Tolerations)
    if tolerations is None:
        tolerations = Tolerations(cycle.pod.spec.tolerations)
        cycle.write(Tolerations, tolerations)
    return tolerations


def _fits(tolerations: Tolerations, taints: Sequence[Taint]) -> bool:
    return not taints or tolerations.find_untolerated(taints, HARD_EFFECTS) is None


def _disliked(tolerations: Tolerations, taints: Sequence[Taint]) -> int:
    """How many soft taints the pod does not tolerate."""
    return sum(
        taint.effect == PREFER_NO_SCHEDULE and not tolerations.match(taint) for taint in taints
    )


def _became_tolerable(pod: Pod, old: object, new: object) -> Hint:
    if not isinstance(new, Node):
        return Hint.QUEUE
    tolerations = Tolerations(pod.spec.tolerations)
    was_tolerable = isinstance(old, Node) and _fits(tolerations, old.spec.taints or ())
    fits = _fits(tolerations, new.spec.taints or ())
    return Hint.QUEUE if fits and not was_tolerable else Hint.SKIP
