"""Claims, volumes and what else volume plugins look up, in one line each."""

from __future__ import annotations

from typing import Any

import numpy as np

from stowplan.api.objects import ObjectMeta, OwnerReference, Pod
from stowplan.api.resources import CATALOGED
from stowplan.api.storage_objects import (
    CSINode,
    CSINodeAllocatable,
    CSINodeDriver,
    CSINodeSpec,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeSpec,
    StorageClass,
    VolumeAttachment,
    VolumeAttachmentSource,
    VolumeAttachmentSpec,
)
from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.pod_info import compile_pod
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import FilterStep
from stowplan.framework.handle import Handle
from stowplan.framework.plugin import Plugin
from stowplan.framework.status import SKIP, SUCCESS, Status
from stowplan.testing import pod

WAITS, AT_ONCE = "WaitForFirstConsumer", "Immediate"
_RESOURCES = {resource.type: resource for resource in CATALOGED}


def claim(
    name: str,
    volume: str = "",
    *,
    storage_class: str | None = None,
    mode: str = "ReadWriteOnce",
    namespace: str = "default",
    annotations: dict[str, str] | None = None,
    owner: Pod | None = None,
) -> PersistentVolumeClaim:
    owners = (OwnerReference(kind="Pod", uid=owner.uid, controller=True),) if owner else None
    return PersistentVolumeClaim(
        metadata=ObjectMeta(
            name=name, namespace=namespace, annotations=annotations, owner_references=owners
        ),
        spec=PersistentVolumeClaimSpec(
            volume_name=volume, storage_class_name=storage_class, access_modes=(mode,)
        ),
    )


def volume(name: str, labels: dict[str, str] | None = None, **source: Any) -> PersistentVolume:
    """`source` are fields of PersistentVolumeSpec."""
    return PersistentVolume(
        metadata=ObjectMeta(name=name, labels=labels), spec=PersistentVolumeSpec(**source)
    )


def storage_class(name: str, provisioner: str = "", mode: str | None = WAITS) -> StorageClass:
    return StorageClass(
        metadata=ObjectMeta(name=name), provisioner=provisioner, volume_binding_mode=mode
    )


def csi_node(name: str, **limits: int | None) -> CSINode:
    """Drivers by name, with `_` for `.`; None: a driver without a limit."""
    drivers = tuple(
        CSINodeDriver(
            name=driver.replace("_", "."),
            allocatable=CSINodeAllocatable(count=count) if count is not None else None,
        )
        for driver, count in limits.items()
    )
    return CSINode(metadata=ObjectMeta(name=name), spec=CSINodeSpec(drivers=drivers))


def attachment(name: str, node: str, attacher: str, of: str | None) -> VolumeAttachment:
    source = VolumeAttachmentSource(persistent_volume_name=of)
    return VolumeAttachment(
        metadata=ObjectMeta(name=name),
        spec=VolumeAttachmentSpec(attacher=attacher, node_name=node, source=source),
    )


def using(*volumes: str | dict[str, Any], **more: Any) -> Pod:
    """A pod with these volumes: the names of claims, or sources as the API writes them."""
    wire: list[dict[str, Any]] = []
    for number, source in enumerate(volumes):
        if isinstance(source, str):
            source = {"persistentVolumeClaim": {"claimName": source}}
        wire.append({"name": f"v{number}", **source})
    return pod(volumes=wire, **more)


def put(cache: ClusterCache, *things: Any) -> ClusterCache:
    """Shelve objects in the cache's catalog."""
    for thing in things:
        cache.catalog[_RESOURCES[type(thing)]].set(thing)
    return cache


def made_for(plugin: type[Plugin], cache: ClusterCache) -> Any:
    """The plugin as a profile on this cache would have it."""
    return plugin(None, Handle(table=cache.table, catalog=cache.catalog))


def judged(plugin: Plugin, pod: Pod, cache: ClusterCache) -> Status | dict[str, Status]:
    """The answer for every node, the same in both forms; or PreFilter's, if it ends it."""
    cycle = Cycle(cache.table, compile_pod(pod))
    prepared = plugin.pre_filter(cycle)
    if isinstance(prepared, Status):
        return prepared
    step = FilterStep(plugin)
    column = np.zeros(cache.table.capacity, np.int32)
    step.fill(cycle, slice(None), column)
    answers: dict[str, Status] = {}
    for row in cache.table.order.tolist():
        status = step.status(cycle, int(column[row])) if column[row] else SUCCESS
        assert status == step.status_of_row(cycle, row)
        answers[cache.table.names[row]] = status
    return answers


def fits(plugin: Plugin, pod: Pod, cache: ClusterCache) -> dict[str, bool]:
    """Which nodes do; every one if the plugin skips."""
    answers = judged(plugin, pod, cache)
    if answers == SKIP:
        return dict.fromkeys((cache.table.names[row] for row in cache.table.order), True)
    assert isinstance(answers, dict), answers
    return {name: status.is_success for name, status in answers.items()}
