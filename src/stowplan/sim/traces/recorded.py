"""Objects of other clusters made new: without what only that cluster's API server may say.

Used by `recorder` and `simulator_export`. As kube-scheduler-simulator does it, service accounts and
owners are taken off pods, as they would have to exist; placements stay unless they are not wanted.

A claim of a generic ephemeral volume belongs to the UID of a pod that does not exist here. So pods
name these claims, as they name those of other volumes, and have the volumes that were recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stowplan.sim.traces.manifests import STANDING_NAMESPACES, SYSTEM_CLASSES
from stowplan.sim.traces.model import Json

#: Fields that only an API server may set.
_SERVERS_OWN = frozenset(
    {
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "generation",
        "managedFields",
        "selfLink",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "ownerReferences",
    }
)
_NOT_OF_PODS = ("serviceAccount", "serviceAccountName")
_SIMULATORS_RESULTS = "kube-scheduler-simulator.sigs.k8s.io/"
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class NotAnObject(ValueError):
    """Something is not a Kubernetes object; says why."""


def as_new(
    recorded: object,
    *,
    api_version: str = "",
    kind: str = "",
    place: bool = True,
    is_whole: bool = False,
) -> Json:
    """The manifest to POST for such an object; without `place`, without a pod's node.

    `is_whole`: what the object refers to comes along, so references stay.
    """
    if not isinstance(recorded, dict):
        raise NotAnObject("is not an object")
    kind = _text(recorded, "kind") or kind
    api_version = _text(recorded, "apiVersion") or api_version
    metadata = recorded.get("metadata")
    if not kind or not api_version or not isinstance(metadata, dict):
        raise NotAnObject("has no apiVersion, kind or metadata")
    if not _text(metadata, "name"):
        raise NotAnObject("has no metadata.name")
    made: Json = {**recorded, "apiVersion": api_version, "kind": kind}
    made["metadata"] = _new_metadata(metadata, keeps_owners=is_whole)
    for part in ("spec", "status"):
        if not isinstance(made.get(part), dict | None):
            raise NotAnObject(f"`{part}` is not a mapping")
    if kind == "Pod":
        made.pop("status", None)
        made["spec"] = _new_pod_spec(made.get("spec") or {}, metadata["name"], place=place)
    elif kind == "PersistentVolume":
        made.pop("status", None)
        made["spec"] = _new_volume_spec(made.get("spec") or {})
    elif kind == "PersistentVolumeClaim":
        made.pop("status", None)
        made["metadata"].pop("ownerReferences", None)
    elif kind == "Node":
        made["status"] = _new_node_status(made.get("status") or {})
    return made


def comes_by_itself(manifest: Json) -> bool:
    """True if every cluster has the object by itself."""
    kind, name = manifest["kind"], manifest["metadata"]["name"]
    if kind == "Namespace":
        return name in STANDING_NAMESPACES
    return kind == "PriorityClass" and name in SYSTEM_CLASSES.values()


def is_made_for_pod(recorded: Mapping[str, Any]) -> bool:
    """True for a claim of devices that a controller or scheduler made, as it will again."""
    owners = recorded["metadata"].get("ownerReferences")
    return recorded.get("kind") == "ResourceClaim" and any(
        isinstance(each, dict) and each.get("kind") == "Pod" for each in owners or ()
    )


def is_placed(manifest: Json) -> bool:
    return bool((manifest.get("spec") or {}).get("nodeName"))


def phase_of(recorded: Mapping[str, Any]) -> str:
    status = recorded.get("status")
    return _text(status, "phase") if isinstance(status, dict) else ""


def _text(mapping: Mapping[str, Any], name: str) -> str:
    value = mapping.get(name)
    return value if isinstance(value, str) else ""


def _new_metadata(metadata: Json, *, keeps_owners: bool) -> Json:
    made = {key: value for key, value in metadata.items() if key not in _SERVERS_OWN}
    if keeps_owners and "ownerReferences" in metadata:
        made["ownerReferences"] = metadata["ownerReferences"]
    annotations = made.get("annotations")
    if isinstance(annotations, dict):
        kept = {
            key: value
            for key, value in annotations.items()
            if key != _LAST_APPLIED and not str(key).startswith(_SIMULATORS_RESULTS)
        }
        if kept:
            made["annotations"] = kept
        else:
            del made["annotations"]
    return made


def _new_pod_spec(spec: Json, pod: str, *, place: bool) -> Json:
    dropped = (*_NOT_OF_PODS, *(() if place else ("nodeName",)))
    made = {key: value for key, value in spec.items() if key not in dropped}
    volumes = made.get("volumes")
    if isinstance(volumes, list):
        made["volumes"] = [_with_named_claim(volume, pod) for volume in volumes]
    if made.get("priorityClassName"):
        made.pop("priority", None)  # admission works it out again
    return made


def _with_named_claim(volume: Any, pod: str) -> Any:
    """The volume; one that is ephemeral names the claim that was made for the pod."""
    if not isinstance(volume, dict) or "ephemeral" not in volume:
        return volume
    claim = {"claimName": f"{pod}-{volume.get('name')}"}
    kept = {key: value for key, value in volume.items() if key != "ephemeral"}
    return {**kept, "persistentVolumeClaim": claim}


def _new_node_status(status: Json) -> Json:
    """A node's status without its heartbeat times."""
    conditions = status.get("conditions")
    if not isinstance(conditions, list):
        return status
    kept = [
        {key: value for key, value in condition.items() if not key.startswith("last")}
        for condition in conditions
        if isinstance(condition, dict)
    ]
    return {**status, "conditions": kept}


def _new_volume_spec(spec: Json) -> Json:
    """Remove the claim's UID: a claim of the same name gets another, and the player links them."""
    claim = spec.get("claimRef")
    if not isinstance(claim, dict):
        return spec
    kept = {key: value for key, value in claim.items() if key not in ("uid", "resourceVersion")}
    return {**spec, "claimRef": kept}
