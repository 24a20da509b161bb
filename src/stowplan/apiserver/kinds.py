"""The table of every resource that the embedded API server serves.

Routing, storage, discovery, OpenAPI and Table output all read this one table, so a resource is
added here and nowhere else. Names, short names, verbs and categories are kube-apiserver's.
"""

from __future__ import annotations

from dataclasses import dataclass

ALL_VERBS = (
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
)


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """One served resource. `subresources` are path tails such as "status" or "binding".

    There is one instance per resource, so that lookups can compare by identity.
    """

    group: str
    version: str
    plural: str
    kind: str
    singular: str
    short_names: tuple[str, ...] = ()
    namespaced: bool = True
    subresources: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    has_status: bool = False
    categories: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def prefix(self) -> str:
        """Path of the group and version: `/api/v1` or `/apis/apps/v1`."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    @property
    def list_kind(self) -> str:
        return f"{self.kind}List"

    @property
    def resource(self) -> str:
        """`pods` or `leases.coordination.k8s.io`: how error messages name the resource."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def stored(self) -> bool:
        """False for what is only ever posted: bindings and access reviews."""
        return "get" in self.verbs


def _kind(
    group_version: str,
    plural: str,
    kind: str,
    short_names: str = "",
    *,
    namespaced: bool = True,
    subresources: tuple[str, ...] = (),
    verbs: tuple[str, ...] = ALL_VERBS,
    categories: tuple[str, ...] = (),
) -> Kind:
    group, _, version = group_version.rpartition("/")
    return Kind(
        group=group,
        version=version,
        plural=plural,
        kind=kind,
        singular=kind.lower(),
        short_names=tuple(short_names.split()),
        namespaced=namespaced,
        subresources=subresources,
        verbs=verbs,
        has_status="status" in subresources,
        categories=categories,
    )


_STATUS = ("status",)
_SCALED = ("scale", "status")
_ALL = ("all",)
_NAMESPACE_VERBS = tuple(verb for verb in ALL_VERBS if verb != "deletecollection")

PODS = _kind(
    "v1",
    "pods",
    "Pod",
    "po",
    subresources=("binding", "eviction", "resize", "status"),
    categories=_ALL,
)
NODES = _kind("v1", "nodes", "Node", "no", namespaced=False, subresources=_STATUS)
NAMESPACES = _kind(
    "v1",
    "namespaces",
    "Namespace",
    "ns",
    namespaced=False,
    subresources=("finalize", "status"),
    verbs=_NAMESPACE_VERBS,
)
EVENTS = _kind("v1", "events", "Event", "ev")
BINDINGS = _kind("v1", "bindings", "Binding", verbs=("create",))
EVENTS_V1 = _kind("events.k8s.io/v1", "events", "Event", "ev")
PRIORITY_CLASSES = _kind(
    "scheduling.k8s.io/v1", "priorityclasses", "PriorityClass", "pc", namespaced=False
)
PERSISTENT_VOLUME_CLAIMS = _kind(
    "v1", "persistentvolumeclaims", "PersistentVolumeClaim", "pvc", subresources=_STATUS
)
PERSISTENT_VOLUMES = _kind(
    "v1", "persistentvolumes", "PersistentVolume", "pv", namespaced=False, subresources=_STATUS
)
STORAGE_CLASSES = _kind(
    "storage.k8s.io/v1", "storageclasses", "StorageClass", "sc", namespaced=False
)
CSI_NODES = _kind("storage.k8s.io/v1", "csinodes", "CSINode", namespaced=False)
POD_DISRUPTION_BUDGETS = _kind(
    "policy/v1", "poddisruptionbudgets", "PodDisruptionBudget", "pdb", subresources=_STATUS
)
DEPLOYMENTS = _kind(
    "apps/v1", "deployments", "Deployment", "deploy", subresources=_SCALED, categories=_ALL
)
REPLICA_SETS = _kind(
    "apps/v1", "replicasets", "ReplicaSet", "rs", subresources=_SCALED, categories=_ALL
)
STATEFUL_SETS = _kind(
    "apps/v1", "statefulsets", "StatefulSet", "sts", subresources=_SCALED, categories=_ALL
)
JOBS = _kind("batch/v1", "jobs", "Job", subresources=_STATUS, categories=_ALL)
RESOURCE_CLAIMS = _kind(
    "resource.k8s.io/v1", "resourceclaims", "ResourceClaim", subresources=_STATUS
)
RESOURCE_CLAIM_TEMPLATES = _kind(
    "resource.k8s.io/v1", "resourceclaimtemplates", "ResourceClaimTemplate"
)
DEVICE_CLASSES = _kind("resource.k8s.io/v1", "deviceclasses", "DeviceClass", namespaced=False)
RESOURCE_SLICES = _kind("resource.k8s.io/v1", "resourceslices", "ResourceSlice", namespaced=False)
DEVICE_TAINT_RULES = _kind(
    "resource.k8s.io/v1beta2",
    "devicetaintrules",
    "DeviceTaintRule",
    namespaced=False,
    subresources=_STATUS,
)
SELF_SUBJECT_ACCESS_REVIEWS = _kind(
    "authorization.k8s.io/v1",
    "selfsubjectaccessreviews",
    "SelfSubjectAccessReview",
    namespaced=False,
    verbs=("create",),
)

KINDS: tuple[Kind, ...] = (
    BINDINGS,
    _kind("v1", "configmaps", "ConfigMap", "cm"),
    EVENTS,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    _kind(
        "v1",
        "replicationcontrollers",
        "ReplicationController",
        "rc",
        subresources=_SCALED,
        categories=_ALL,
    ),
    _kind("v1", "secrets", "Secret"),
    _kind("v1", "serviceaccounts", "ServiceAccount", "sa"),
    _kind("v1", "services", "Service", "svc", subresources=_STATUS, categories=_ALL),
    EVENTS_V1,
    _kind("coordination.k8s.io/v1", "leases", "Lease"),
    PRIORITY_CLASSES,
    STORAGE_CLASSES,
    CSI_NODES,
    _kind("storage.k8s.io/v1", "csidrivers", "CSIDriver", namespaced=False),
    _kind("storage.k8s.io/v1", "csistoragecapacities", "CSIStorageCapacity"),
    _kind(
        "storage.k8s.io/v1",
        "volumeattachments",
        "VolumeAttachment",
        namespaced=False,
        subresources=_STATUS,
    ),
    POD_DISRUPTION_BUDGETS,
    _kind("apps/v1", "daemonsets", "DaemonSet", "ds", subresources=_STATUS, categories=_ALL),
    DEPLOYMENTS,
    REPLICA_SETS,
    STATEFUL_SETS,
    JOBS,
    RESOURCE_CLAIMS,
    RESOURCE_CLAIM_TEMPLATES,
    DEVICE_CLASSES,
    RESOURCE_SLICES,
    DEVICE_TAINT_RULES,
    SELF_SUBJECT_ACCESS_REVIEWS,
)

_BY_PATH = {(kind.group, kind.version, kind.plural): kind for kind in KINDS}


def kind_for(group: str, version: str, plural: str) -> Kind | None:
    """The served kind at that place, None when there is none."""
    return _BY_PATH.get((group, version, plural))
