"""The in-tree plugins."""

from __future__ import annotations

from stowplan.config.feature_gates import FeatureGates
from stowplan.framework.registry import Registry
from stowplan.plugins.default_binder import DefaultBinder
from stowplan.plugins.default_preemption import DefaultPreemption
from stowplan.plugins.dra import DynamicResources, WithTaintRules
from stowplan.plugins.image_locality import ImageLocality
from stowplan.plugins.inter_pod_affinity import InterPodAffinity
from stowplan.plugins.node_affinity import NodeAffinity
from stowplan.plugins.node_declared_features import NodeDeclaredFeatures
from stowplan.plugins.node_name import NodeName
from stowplan.plugins.node_number import NodeNumber
from stowplan.plugins.node_ports import NodePorts
from stowplan.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from stowplan.plugins.node_resources_fit import NodeResourcesFit
from stowplan.plugins.node_unschedulable import NodeUnschedulable
from stowplan.plugins.node_volume_limits import NodeVolumeLimits
from stowplan.plugins.pod_topology_spread import PodTopologySpread
from stowplan.plugins.priority_sort import PrioritySort
from stowplan.plugins.random_choice import RandomFilter, RandomScore
from stowplan.plugins.scheduling_gates import SchedulingGates
from stowplan.plugins.static_placement import StaticPlacement
from stowplan.plugins.taint_toleration import TaintToleration
from stowplan.plugins.volume_binding import VolumeBinding
from stowplan.plugins.volume_restrictions import VolumeRestrictions
from stowplan.plugins.volume_zone import VolumeZone

IN_TREE = (
    SchedulingGates,
    PrioritySort,
    NodeUnschedulable,
    NodeName,
    TaintToleration,
    NodeAffinity,
    NodePorts,
    NodeResourcesFit,
    VolumeRestrictions,
    NodeVolumeLimits,
    VolumeBinding,
    VolumeZone,
    PodTopologySpread,
    InterPodAffinity,
    DynamicResources,
    DefaultPreemption,
    NodeResourcesBalancedAllocation,
    ImageLocality,
    DefaultBinder,
    NodeDeclaredFeatures,
    RandomFilter,
    RandomScore,
    NodeNumber,
    StaticPlacement,
)


def in_tree_registry(gates: FeatureGates | None = None) -> Registry:
    """A registry with everything that ships with Stowplan; without gates all have defaults."""
    if gates is None or not gates.is_enabled("DRADeviceTaintRules"):
        return Registry(IN_TREE)
    return Registry(WithTaintRules if each is DynamicResources else each for each in IN_TREE)
