"""NodeUnschedulable: cordoned nodes take only pods that tolerate being there."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from stowplan.api.objects import Node, Pod, Taint
from stowplan.api.tolerations import tolerates
from stowplan.cluster.pod_info import PodInfo
from stowplan.cluster.table import Int32Array
from stowplan.cluster.views import NodeView, Overlay
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import RowSet, takes_slices
from stowplan.framework.plugin import Plugin, Reads
from stowplan.framework.status import Status, unresolvable
from stowplan.queue.events import ActionType, ClusterEvent, EventHint, Hint
from stowplan.queue.topics import OWN_POD, all_or_none

_CORDONED = unresolvable("node(s) were unschedulable")
_TAINT = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


class NodeUnschedulable(Plugin):
    name = "NodeUnschedulable"
    reads = Reads.NODE
    overlays = True
    verdicts = (_CORDONED,)

    def sign(self, info: PodInfo) -> Hashable:
        return _tolerated(info.pod)

    @takes_slices
    def filter_columns(
        self, cycle: Cycle, rows: RowSet, out: Int32Array, overlay: Overlay | None
    ) -> None:
        out[rows] = 0 if _tolerated(cycle.pod) else cycle.table.unschedulable[rows]

    def filter(self, pod: Pod, node: NodeView) -> Status | None:
        return _CORDONED if node.unschedulable and not _tolerated(pod) else None

    def events(self) -> Sequence[EventHint]:
        node = ClusterEvent("Node", ActionType.ADD | ActionType.UPDATE_NODE_TAINT)
        pod = ClusterEvent("Pod", ActionType.UPDATE_POD_TOLERATION)
        return (
            EventHint(node, topics=all_or_none(_node_opened)),
            EventHint(pod, _tolerates_now, OWN_POD),
        )


def _tolerated(pod: Pod) -> bool:
    return any(tolerates(toleration, _TAINT) for toleration in pod.spec.tolerations or ())


def _node_opened(old: object, new: object) -> bool:
    """The node is new or was cordoned, and takes pods now."""
    was_open = isinstance(old, Node) and not old.spec.unschedulable
    is_cordoned = isinstance(new, Node) and new.spec.unschedulable
    return not (was_open or is_cordoned)


def _tolerates_now(pod: Pod, _old: object, new: object) -> Hint:
    mine = isinstance(new, Pod) and new.uid == pod.uid and _tolerated(new)
    return Hint.QUEUE if mine else Hint.SKIP
