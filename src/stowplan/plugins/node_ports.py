"""NodePorts: a pod with host ports fits only on nodes where they are free.

Two ports clash when protocol and number are the same and the addresses are too, or one of them is
0.0.0.0. The column marks the rows that the table's index of used ports names; the per-node form
looks at the pods of its node.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from stowplan.api.objects import Pod
from stowplan.cluster.pod_info import PodInfo
from stowplan.cluster.ports import any_clash, host_ports
from stowplan.cluster.table import Int32Array
from stowplan.cluster.views import NodeView, Overlay
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import RowSet, takes_slices
from stowplan.framework.plugin import Need, Plugin, Reads
from stowplan.framework.status import SKIP, Status, unschedulable
from stowplan.queue.events import ActionType, ClusterEvent, EventHint, Hint, Topics

_TAKEN = unschedulable("node(s) didn't have free ports for the requested pod ports")


class NodePorts(Plugin):
    name = "NodePorts"
    reads = Reads.POD_SPECS
    overlays = True
    verdicts = (_TAKEN,)
    needs = (
        Need("filter", "preFilter", 'reading "PreFilterNodePorts" from cycleState: not found'),
    )

    def sign(self, info: PodInfo) -> Hashable:
        return info.host_ports

    def pre_filter(self, cycle: Cycle) -> Status | None:
        return None if cycle.info.host_ports else SKIP

    @takes_slices
    def filter_columns(
        self, cycle: Cycle, rows: RowSet, out: Int32Array, overlay: Overlay | None
    ) -> None:
        table, wanted = cycle.table, cycle.info.host_ports
        taken = np.zeros(table.capacity, np.int32)
        if isinstance(rows, slice):
            taken[list(table.used_ports.rows_clashing(wanted))] = 1
        else:
            for row in rows.tolist():
                taken[row] = table.used_ports.clashes(row, wanted)
        if overlay is not None:
            for row in overlay.rows.tolist():
                taken[row] = _clashes(cycle.info, NodeView(table, row, overlay))
        out[rows] = taken[rows]

    def filter(self, pod: Pod, node: NodeView, cycle: Cycle) -> Status | None:
        return _TAKEN if _clashes(cycle.info, node) else None

    def events(self) -> Sequence[EventHint]:
        pod = ClusterEvent("Pod", ActionType.DELETE)
        node = ClusterEvent("Node", ActionType.ADD)
        return (EventHint(pod, _freed_a_port, _PORTS), EventHint(node))


def _clashes(info: PodInfo, node: NodeView) -> bool:
    taken = (port for other in node.pod_infos for port in other.host_ports)
    return any_clash(info.host_ports, taken)


def _freed_a_port(pod: Pod, old: object, _new: object) -> Hint:
    """A pod that had a node, or a promise of one, left and had what this one wants."""
    if not isinstance(old, Pod):
        return Hint.QUEUE
    if not (old.spec.node_name or old.status.nominated_node_name):
        return Hint.SKIP
    return Hint.QUEUE if any_clash(host_ports(pod), host_ports(old)) else Hint.SKIP


def _numbers(pod: Pod) -> set[Hashable]:
    return {(port.protocol, port.port) for port in host_ports(pod)}


_PORTS = Topics(_numbers, lambda old, _: _numbers(old) if isinstance(old, Pod) else None)
