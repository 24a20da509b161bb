"""What differs between kinds when an object is written: kube-apiserver's registry strategies.

`prepare_create` and `prepare_update` take what a client sent and return what may be stored: the
fields that belong to the server are taken from the server, status only moves through /status.
"""

from __future__ import annotations

from typing import Any

from stowplan.apiserver.history import Json
from stowplan.apiserver.kinds import Kind
from stowplan.apiserver.statuses import bad_request

CREATED_BY_PUT = frozenset({"leases", "events", "services"})
VERSION_REQUIRED = frozenset(
    {
        "poddisruptionbudgets",
        "csidrivers",
        "csistoragecapacities",
        "volumeattachments",
        "csinodes",
        "leases",
    }
)
DELETED_OBJECT_RETURNED = frozenset(
    {
        "csidrivers",
        "storageclasses",
        "volumeattachments",
        "csinodes",
        "persistentvolumes",
        "persistentvolumeclaims",
        "serviceaccounts",
        "namespaces",
        "pods",
        "services",
    }
)
_HAS_GENERATION = frozenset(
    {
        "pods",
        "priorityclasses",
        "poddisruptionbudgets",
        "replicationcontrollers",
        "replicasets",
        "statefulsets",
        "deployments",
        "daemonsets",
        "jobs",
    }
)
_FIRST_STATUS: dict[str, Json] = {
    "pods": {"phase": "Pending"},
    "namespaces": {"phase": "Active"},
    "persistentvolumes": {"phase": "Pending"},
    "persistentvolumeclaims": {"phase": "Pending"},
    "services": {"loadBalancer": {}},
    "replicasets": {"replicas": 0},
    "replicationcontrollers": {"replicas": 0},
    "statefulsets": {"replicas": 0, "availableReplicas": 0},
    "daemonsets": {
        "currentNumberScheduled": 0,
        "numberMisscheduled": 0,
        "desiredNumberScheduled": 0,
        "numberReady": 0,
    },
    "poddisruptionbudgets": {
        "disruptionsAllowed": 0,
        "currentHealthy": 0,
        "desiredHealthy": 0,
        "expectedPods": 0,
    },
}
# The server's own part of metadata: a client cannot change it.
_SYSTEM_METADATA = (
    "uid",
    "creationTimestamp",
    "generation",
    "generateName",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
)
_EMPTY_METADATA_DROPPED = (
    "labels",
    "annotations",
    "finalizers",
    "ownerReferences",
    "managedFields",
)


def normalise(kind: Kind, obj: Json) -> Json:
    """Checks that this is the kind it should be, drops nulls, and puts the fields in order."""
    api_version, name = obj.get("apiVersion"), obj.get("kind")
    if (api_version or kind.api_version, name or kind.kind) != (kind.api_version, kind.kind):
        group, _, version = str(api_version).rpartition("/")
        raise bad_request(
            f"the object provided is unrecognized (must be of type {kind.kind} in"
            f" {kind.api_version}): got {name or 'no kind'} in"
            f" {f'{group}/{version}' if group else version}"
        )
    metadata = obj.get("metadata")
    if metadata is None:
        metadata = {}
    if not isinstance(metadata, dict):
        raise bad_request(f"{kind.kind}: metadata must be an object")
    metadata = without_nulls(metadata)
    for field in _EMPTY_METADATA_DROPPED:
        if field in metadata and not metadata[field]:
            del metadata[field]
    ordered: Json = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata}
    for key, value in obj.items():
        if key not in ordered and key != "status" and value is not None:
            ordered[key] = without_nulls(value)
    if obj.get("status") is not None:
        ordered["status"] = without_nulls(obj["status"])
    return ordered


def without_nulls(value: Any) -> Any:
    """A copy without null members: to Go's decoder null and absent are the same."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


def prepare_create(kind: Kind, obj: Json) -> Json:
    """What a client sent, less what only the server may say. `obj` is changed and returned."""
    metadata = obj["metadata"]
    for field in ("resourceVersion", *_SYSTEM_METADATA):
        if field != "generateName":
            metadata.pop(field, None)
    if kind.plural in _HAS_GENERATION:
        metadata["generation"] = 1
    if kind.plural == "nodes":
        obj.setdefault("status", {})  # a node may be created with its status
    elif kind.has_status:
        obj["status"] = dict(_FIRST_STATUS.get(kind.plural, {}))
    return obj


def prepare_update(kind: Kind, new: Json, old: Json, subresource: str) -> Json:
    """`new` over `old`, with the fields that this request may not touch taken from `old`."""
    metadata, old_metadata = new["metadata"], old["metadata"]
    for field in _SYSTEM_METADATA:
        metadata.pop(field, None)
        if field in old_metadata:
            metadata[field] = old_metadata[field]
    if subresource == "status":
        status = new.get("status", {})
        new = {key: value for key, value in old.items() if key != "status"}
        kept = {"ownerReferences", "finalizers"}
        if kind.plural in ("deployments", "daemonsets"):
            kept.add("labels")
        for field in kept:
            metadata.pop(field, None)
            if field in old_metadata:
                metadata[field] = old_metadata[field]
        new["metadata"], new["status"] = metadata, status
    elif subresource == "finalize":
        finalizers = (new.get("spec") or {}).get("finalizers")
        new = {**old, "spec": {"finalizers": finalizers} if finalizers else {}}
    elif kind.has_status:
        new.pop("status", None)
        if "status" in old:
            new["status"] = old["status"]
    if "generation" in metadata and new.get("spec") != old.get("spec"):
        metadata["generation"] += 1
    return new
