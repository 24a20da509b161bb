"""NodeDeclaredFeatures: a pod that needs a kubelet feature goes where a node declares it.

What a pod needs is inferred from its spec, as in kube-scheduler 1.36: two features matter for
placing pods. Nodes that declare the same features share a class, so they are compared once a class.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from stowplan.api.objects import Node, Pod
from stowplan.cluster.pod_info import PodInfo
from stowplan.cluster.table import Int32Array
from stowplan.cluster.views import NodeView, Overlay
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import RowSet, takes_slices
from stowplan.framework.plugin import Need, Plugin, Reads
from stowplan.framework.status import SKIP, Status, unresolvable
from stowplan.queue.events import ActionType, ClusterEvent, EventHint, Hint
from stowplan.queue.topics import OWN_POD, all_or_none

_MISSING = unresolvable("node(s) didn't match Pod's required features")
_RESTART_ALL_CONTAINERS = "RestartAllContainersOnContainerExits"
_USER_NAMESPACE_ON_HOST_NETWORK = "UserNamespacesHostNetworkSupport"


class NodeDeclaredFeatures(Plugin):
    name = "NodeDeclaredFeatures"
    reads = Reads.NODE
    overlays = True
    verdicts = (_MISSING,)
    needs = (
        Need(
            "filter",
            "preFilter",
            'error reading "PreFilterNodeDeclaredFeatures" from cycle-state: not found',
        ),
    )

    def sign(self, info: PodInfo) -> Hashable:
        return _required(info.pod)

    def pre_filter(self, cycle: Cycle) -> Status | None:
        return None if _required(cycle.pod) else SKIP

    @takes_slices
    def filter_columns(
        self, cycle: Cycle, rows: RowSet, out: Int32Array, overlay: Overlay | None
    ) -> None:
        table, required = cycle.table, _required(cycle.pod)
        by_class = np.array(
            [not required.issubset(declared) for declared in table.feature_classes.values],
            np.int32,
        )
        out[rows] = by_class[table.feature_class[rows]]

    def filter(self, pod: Pod, node: NodeView) -> Status | None:
        declared = node.node.status.declared_features or ()
        return None if _required(pod).issubset(declared) else _MISSING

    def events(self) -> Sequence[EventHint]:
        node = ClusterEvent("Node", ActionType.ADD | ActionType.UPDATE_NODE_DECLARED_FEATURE)
        pod = ClusterEvent("Pod", ActionType.UPDATE)
        return (
            EventHint(node, topics=all_or_none(_features_changed)),
            EventHint(pod, _needs_changed, OWN_POD),
        )


def _required(pod: Pod) -> frozenset[str]:
    """The features that a node must declare to run the pod."""
    spec = pod.spec
    found: list[str] = []
    if any(
        rule.action == "RestartAllContainers"
        for container in (*(spec.containers or ()), *(spec.init_containers or ()))
        for rule in container.restart_policy_rules or ()
    ):
        found.append(_RESTART_ALL_CONTAINERS)
    if spec.host_network and spec.host_users is False:
        found.append(_USER_NAMESPACE_ON_HOST_NETWORK)
    return frozenset(found)


def _features_changed(old: object, new: object) -> bool:
    if not isinstance(old, Node) or not isinstance(new, Node):
        return True
    return (old.status.declared_features or ()) != (new.status.declared_features or ())


def _needs_changed(pod: Pod, old: object, new: object) -> Hint:
    if not isinstance(new, Pod):
        return Hint.QUEUE
    if new.uid != pod.uid or (isinstance(old, Pod) and _required(old) == _required(new)):
        return Hint.SKIP
    return Hint.QUEUE
