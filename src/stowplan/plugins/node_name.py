"""NodeName: a pod that names its node goes there or nowhere."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from stowplan.api.objects import Pod
from stowplan.cluster.pod_info import PodInfo
from stowplan.cluster.table import Int32Array
from stowplan.cluster.views import NodeView, Overlay
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import RowSet, takes_slices
from stowplan.framework.plugin import Plugin, Reads
from stowplan.framework.status import Status, unresolvable
from stowplan.queue.events import ActionType, ClusterEvent, EventHint

_MISMATCH = unresolvable("node(s) didn't match the requested node name")


class NodeName(Plugin):
    name = "NodeName"
    reads = Reads.NODE
    overlays = True
    verdicts = (_MISMATCH,)

    def sign(self, info: PodInfo) -> Hashable:
        return info.pod.spec.node_name

    @takes_slices
    def filter_columns(
        self, cycle: Cycle, rows: RowSet, out: Int32Array, overlay: Overlay | None
    ) -> None:
        wanted = cycle.pod.spec.node_name
        out[rows] = 0
        if wanted:
            row = cycle.table.live_row(wanted)
            out[rows] = 1
            if row is not None:
                out[row] = 0

    def filter(self, pod: Pod, node: NodeView) -> Status | None:
        wanted = pod.spec.node_name
        return _MISMATCH if wanted and wanted != node.name else None

    def events(self) -> Sequence[EventHint]:
        return (EventHint(ClusterEvent("Node", ActionType.ADD)),)
