"""How the fields of the served kinds merge: the part of the API's types that patches depend on.

Strategic merge (`strategic.py`) and server-side apply (`field_sets.py`, `apply.py`) disagree in
details, so a field carries both rules: `patch`/`patch_key` come from the patchStrategy and
patchMergeKey of the Go types, `keys`/`is_set`/`atomic` from listType, listMapKey, mapType and
structType. What is not listed here is plain: maps merge key by key, lists are replaced whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stowplan.apiserver.kinds import Kind


@dataclass(frozen=True, slots=True)
class Field:
    """One field. `type` names the struct of its value, or of its elements when it is a list."""

    type: str = ""
    patch: str = ""  # strategic merge: "merge" or "replace"; "" is the plain behaviour
    patch_key: str = ""  # strategic merge: the field that identifies a list's element
    keys: tuple[str, ...] = ()  # apply: the fields that identify a list's element
    is_set: bool = False  # apply: a list of scalars with one owner an element
    atomic: bool = False  # apply: one owner for the whole value
    elements_atomic: bool = False  # apply: one owner for each element of the list


Schema = Mapping[str, Field]

PLAIN = Field()
_ATOMIC = Field(atomic=True)

# Apply identifies an element by these values where the element does not say.
KEY_DEFAULTS = {"protocol": "TCP"}


def _by(type_name: str, *keys: str, elements_atomic: bool = False) -> Field:
    """A list whose elements are identified by `keys` (strategic merge knows only one key)."""
    return Field(
        type=type_name,
        patch="merge",
        patch_key=keys[0],
        keys=keys,
        elements_atomic=elements_atomic,
    )


_CONDITIONS: Schema = {"conditions": _by("", "type")}
_SELECTOR = Field(atomic=True)

_CONTAINER: Schema = {
    "ports": _by("", "containerPort", "protocol"),
    "env": _by("EnvVar", "name"),
    "volumeMounts": _by("", "mountPath"),
    "volumeDevices": _by("", "devicePath"),
    "resources": Field("ResourceRequirements"),
}

_TYPES: dict[str, Schema] = {
    "": {},
    "ObjectMeta": {
        "ownerReferences": _by("", "uid", elements_atomic=True),
        "finalizers": Field(patch="merge", is_set=True),
        "managedFields": _ATOMIC,
    },
    "EnvVar": {"valueFrom": Field("EnvVarSource")},
    "EnvVarSource": {
        "fieldRef": _ATOMIC,
        "resourceFieldRef": _ATOMIC,
        "configMapKeyRef": _ATOMIC,
        "secretKeyRef": _ATOMIC,
    },
    "ResourceRequirements": {"claims": Field(keys=("name",))},
    "Container": _CONTAINER,
    "NodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": _ATOMIC},
    "Affinity": {"nodeAffinity": Field("NodeAffinity")},
    "TopologySpreadConstraint": {"labelSelector": _SELECTOR},
    "PodSpec": {
        "affinity": Field("Affinity"),
        "containers": _by("Container", "name"),
        "ephemeralContainers": _by("Container", "name"),
        "hostAliases": _by("", "ip"),
        "imagePullSecrets": _by("", "name", elements_atomic=True),
        "initContainers": _by("Container", "name"),
        "nodeSelector": _ATOMIC,
        "resourceClaims": _by("", "name"),
        "resources": Field("ResourceRequirements"),
        "schedulingGates": _by("", "name"),
        "topologySpreadConstraints": _by(
            "TopologySpreadConstraint", "topologyKey", "whenUnsatisfiable"
        ),
        "volumes": _by("", "name"),
    },
    "PodStatus": {
        **_CONDITIONS,
        "hostIPs": Field(patch="merge", patch_key="ip", atomic=True),
        "podIPs": _by("", "ip"),
        "resourceClaimStatuses": _by("", "name"),
    },
    "PodTemplateSpec": {"metadata": Field("ObjectMeta"), "spec": Field("PodSpec")},
    "NodeSpec": {"podCIDRs": Field(patch="merge", is_set=True)},
    "NodeStatus": {**_CONDITIONS, "addresses": _by("", "type")},
    "ServiceSpec": {"ports": _by("", "port", "protocol"), "selector": _ATOMIC},
    "ReplicationControllerSpec": {"selector": _ATOMIC, "template": Field("PodTemplateSpec")},
    "WorkloadSpec": {
        "selector": _SELECTOR,
        "template": Field("PodTemplateSpec"),
        "volumeClaimTemplates": _ATOMIC,
    },
    "PodDisruptionBudgetSpec": {"selector": Field(patch="replace", atomic=True)},
    "PersistentVolumeSpec": {"nodeAffinity": Field("VolumeNodeAffinity")},
    "VolumeNodeAffinity": {"required": _ATOMIC},
    "PersistentVolumeClaimSpec": {"selector": _SELECTOR, "dataSource": _ATOMIC},
    "CSINodeSpec": {"drivers": _by("", "name")},
    "CSIDriverSpec": {"volumeLifecycleModes": Field(is_set=True)},
    "ConditionsStatus": _CONDITIONS,
    "ResourceClaimStatus": {
        "allocation": Field("NodeSelected"),
        "devices": Field("ConditionsStatus", keys=("driver", "device", "pool", "shareID")),
        "reservedFor": _by("", "uid"),
    },
    "NodeSelected": {"nodeSelector": _ATOMIC},
    "ResourceClaimTemplateSpec": {"metadata": Field("ObjectMeta")},
}

_SPECS = {
    "Pod": "PodSpec",
    "Node": "NodeSpec",
    "Service": "ServiceSpec",
    "ReplicationController": "ReplicationControllerSpec",
    "Deployment": "WorkloadSpec",
    "ReplicaSet": "WorkloadSpec",
    "StatefulSet": "WorkloadSpec",
    "DaemonSet": "WorkloadSpec",
    "Job": "WorkloadSpec",
    "PodDisruptionBudget": "PodDisruptionBudgetSpec",
    "PersistentVolume": "PersistentVolumeSpec",
    "PersistentVolumeClaim": "PersistentVolumeClaimSpec",
    "CSINode": "CSINodeSpec",
    "CSIDriver": "CSIDriverSpec",
    "ResourceClaimTemplate": "ResourceClaimTemplateSpec",
    "ResourceSlice": "NodeSelected",
}
_STATUSES = {"Pod": "PodStatus", "Node": "NodeStatus", "ResourceClaim": "ResourceClaimStatus"}

_TOP_LEVEL: dict[str, Schema] = {
    "Event": {"involvedObject": _ATOMIC, "regarding": _ATOMIC, "related": _ATOMIC},
    "ServiceAccount": {
        "secrets": _by("", "name", elements_atomic=True),
        "imagePullSecrets": _ATOMIC,
    },
    "CSIStorageCapacity": {"nodeTopology": _SELECTOR},
}


def schema_of(kind: Kind) -> Schema:
    """The fields of a whole object of that kind."""
    return {
        "metadata": Field("ObjectMeta"),
        "spec": Field(_SPECS.get(kind.kind, "")),
        "status": Field(_STATUSES.get(kind.kind, "ConditionsStatus")),
        **_TOP_LEVEL.get(kind.kind, {}),
    }


def fields_of(field: Field) -> Schema:
    """The fields below `field`: of the struct itself, or of the elements of the list."""
    return _TYPES[field.type]
