"""Which changes of the cluster may help a pod that VolumeBinding refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, TypeVar

from stowplan.api.objects import Pod
from stowplan.api.storage_objects import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolumeClaim,
    StorageClass,
)
from stowplan.cluster.csi_migration import MIGRATED_ANNOTATION
from stowplan.cluster.pod_volumes import claims_of
from stowplan.plugins.volume_binding.provisioning import volume_limit
from stowplan.queue.events import ActionType, ClusterEvent, EventHint, EventResource, Hint

T = TypeVar("T")
_Judge: TypeAlias = Callable[[Pod, T | None, T], bool]


def _hint(kind: type[T], may_help: _Judge[T]) -> Callable[[Pod, object, object], Hint]:
    """A hint from a question about objects of one kind; as upstream, anything else queues."""

    def judge(pod: Pod, old: object, new: object) -> Hint:
        if not isinstance(new, kind) or not (old is None or isinstance(old, kind)):
            return Hint.QUEUE
        return Hint.QUEUE if may_help(pod, old, new) else Hint.SKIP

    return judge


def _class_helps(pod: Pod, old: StorageClass | None, new: StorageClass) -> bool:
    return old is None or _topologies(old) != _topologies(new)


def _topologies(storage_class: StorageClass) -> list[list[tuple[str, tuple[str, ...]]]]:
    """Absent and empty lists are alike."""
    return [
        [(each.key, each.values or ()) for each in term.match_label_expressions or ()]
        for term in storage_class.allowed_topologies or ()
    ]


def _claim_helps(pod: Pod, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim) -> bool:
    return pod.metadata.namespace == new.metadata.namespace and any(
        used.name == new.metadata.name for used in claims_of(pod)
    )


def _csi_node_helps(pod: Pod, old: CSINode | None, new: CSINode) -> bool:
    return old is None or _migrated(old) != _migrated(new)


def _migrated(csi_node: CSINode) -> str:
    return (csi_node.metadata.annotations or {}).get(MIGRATED_ANNOTATION, "")


def _driver_helps(pod: Pod, old: CSIDriver | None, new: CSIDriver) -> bool:
    """As upstream, which looks at volumes that name their driver, not at claims."""
    was_limited = old is not None and bool(old.spec.storage_capacity)
    return (
        was_limited
        and not new.spec.storage_capacity
        and any(
            volume.csi is not None and volume.csi.driver == new.metadata.name
            for volume in pod.spec.volumes or ()
        )
    )


def _capacity_helps(pod: Pod, old: CSIStorageCapacity | None, new: CSIStorageCapacity) -> bool:
    if old is None:
        return True
    before, now = volume_limit(old), volume_limit(new)
    return now is not None and (before is None or now > before)


_CHANGED = ActionType.ADD | ActionType.UPDATE
EVENTS = (
    EventHint(
        ClusterEvent(EventResource.STORAGE_CLASS, _CHANGED), _hint(StorageClass, _class_helps)
    ),
    EventHint(
        ClusterEvent(EventResource.PERSISTENT_VOLUME_CLAIM, _CHANGED),
        _hint(PersistentVolumeClaim, _claim_helps),
    ),
    EventHint(ClusterEvent(EventResource.PERSISTENT_VOLUME, _CHANGED)),
    EventHint(ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL)),
    EventHint(ClusterEvent(EventResource.CSI_NODE, _CHANGED), _hint(CSINode, _csi_node_helps)),
    EventHint(
        ClusterEvent(EventResource.CSI_DRIVER, ActionType.UPDATE), _hint(CSIDriver, _driver_helps)
    ),
    EventHint(
        ClusterEvent(EventResource.CSI_STORAGE_CAPACITY, _CHANGED),
        _hint(CSIStorageCapacity, _capacity_helps),
    ),
)
