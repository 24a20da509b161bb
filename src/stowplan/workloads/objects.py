"""The objects of a workload's operations, made one at a time, with upstream's names and defaults.

Called by `play`. Upstream lets the API server finish names that begin with `generateName`; here
they are numbered, so that two runs of a workload create the same objects and can be compared.
Invariant: objects are shallow copies over shared parts, so 50,000 pods that differ in their names
only cost next to nothing.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from stowplan.api.resources import (
    CSI_NODES,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    RESOURCE_SLICES,
    Resource,
)
from stowplan.workloads.kinds import resource_of
from stowplan.workloads.model import (
    CreateAny,
    CreateNamespaces,
    CreateNodes,
    CreatePods,
    CreateResourceDriver,
    NodeAllocatable,
    NodeLabels,
    UniqueNodeLabel,
    UpdateAny,
    Volumes,
)
from stowplan.workloads.templates import JsonObject, Template
from stowplan.workloads.writes import Chain, Write

_HOSTNAME = "kubernetes.io/hostname"
_MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"
_CAPACITY = {"cpu": "4", "memory": "32Gi", "pods": "110"}
_AMOUNTS = {"cpu": "100m", "memory": "500Mi"}

#: What upstream creates where no template is named, but for the beginning of the name.
DEFAULT_NODE: JsonObject = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {},
    "status": {
        "capacity": _CAPACITY,
        "allocatable": _CAPACITY,
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}
DEFAULT_POD: JsonObject = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"generateName": "pod-"},
    "spec": {
        "containers": [
            {
                "name": "pause",
                "image": "registry.k8s.io/pause:3.10.2",
                "ports": [{"containerPort": 80}],
                "resources": {"limits": _AMOUNTS, "requests": _AMOUNTS},
            }
        ]
    },
}


class Names:
    """Finishes the names that templates only begin; numbers are five digits, as random ends are."""

    def __init__(self) -> None:
        self._taken: Counter[tuple[str, str, str]] = Counter()

    def finish(self, kind: str, namespace: str, beginning: str) -> str:
        key = (kind, namespace, beginning)
        number = self._taken[key]
        self._taken[key] = number + 1
        return f"{beginning}{number:05}"


class Made(NamedTuple):
    """A pod that was handed to the cluster."""

    name: str
    labels: Mapping[str, str]


def named(described: JsonObject, names: Names, namespace: str = "", prefix: str = "") -> JsonObject:
    """A copy with metadata of its own: a name for good, and the namespace."""
    metadata = dict(described.get("metadata") or {})
    beginning = metadata.pop("generateName", "") or prefix
    if not metadata.get("name"):
        beginning = beginning or described["kind"].lower() + "-"
        metadata["name"] = names.finish(described["kind"], namespace, beginning)
    if namespace:
        metadata["namespace"] = namespace
    return {**described, "metadata": metadata}


def namespace_writes(operation: CreateNamespaces) -> Iterator[Chain]:
    for index in range(operation.count):
        described: JsonObject = {"apiVersion": "v1", "kind": "Namespace"}
        if operation.template is not None:
            described = operation.template.build(index, operation.count)
        yield [_namespace(described, f"{operation.prefix}-{index}")]


def namespace_write(name: str) -> Chain:
    """One without anything, for the operations that bring their own."""
    return [_namespace({"apiVersion": "v1", "kind": "Namespace"}, name)]


def _namespace(described: JsonObject, name: str) -> Write:
    metadata = {**(described.get("metadata") or {}), "name": name}
    return Write("create", NAMESPACES, {**described, "metadata": metadata}, may_exist=True)


def node_writes(
    operation: CreateNodes, names: Names, made: Callable[[str], None] = lambda name: None
) -> Iterator[Chain]:
    """Nodes as they are once upstream has patched its labels and its amounts onto them.

    `made` is called with the name of each.
    """
    strategy = operation.strategy
    for index in range(operation.count):
        described = DEFAULT_NODE
        if operation.template is not None:
            described = operation.template.build(index, operation.count)
        node = named(described, names, prefix=operation.name_prefix)
        name = node["metadata"]["name"]
        made(name)
        labels = dict(node["metadata"].get("labels") or {})
        labels[_HOSTNAME] = name
        node["metadata"]["labels"] = labels
        chain = [Write("create", NODES, node)]
        match strategy:
            case NodeLabels(key, values):
                labels[key] = values[index % len(values)]
            case UniqueNodeLabel(key):
                labels[key] = str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{key}/{name}"))
            case NodeAllocatable():
                node["status"] = _with_allocatable(node.get("status") or {}, strategy)
                chain.append(Write("create", CSI_NODES, _csi_node(name, strategy)))
        yield chain


def _with_allocatable(status: JsonObject, strategy: NodeAllocatable) -> JsonObject:
    # The API server takes an absent allocatable for the capacity.
    there = status.get("allocatable") or status.get("capacity") or {}
    return {**status, "allocatable": {**there, **strategy.allocatable}}


def _csi_node(name: str, strategy: NodeAllocatable) -> JsonObject:
    drivers = []
    for driver, count in strategy.csi_volumes.items():
        entry: JsonObject = {"name": driver, "nodeID": name}
        if count is not None:
            entry["allocatable"] = {"count": count}
        drivers.append(entry)
    migrated = ",".join(strategy.migrated_plugins)
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": name, "annotations": {_MIGRATED_PLUGINS: migrated}},
        "spec": {"drivers": drivers},
    }


def pod_writes(
    operation: CreatePods, names: Names, made: Callable[[Made], None]
) -> Iterator[Chain]:
    """Yield the operation's pods, each after its volume; call `made` for each yielded pod."""
    count, namespace = operation.count, operation.namespace
    for index in range(count):
        described = DEFAULT_POD
        if operation.template is not None:
            described = operation.template.build(index, count)
        pod = named(described, names, namespace)
        chain: list[Write] = []
        if operation.volumes is not None:
            chain = _volume_writes(operation.volumes, namespace, index, count)
            claim = {"claimName": f"pvc-{index}"}
            volumes = [{"name": "vol", "persistentVolumeClaim": claim}]
            pod["spec"] = {**pod["spec"], "volumes": volumes}
        chain.append(Write("create", PODS, pod))
        made(Made(pod["metadata"]["name"], pod["metadata"].get("labels") or {}))
        yield chain


def _volume_writes(volumes: Volumes, namespace: str, index: int, count: int) -> list[Write]:
    """A claim and a volume that are bound to each other, as no controller is there to bind them.

    Creating drops the status, so that it is written by a request of its own.
    """
    claim_name, volume_id = f"pvc-{index}", f"vol-{index}"
    volume_name = f"{namespace}-{volume_id}"  # volumes are in no namespace

    described = volumes.claim.build(index, count)
    metadata = {**(described.get("metadata") or {}), "name": claim_name, "namespace": namespace}
    claim = {
        **described,
        "metadata": metadata,
        "spec": {**described["spec"], "volumeName": volume_name},
        "status": {"phase": "Bound"},
    }
    described = volumes.volume.build(index, count)
    spec = {
        **described["spec"],
        "claimRef": {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": namespace,
            "name": claim_name,
        },
    }
    if "csi" in spec:
        spec["csi"] = {**spec["csi"], "volumeHandle": volume_name}
    elif "awsElasticBlockStore" in spec:
        # Upstream gives pods of different namespaces the same disks.
        spec["awsElasticBlockStore"] = {**spec["awsElasticBlockStore"], "volumeID": volume_id}
    volume = {
        **described,
        "metadata": {**(described.get("metadata") or {}), "name": volume_name},
        "spec": spec,
        "status": {"phase": "Bound"},
    }
    return [
        Write("create", PERSISTENT_VOLUME_CLAIMS, claim, may_exist=True),
        Write("update", PERSISTENT_VOLUME_CLAIMS, claim, "status"),
        Write("create", PERSISTENT_VOLUMES, volume, may_exist=True),
        Write("update", PERSISTENT_VOLUMES, volume, "status"),
    ]


def driver_writes(operation: CreateResourceDriver, nodes: Iterable[str]) -> Iterator[Chain]:
    """The slices that upstream's driver publishes for the nodes that match."""
    for node in nodes:
        if not fnmatchcase(node, operation.nodes):
            continue
        devices = [
            {
                "name": f"instance-{index}",
                "attributes": {
                    "model": {"string": "A100"},
                    "family": {"string": "GPU"},
                    "driverVersion": {"version": "1.2.3"},
                    "dra.example.com/numa": {"int": index},
                },
                "capacity": {"memory": {"value": "1Gi"}},
            }
            for index in range(operation.devices)
        ]
        resource_slice = {
            "apiVersion": RESOURCE_SLICES.api_version,
            "kind": RESOURCE_SLICES.kind,
            "metadata": {"name": node},
            "spec": {
                "driver": operation.driver,
                "nodeName": node,
                "pool": {"name": node, "generation": 0, "resourceSliceCount": 1},
                "devices": devices,
            },
        }
        yield [Write("create", RESOURCE_SLICES, resource_slice)]


def any_writes(operation: CreateAny, names: Names) -> Iterator[Chain]:
    resource = resource_of(operation.template)
    for index in range(operation.count):
        described = operation.template.build(index, operation.count)
        described = {**described, "apiVersion": resource.api_version}
        yield [Write("create", resource, named(described, names, operation.namespace))]


def update_writes(operation: UpdateAny, names: Names) -> Iterator[Chain]:
    """The object (or a subresource of it), and then its status, as upstream always does."""
    resource = resource_of(operation.template)
    for index in range(operation.count):
        described = operation.template.build(index, operation.count)
        updated = named(described, names, operation.namespace)
        yield [
            Write("update", resource, updated, operation.subresource),
            Write("update", resource, updated, "status"),
        ]


def churn_write(template: Template, names: Names, namespace: str) -> Write:
    """The next object of a churn; objects that are in no namespace stay so."""
    resource: Resource[Any] = resource_of(template)
    described = template.build(0, 1)
    where = namespace if resource.namespaced else ""
    return Write("create", resource, named(described, names, where))
