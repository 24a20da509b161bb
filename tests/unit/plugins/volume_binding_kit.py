"""Claims, volumes and classes in few words, and VolumeBinding on a small cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import numpy as np

from stowplan.api.objects import Node, Pod
from stowplan.api.resources import CATALOGED, Resource
from stowplan.api.storage_objects import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from stowplan.api.verbs import ApiVerbs
from stowplan.clock import Clock
from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.pod_info import compile_pod
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import FilterStep
from stowplan.framework.handle import Handle, Wakeup
from stowplan.framework.status import SUCCESS, Status
from stowplan.plugins.volume_binding import VolumeBinding
from stowplan.testing import pod as make_pod

LATE = "WaitForFirstConsumer"
BOUND = {"pv.kubernetes.io/bind-completed": "yes"}
SELECTED_NODE = "volume.kubernetes.io/selected-node"
HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"

_BY_TYPE: dict[type, Resource[Any]] = {resource.type: resource for resource in CATALOGED}


def claim(
    name: str = "data",
    *,
    storage_class: str = "late",
    size: str | None = "1Gi",
    bound_to: str = "",
    annotations: dict[str, str] | None = None,
    version: str = "1",
    phase: str = "",
    owner: Pod | None = None,
    deleted: bool = False,
    **spec: Any,
) -> PersistentVolumeClaim:
    marks = {**(BOUND if bound_to else {}), **(annotations or {})}
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": "default",
        "uid": f"uid-{name}",
        "resourceVersion": version,
        "annotations": marks or None,
        "deletionTimestamp": "2026-01-01T00:00:00Z" if deleted else None,
    }
    if owner is not None:
        metadata["ownerReferences"] = [{"kind": "Pod", "uid": owner.uid, "controller": True}]
    wire = {
        "metadata": metadata,
        "spec": {
            "storageClassName": storage_class,
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}} if size is not None else {},
            "volumeName": bound_to,
            **spec,
        },
        "status": {"phase": phase or ("Bound" if bound_to else "Pending")},
    }
    return msgspec.convert(wire, PersistentVolumeClaim)


def volume(
    name: str,
    *,
    storage_class: str = "late",
    size: str = "5Gi",
    hosts: Iterable[str] = (),
    zones: Iterable[str] = (),
    claim_ref: dict[str, str] | None = None,
    phase: str = "Available",
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    version: str = "1",
    deleted: bool = False,
    **spec: Any,
) -> PersistentVolume:
    expressions = [
        {"key": key, "operator": "In", "values": list(values)}
        for key, values in ((HOSTNAME, hosts), (ZONE, zones))
        if values
    ]
    if expressions:
        terms = [{"matchExpressions": expressions}]
        spec.setdefault("nodeAffinity", {"required": {"nodeSelectorTerms": terms}})
    wire = {
        "metadata": {
            "name": name,
            "resourceVersion": version,
            "labels": labels,
            "annotations": annotations,
            "deletionTimestamp": "2026-01-01T00:00:00Z" if deleted else None,
        },
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "claimRef": claim_ref,
            **spec,
        },
        "status": {"phase": phase},
    }
    return msgspec.convert(wire, PersistentVolume)


def storage_class(
    name: str = "late",
    *,
    provisioner: str = "disks.example.com",
    mode: str | None = LATE,
    zones: Iterable[str] = (),
    labels: dict[str, str] | None = None,
) -> StorageClass:
    expressions = [{"key": ZONE, "values": list(zones)}]
    wire = {
        "metadata": {"name": name, "labels": labels},
        "provisioner": provisioner,
        "volumeBindingMode": mode,
        "allowedTopologies": [{"matchLabelExpressions": expressions}] if zones else None,
    }
    return msgspec.convert(wire, StorageClass)


STATIC = storage_class("static", provisioner="kubernetes.io/no-provisioner")


def driver(*, capacity: bool | None = True, name: str = "disks.example.com") -> CSIDriver:
    return msgspec.convert(
        {"metadata": {"name": name}, "spec": {"storageCapacity": capacity}}, CSIDriver
    )


def pool(
    topology: dict[str, Any] | None,
    *,
    name: str = "pool",
    storage_class: str = "late",
    capacity: str | None = "10Gi",
    largest: str | None = None,
) -> CSIStorageCapacity:
    wire = {
        "metadata": {"name": name, "namespace": "kube-system"},
        "storageClassName": storage_class,
        "nodeTopology": topology,
        "capacity": capacity,
        "maximumVolumeSize": largest,
    }
    return msgspec.convert(wire, CSIStorageCapacity)


def csi_node(name: str, *migrated: str) -> CSINode:
    annotations = {"storage.alpha.kubernetes.io/migrated-plugins": ",".join(migrated)}
    return msgspec.convert({"metadata": {"name": name, "annotations": annotations}}, CSINode)


def using(*claims: str, name: str = "p", **more: Any) -> Pod:
    """A pod that uses these claims."""
    volumes = [
        {"name": f"v{number}", "persistentVolumeClaim": {"claimName": claim_name}}
        for number, claim_name in enumerate(claims)
    ]
    return make_pod(name, volumes=volumes + more.pop("volumes", []), **more)


def ephemeral(name: str = "p", **more: Any) -> Pod:
    return make_pod(name, volumes=[{"name": "scratch", "ephemeral": {}}], **more)


class Scene:
    """A cluster and the plugin."""

    def __init__(
        self,
        nodes: Iterable[Node],
        *things: Any,
        clock: Clock | None = None,
        client: ApiVerbs | None = None,
        wakeup: Callable[[], Wakeup] | None = None,
    ) -> None:
        self.cache = ClusterCache()
        for node in nodes:
            self.cache.set_node(node)
        self.put(*things)
        self.handle = Handle(table=self.cache.table, catalog=self.cache.catalog)
        self.handle.clock = clock or self.handle.clock
        self.handle.client = client or self.handle.client
        self.handle.wakeup = wakeup or self.handle.wakeup
        self.plugin = VolumeBinding(None, self.handle)

    def put(self, *things: Any) -> None:
        for thing in things:
            self.cache.catalog[_BY_TYPE[type(thing)]].set(thing)

    def remove(self, thing: Any) -> None:
        meta = thing.metadata
        self.cache.catalog[_BY_TYPE[type(thing)]].remove(meta.name, meta.namespace)

    def cycle(self, pod: Pod) -> Cycle:
        return Cycle(self.cache.table, compile_pod(pod))

    def pre_filter(self, pod: Pod) -> Status | None:
        return self.plugin.pre_filter(self.cycle(pod))

    def filter(self, pod: Pod) -> dict[str, list[str]]:
        """Reasons by node, the same from the columns and one by one."""
        cycle = self.cycle(pod)
        assert self.plugin.pre_filter(cycle) is None
        step = FilterStep(self.plugin)
        table = self.cache.table
        column = np.zeros(table.capacity, np.int32)
        step.fill(cycle, slice(None), column)
        answers = {}
        for row in table.order.tolist():
            status = step.status(cycle, int(column[row])) if column[row] else SUCCESS
            assert status == step.status_of_row(cycle, row)
            answers[table.names[row]] = list(status.reasons)
        return answers

    def reserve(self, pod: Pod, node: str) -> Cycle:
        """A cycle that has chosen the node."""
        cycle = self.cycle(pod)
        assert self.plugin.pre_filter(cycle) is None
        assert self.plugin.reserve(cycle, pod, node) is None
        return cycle
