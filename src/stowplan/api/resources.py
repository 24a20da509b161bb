"""The API resources that Stowplan reads or writes, and their paths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from stowplan.api import device_objects, objects, storage_objects, workload_objects

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Resource(Generic[T]):
    """One served resource and the struct its objects decode into."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    type: type[T]

    def path(self, *, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """URL path; without a namespace a namespaced resource means all of them."""
        parts = ["/api" if not self.group else f"/apis/{self.group}", self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        if name:
            parts.append(name)
        if subresource:
            parts.append(subresource)
        return "/".join(parts)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


PODS = Resource("", "v1", "pods", "Pod", True, objects.Pod)
NODES = Resource("", "v1", "nodes", "Node", False, objects.Node)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", False, objects.Namespace)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", True, objects.Lease)

# What plugins look up by name (`cluster.catalog`), besides nodes and pods.
SERVICES = Resource("", "v1", "services", "Service", True, workload_objects.Service)
REPLICATION_CONTROLLERS = Resource(
    "",
    "v1",
    "replicationcontrollers",
    "ReplicationController",
    True,
    workload_objects.ReplicationController,
)
REPLICA_SETS = Resource(
    "apps", "v1", "replicasets", "ReplicaSet", True, workload_objects.ReplicaSet
)
STATEFUL_SETS = Resource(
    "apps", "v1", "statefulsets", "StatefulSet", True, workload_objects.StatefulSet
)
POD_DISRUPTION_BUDGETS = Resource(
    "policy",
    "v1",
    "poddisruptionbudgets",
    "PodDisruptionBudget",
    True,
    workload_objects.PodDisruptionBudget,
)
PERSISTENT_VOLUMES = Resource(
    "", "v1", "persistentvolumes", "PersistentVolume", False, storage_objects.PersistentVolume
)
PERSISTENT_VOLUME_CLAIMS = Resource(
    "",
    "v1",
    "persistentvolumeclaims",
    "PersistentVolumeClaim",
    True,
    storage_objects.PersistentVolumeClaim,
)
STORAGE_CLASSES = Resource(
    "storage.k8s.io", "v1", "storageclasses", "StorageClass", False, storage_objects.StorageClass
)
CSI_NODES = Resource("storage.k8s.io", "v1", "csinodes", "CSINode", False, storage_objects.CSINode)
CSI_DRIVERS = Resource(
    "storage.k8s.io", "v1", "csidrivers", "CSIDriver", False, storage_objects.CSIDriver
)
CSI_STORAGE_CAPACITIES = Resource(
    "storage.k8s.io",
    "v1",
    "csistoragecapacities",
    "CSIStorageCapacity",
    True,
    storage_objects.CSIStorageCapacity,
)
VOLUME_ATTACHMENTS = Resource(
    "storage.k8s.io",
    "v1",
    "volumeattachments",
    "VolumeAttachment",
    False,
    storage_objects.VolumeAttachment,
)
RESOURCE_CLAIMS = Resource(
    "resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", True, device_objects.ResourceClaim
)
RESOURCE_SLICES = Resource(
    "resource.k8s.io", "v1", "resourceslices", "ResourceSlice", False, device_objects.ResourceSlice
)
DEVICE_CLASSES = Resource(
    "resource.k8s.io", "v1", "deviceclasses", "DeviceClass", False, device_objects.DeviceClass
)
#: Not looked up by plugins: the claim controller makes claims from them.
RESOURCE_CLAIM_TEMPLATES = Resource(
    "resource.k8s.io",
    "v1",
    "resourceclaimtemplates",
    "ResourceClaimTemplate",
    True,
    device_objects.ResourceClaimTemplate,
)
#: Behind the feature gate DRADeviceTaintRules; v1 does not have it.
DEVICE_TAINT_RULES = Resource(
    "resource.k8s.io",
    "v1beta2",
    "devicetaintrules",
    "DeviceTaintRule",
    False,
    device_objects.DeviceTaintRule,
)

#: Every kind that a plugin may look up without a feature gate.
CATALOGED: tuple[Resource[Any], ...] = (
    NAMESPACES,
    SERVICES,
    REPLICATION_CONTROLLERS,
    REPLICA_SETS,
    STATEFUL_SETS,
    POD_DISRUPTION_BUDGETS,
    PERSISTENT_VOLUMES,
    PERSISTENT_VOLUME_CLAIMS,
    STORAGE_CLASSES,
    CSI_NODES,
    CSI_DRIVERS,
    CSI_STORAGE_CAPACITIES,
    VOLUME_ATTACHMENTS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    DEVICE_CLASSES,
)
