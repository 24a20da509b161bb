"""The vocabulary of requeueing: cluster events, and a plugin's hint for an event.

The scheduler reports events to the queue (`SchedulingQueue.move_all`); plugins register the events
that may help the pods they rejected. Names, bit order and labels are kube-scheduler's, since they
appear in configuration, logs and the metric `queue_incoming_pods_total`. The framework re-exports
all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass
from enum import Enum, IntFlag, StrEnum
from typing import Final, TypeAlias

from stowplan.api.objects import Pod


class ActionType(IntFlag):
    """What was done to a resource. The bit order matters: see `ClusterEvent.matches`."""

    NONE = 0
    ADD = 1 << 0
    DELETE = 1 << 1
    UPDATE_NODE_ALLOCATABLE = 1 << 2
    UPDATE_NODE_LABEL = 1 << 3
    UPDATE_NODE_TAINT = 1 << 4  # also: the node became schedulable
    UPDATE_NODE_CONDITION = 1 << 5
    UPDATE_NODE_ANNOTATION = 1 << 6
    UPDATE_NODE_DECLARED_FEATURE = 1 << 7
    UPDATE_POD_LABEL = 1 << 8
    UPDATE_POD_SCALE_DOWN = 1 << 9
    UPDATE_POD_TOLERATION = 1 << 10
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED = 1 << 11
    UPDATE_POD_GENERATED_RESOURCE_CLAIM = 1 << 12
    UPDATE = (1 << 13) - 1 - ADD - DELETE
    ALL = (1 << 13) - 1


def _spoken(action: ActionType) -> str:
    """`UPDATE_NODE_LABEL` as `UpdateNodeLabel`; a mixture of actions has no name upstream."""
    name = action.name or ""
    return "" if "|" in name else "".join(part.capitalize() for part in name.split("_"))


class EventResource(StrEnum):
    """Kinds that events speak of; `ClusterEvent.resource` accepts any other string as well."""

    POD = "Pod"
    ASSIGNED_POD = "AssignedPod"  # only in events that happen, never registered
    UNSCHEDULABLE_POD = "UnschedulablePod"  # only in events that happen, never registered
    NODE = "Node"
    PERSISTENT_VOLUME = "PersistentVolume"
    PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
    CSI_NODE = "storage.k8s.io/CSINode"
    CSI_DRIVER = "storage.k8s.io/CSIDriver"
    CSI_STORAGE_CAPACITY = "storage.k8s.io/CSIStorageCapacity"
    STORAGE_CLASS = "storage.k8s.io/StorageClass"
    VOLUME_ATTACHMENT = "storage.k8s.io/VolumeAttachment"
    RESOURCE_CLAIM = "resource.k8s.io/ResourceClaim"
    RESOURCE_SLICE = "resource.k8s.io/ResourceSlice"
    DEVICE_CLASS = "resource.k8s.io/DeviceClass"
    WILDCARD = "*"


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """A change of one kind of resource; `label` defaults to resource and action run together."""

    resource: str
    action: ActionType
    label: str = ""

    def __post_init__(self) -> None:
        if not self.label:
            object.__setattr__(self, "label", f"{self.resource}{_spoken(self.action)}")

    @property
    def is_wildcard(self) -> bool:
        """Moves every pod (as an event), or asks for every event (as a registration)."""
        return self.resource == EventResource.WILDCARD and self.action == ActionType.ALL

    def matches(self, registered: ClusterEvent) -> bool:
        """Whether this event, which happened, is covered by a registered one.

        It must be as specific as the registration or more so: Node/UpdateNodeLabel is covered by
        Node/Update, and not the other way round. The comparison of action numbers is upstream's.
        """
        if registered.is_wildcard:
            return True
        if registered.resource not in (self.resource, EventResource.WILDCARD) and not (
            registered.resource == EventResource.POD
            and self.resource in (EventResource.ASSIGNED_POD, EventResource.UNSCHEDULABLE_POD)
        ):
            return False
        return bool(registered.action & self.action) and self.action <= registered.action


class Hint(Enum):
    """A plugin's answer: may this event make the pod it rejected schedulable?"""

    QUEUE = "Queue"
    SKIP = "QueueSkip"


HintFn: TypeAlias = Callable[[Pod, object | None, object | None], Hint]
"""(the rejected pod, the old object or None if added, the new object or None if deleted)"""


@dataclass(frozen=True, slots=True)
class Topics:
    """Spares an event the hints of pods that wait for something else.

    Only pods that have a topic of the event are judged: for others the hint must answer SKIP.
    None stands for every topic. A function that raises is reported, and None is assumed.
    """

    of_pod: Callable[[Pod], Collection[Hashable] | None]
    #: (old, new) as in a hint. An empty collection: the event helps no pod.
    of_event: Callable[[object | None, object | None], Collection[Hashable] | None]

    def hint(self, pod: Pod, old: object | None, new: object | None) -> Hint:
        """QUEUE if the pod has a topic of the event."""
        about = self.of_event(old, new)
        if about is None:
            return Hint.QUEUE
        wanted = self.of_pod(pod) if about else ()
        has_one = wanted is None or not set(about).isdisjoint(wanted)
        return Hint.QUEUE if has_one else Hint.SKIP


@dataclass(frozen=True, slots=True)
class EventHint:
    """A plugin's registration of an event.

    Without a hint, the topics decide; without topics, too, every such event queues the pod.
    """

    event: ClusterEvent
    hint: HintFn | None = None
    topics: Topics | None = None

    def __post_init__(self) -> None:
        if self.hint is None and self.topics is not None:
            object.__setattr__(self, "hint", self.topics.hint)


# Labels of movements that no cluster event caused.
SCHEDULE_ATTEMPT_FAILURE: Final = "ScheduleAttemptFailure"
BACKOFF_COMPLETE: Final = "BackoffComplete"
POP_FROM_BACKOFF: Final = "PopFromBackoffQ"
POD_POPPED: Final = "PodPopped"  # only in the metric inflight_events

ASSIGNED_POD_ADD: Final = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.ADD)
ASSIGNED_POD_UPDATE: Final = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.UPDATE)
ASSIGNED_POD_DELETE: Final = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.DELETE)
UNSCHEDULED_POD_ADD: Final = ClusterEvent(EventResource.UNSCHEDULABLE_POD, ActionType.ADD)
UNSCHEDULED_POD_UPDATE: Final = ClusterEvent(EventResource.UNSCHEDULABLE_POD, ActionType.UPDATE)
UNSCHEDULED_POD_DELETE: Final = ClusterEvent(EventResource.UNSCHEDULABLE_POD, ActionType.DELETE)
NODE_ADD: Final = ClusterEvent(EventResource.NODE, ActionType.ADD)
NODE_DELETE: Final = ClusterEvent(EventResource.NODE, ActionType.DELETE)
UNSCHEDULABLE_TIMEOUT: Final = ClusterEvent(
    EventResource.WILDCARD, ActionType.ALL, "UnschedulableTimeout"
)
FORCE_ACTIVATE: Final = ClusterEvent(EventResource.WILDCARD, ActionType.ALL, "ForceActivate")
