"""Which changes of the cluster may help a pod that VolumeBinding refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from stowplan.api.objects import Pod
from stowplan.api.storage_objects import CSIDriver, CSINode, CSIStorageCapacity, StorageClass
from stowplan.cluster.csi_migration import MIGRATED_ANNOTATION
from stowplan.cluster.pod_volumes import claim_names
from stowplan.plugins.volume_binding.provisioning import volume_limit
from stowplan.queue.events import ActionType, ClusterEvent, EventHint, EventResource, Topics
from stowplan.queue.topics import all_or_none, own_claims

T = TypeVar("T")


def _of_kind(kind: type[T], may_help: Callable[[T | None, T], bool]) -> Topics:
    """A question about objects of one kind; as upstream, anything else queues every pod."""

    def judge(old: object, new: object) -> bool:
        if not isinstance(new, kind) or not (old is None or isinstance(old, kind)):
            return True
        return may_help(old, new)

    return all_or_none(judge)


def _class_helps(old: StorageClass | None, new: StorageClass) -> bool:
    return old is None or _topologies(old) != _topologies(new)


def _topologies(storage_class: StorageClass) -> list[list[tuple[str, tuple[str, ...]]]]:
    """Absent and empty lists are alike."""
    return [
        [(each.key, each.values or ()) for each in term.match_label_expressions or ()]
        for term in storage_class.allowed_topologies or ()
    ]


def _csi_node_helps(old: CSINode | None, new: CSINode) -> bool:
    return old is None or _migrated(old) != _migrated(new)


def _migrated(csi_node: CSINode) -> str:
    return (csi_node.metadata.annotations or {}).get(MIGRATED_ANNOTATION, "")


def _drivers_of_pod(pod: Pod) -> list[str]:
    """As upstream, which looks at volumes that name their driver, not at claims."""
    return [volume.csi.driver for volume in pod.spec.volumes or () if volume.csi is not None]


def _driver_of_event(old: object, new: object) -> tuple[str, ...] | None:
    """A driver whose volumes no longer need capacity."""
    if not isinstance(new, CSIDriver) or not (old is None or isinstance(old, CSIDriver)):
        return None
    was_limited = old is not None and old.spec.storage_capacity
    return (new.metadata.name,) if was_limited and not new.spec.storage_capacity else ()


def _capacity_helps(old: CSIStorageCapacity | None, new: CSIStorageCapacity) -> bool:
    if old is None:
        return True
    before, now = volume_limit(old), volume_limit(new)
    return now is not None and (before is None or now > before)


_CHANGED = ActionType.ADD | ActionType.UPDATE
EVENTS = (
    EventHint(
        ClusterEvent(EventResource.STORAGE_CLASS, _CHANGED),
        topics=_of_kind(StorageClass, _class_helps),
    ),
    EventHint(
        ClusterEvent(EventResource.PERSISTENT_VOLUME_CLAIM, _CHANGED),
        topics=own_claims(claim_names),
    ),
    EventHint(ClusterEvent(EventResource.PERSISTENT_VOLUME, _CHANGED)),
    EventHint(ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL)),
    EventHint(
        ClusterEvent(EventResource.CSI_NODE, _CHANGED), topics=_of_kind(CSINode, _csi_node_helps)
    ),
    EventHint(
        ClusterEvent(EventResource.CSI_DRIVER, ActionType.UPDATE),
        topics=Topics(_drivers_of_pod, _driver_of_event),
    ),
    EventHint(
        ClusterEvent(EventResource.CSI_STORAGE_CAPACITY, _CHANGED),
        topics=_of_kind(CSIStorageCapacity, _capacity_helps),
    ),
)
