"""What every default plugin registers, as kube-scheduler 1.36 does: the other side of the books.

Written down from upstream's EventsToRegister, not derived from our plugins, so that a registration
that is lost, or added by mistake, is seen. To the rows of upstream's plugins comes its own rule:
who waits for added nodes but not for their taints hears of taints too, and always queues.
"""

from __future__ import annotations

from stowplan.queue.events import ActionType, EventResource
from tests.unit.scheduler.requeue.matrix import Pair

ADD, DELETE, UPDATE = ActionType.ADD, ActionType.DELETE, ActionType.UPDATE
ALLOCATABLE = ActionType.UPDATE_NODE_ALLOCATABLE
NODE_LABEL = ActionType.UPDATE_NODE_LABEL
TAINT = ActionType.UPDATE_NODE_TAINT
FEATURE = ActionType.UPDATE_NODE_DECLARED_FEATURE
POD_LABEL = ActionType.UPDATE_POD_LABEL
SCALE_DOWN = ActionType.UPDATE_POD_SCALE_DOWN
TOLERATION = ActionType.UPDATE_POD_TOLERATION
GATES = ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
CLAIM_MADE = ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM

POD, NODE = EventResource.POD, EventResource.NODE
PVC, PV = EventResource.PERSISTENT_VOLUME_CLAIM, EventResource.PERSISTENT_VOLUME
CLASS = EventResource.STORAGE_CLASS
CSI_NODE, CSI_DRIVER = EventResource.CSI_NODE, EventResource.CSI_DRIVER
CAPACITY = EventResource.CSI_STORAGE_CAPACITY
ATTACHMENT = EventResource.VOLUME_ATTACHMENT
DEVICE_CLASS = EventResource.DEVICE_CLASS
RESOURCE_CLAIM, RESOURCE_SLICE = EventResource.RESOURCE_CLAIM, EventResource.RESOURCE_SLICE

UPSTREAM: dict[str, dict[str, tuple[ActionType, ...]]] = {
    "SchedulingGates": {POD: (GATES,)},
    "NodeUnschedulable": {NODE: (ADD, TAINT), POD: (TOLERATION,)},
    "NodeName": {NODE: (ADD,)},
    "TaintToleration": {NODE: (ADD, TAINT), POD: (TOLERATION,)},
    "NodeAffinity": {NODE: (ADD, NODE_LABEL)},
    "NodePorts": {POD: (DELETE,), NODE: (ADD,)},
    "NodeResourcesFit": {
        POD: (DELETE, SCALE_DOWN),
        NODE: (ADD, ALLOCATABLE),
        DEVICE_CLASS: (ADD, UPDATE),
    },
    "VolumeRestrictions": {POD: (DELETE,), NODE: (ADD,), PVC: (ADD,)},
    "NodeVolumeLimits": {
        CSI_NODE: (ADD, UPDATE),
        POD: (DELETE,),
        PVC: (ADD,),
        ATTACHMENT: (DELETE,),
    },
    "VolumeBinding": {
        CLASS: (ADD, UPDATE),
        PVC: (ADD, UPDATE),
        PV: (ADD, UPDATE),
        NODE: (ADD, NODE_LABEL),
        CSI_NODE: (ADD, UPDATE),
        CSI_DRIVER: (UPDATE,),
        CAPACITY: (ADD, UPDATE),
    },
    "VolumeZone": {CLASS: (ADD,), NODE: (ADD, NODE_LABEL), PVC: (ADD, UPDATE), PV: (ADD, UPDATE)},
    "PodTopologySpread": {
        POD: (ADD, POD_LABEL, TOLERATION, DELETE),
        NODE: (ADD, DELETE, NODE_LABEL, TAINT),
    },
    "InterPodAffinity": {POD: (ADD, POD_LABEL, DELETE), NODE: (ADD, NODE_LABEL)},
    "DynamicResources": {
        NODE: (ADD, NODE_LABEL, ALLOCATABLE),
        RESOURCE_CLAIM: (ADD, UPDATE),
        POD: (CLAIM_MADE,),
        DEVICE_CLASS: (ADD, UPDATE),
        RESOURCE_SLICE: (ADD, UPDATE),
    },
    "NodeDeclaredFeatures": {NODE: (ADD, FEATURE), POD: (UPDATE,)},
    "DefaultPreemption": {POD: (DELETE,)},
}

#: Plugins of the default profile that never keep a pod waiting, and need no events.
NEVER_REJECT = {
    "PrioritySort",
    "NodeResourcesBalancedAllocation",
    "ImageLocality",
    "DefaultBinder",
}


def _pairs() -> set[Pair]:
    return {
        Pair(plugin, resource, action)
        for plugin, events in UPSTREAM.items()
        for resource, actions in events.items()
        for action in actions
    }


def _hear_of_taints_too() -> set[Pair]:
    pairs = _pairs()
    return {
        Pair(pair.plugin, NODE, TAINT)
        for pair in pairs
        if (pair.resource, pair.action) == (NODE, ADD)
    } - pairs


REGISTERED = _pairs()
#: By upstream's rule for added nodes.
TAINTS_TOO = _hear_of_taints_too()

#: Pairs whose every event brings the pod back, and why no other one is possible.
ALWAYS_QUEUES: dict[Pair, str] = {
    **dict.fromkeys(TAINTS_TOO, "the rule for added nodes has no hint"),
    Pair("NodeName", NODE, ADD): "no hint: an added node may be the one that was asked for",
    Pair("NodePorts", NODE, ADD): "no hint: all ports of an added node are free",
    Pair("VolumeRestrictions", NODE, ADD): "no hint: an added node has no disks in use",
    Pair("NodeVolumeLimits", CSI_NODE, ADD): "no hint: it may hold the first limits of its node",
    Pair("VolumeBinding", CLASS, ADD): "any class may be the one that a claim names",
    Pair("VolumeBinding", PV, ADD): "no hint: a claim may be bound to it",
    Pair("VolumeBinding", PV, UPDATE): "no hint: a claim may be bound to it",
    Pair("VolumeBinding", NODE, ADD): "no hint: a volume may be reached from it",
    Pair("VolumeBinding", NODE, NODE_LABEL): "no hint: a volume may be reached from it",
    Pair("VolumeBinding", CSI_NODE, ADD): "it tells for the first time what has moved to CSI",
    Pair("VolumeBinding", CAPACITY, ADD): "it tells for the first time how much room there is",
    Pair("DynamicResources", DEVICE_CLASS, ADD): "no hint: a request may name it",
    Pair("DynamicResources", DEVICE_CLASS, UPDATE): "no hint: it may select a device now",
    Pair("DynamicResources", RESOURCE_SLICE, ADD): "no hint: it may have a device",
    Pair("DynamicResources", RESOURCE_SLICE, UPDATE): "no hint: it may have a device now",
    Pair("DynamicResources", NODE, ADD): "no hint: a device may be reached from it",
    Pair("DynamicResources", NODE, NODE_LABEL): "no hint: a device may be reached from it now",
    Pair("DynamicResources", NODE, ALLOCATABLE): "no hint: it may have got extended resources",
    Pair("VolumeZone", NODE, ADD): "no hint: it may be in the volume's zone",
    Pair("VolumeZone", NODE, NODE_LABEL): "no hint: it may be in the volume's zone now",
    Pair("VolumeZone", PV, ADD): "it may be the one that a claim names",
    Pair("NodeDeclaredFeatures", NODE, ADD): "any added node has features that were not there",
    Pair("NodeDeclaredFeatures", NODE, FEATURE): "the event and the hint ask the same question",
}

#: Pairs whose events bring nobody back.
NEVER_QUEUES: dict[Pair, str] = {
    Pair("DefaultPreemption", POD, DELETE): "the preemption's own end frees the pod, no event does",
}
