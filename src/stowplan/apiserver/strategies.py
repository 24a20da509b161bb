"""What differs between kinds when an object is written: kube-apiserver's registry strategies.

`prepare_create` and `prepare_update` take what a client sent and return what may be stored: the
fields that belong to the server are taken from the server, status only moves through /status.
"""

from __future__ import annotations

from stowplan.apiserver.conforming import Mismatch, conform, zero_status
from stowplan.apiserver.device_strategies import (
    drop_gated_fields,
    prepare_claim_status,
    renew_taint_time,
)
from stowplan.apiserver.history import Json
from stowplan.apiserver.kinds import (
    DEVICE_TAINT_RULES,
    KINDS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Kind,
)
from stowplan.apiserver.options import WriteOptions
from stowplan.apiserver.resizing import resized_spec
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
        "resourceclaims",
        "resourceclaimtemplates",
        "deviceclasses",
        "resourceslices",
        "devicetaintrules",
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
        "deviceclasses",
        "resourceslices",
        "devicetaintrules",
    }
)
_FIRST_PHASE = {
    "pods": "Pending",
    "namespaces": "Active",
    "persistentvolumes": "Pending",
    "persistentvolumeclaims": "Pending",
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


def normalise(kind: Kind, obj: Json, options: WriteOptions) -> Json:
    """Checks that this is the kind it should be, and gives it the form of Go's structs."""
    _check_kind(kind, obj)
    try:
        return formed(kind, obj, options)
    except Mismatch as error:
        raise bad_request(
            f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {error}'
        ) from None


def formed(kind: Kind, obj: Json, options: WriteOptions) -> Json:
    """`conform`, with the client's wish for what becomes of unknown fields."""
    made, unknown = conform(kind, obj)
    if unknown and options.field_validation == "Strict":
        errors = ", ".join(f'unknown field "{path}"' for path in sorted(unknown, key=_depth))
        raise Mismatch(f"strict decoding error: {errors}")
    if unknown and options.field_validation == "Warn":
        options.warnings += [f'unknown field "{path}"' for path in sorted(unknown, key=_depth)]
    return made


def _depth(path: str) -> int:
    return path.count(".")


def _check_kind(kind: Kind, obj: Json) -> None:
    api_version = obj.get("apiVersion") or kind.api_version
    name = obj.get("kind") or kind.kind
    if (api_version, name) == (kind.api_version, kind.kind):
        return
    version = str(api_version).rpartition("/")[2]
    if any((known.api_version, known.kind) == (api_version, name) for known in KINDS):
        package = kind.group.partition(".")[0] or "core"
        why = f"converting (v1.{name}) to ({package}.{kind.kind}): unknown conversion"
    else:
        why = (
            f'no kind "{name}" is registered for version "{api_version}" in scheme'
            ' "pkg/runtime/scheme.go:111"'
        )
    raise bad_request(f'{name} in version "{version}" cannot be handled as a {kind.kind}: {why}')


def prepare_create(kind: Kind, obj: Json) -> Json:
    """What a client sent, less what only the server may say. `obj` is changed and returned."""
    metadata = obj["metadata"]
    for name in ("resourceVersion", *_SYSTEM_METADATA):
        if name != "generateName":
            metadata.pop(name, None)
    if kind.plural in _HAS_GENERATION:
        metadata["generation"] = 1
    if kind.has_status and kind.plural != "nodes":  # a node may be created with its status
        obj["status"] = zero_status(kind)
        if kind.plural in _FIRST_PHASE:
            obj["status"]["phase"] = _FIRST_PHASE[kind.plural]
    if kind is RESOURCE_SLICES:
        drop_gated_fields(obj)
    return obj


def prepare_update(kind: Kind, new: Json, old: Json, subresource: str) -> Json:
    """Merge `new` over `old`, with the fields that this request must not change from `old`."""
    metadata, old_metadata = new["metadata"], old["metadata"]
    for name in _SYSTEM_METADATA:
        metadata.pop(name, None)
        if name in old_metadata:
            metadata[name] = old_metadata[name]
    if subresource == "status":
        status = new["status"]
        new = {key: value for key, value in old.items() if key != "status"}
        kept = {"ownerReferences", "finalizers"}
        if kind.plural in ("deployments", "daemonsets"):
            kept.add("labels")
        elif kind is RESOURCE_CLAIMS:
            kept |= {"labels", "annotations"}
        for name in kept:
            metadata.pop(name, None)
            if name in old_metadata:
                metadata[name] = old_metadata[name]
        new["metadata"], new["status"] = metadata, status
        if kind.plural == "pods":
            _keep_pod_status(status, old["status"])
        elif kind is RESOURCE_CLAIMS:
            prepare_claim_status(status, old["status"])
    elif subresource == "resize":
        spec = resized_spec(new["spec"], old["spec"])
        for name in ("labels", "annotations", "ownerReferences", "finalizers"):
            metadata.pop(name, None)
            if name in old_metadata:
                metadata[name] = old_metadata[name]
        new = {**old, "metadata": metadata, "spec": spec}
    elif subresource == "finalize":
        finalizers = (new.get("spec") or {}).get("finalizers")
        new = {**old, "spec": {"finalizers": finalizers} if finalizers else {}}
    elif kind.has_status:
        new["status"] = old["status"]
        if kind is DEVICE_TAINT_RULES:
            renew_taint_time(new, old)
    elif kind is RESOURCE_SLICES:
        drop_gated_fields(new)
    return new


def _keep_pod_status(status: Json, old: Json) -> None:
    """The QoS class is for ever, and an observed generation is not forgotten."""
    for name in ("qosClass", "observedGeneration"):
        if name in old:
            status.setdefault(name, old[name])
    before = {
        condition["type"]: condition.get("observedGeneration")
        for condition in old.get("conditions") or ()
    }
    for condition in status.get("conditions") or ():
        generation = before.get(condition["type"])
        if generation:
            condition.setdefault("observedGeneration", generation)


def count_generation(kind: Kind, new: Json, old: Json) -> None:
    """Increment the generation if the spec changed, by the client or by defaulting.

    A deployment's annotations count too: its controller copies them to the replica sets.
    """
    metadata = new["metadata"]
    if "generation" not in metadata:
        return
    annotated = kind.kind == "Deployment" and (
        metadata.get("annotations") != old["metadata"].get("annotations")
    )
    if annotated or new.get("spec") != old.get("spec"):
        metadata["generation"] += 1
