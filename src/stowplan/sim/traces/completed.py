"""Recorded objects with the fields that an API server requires and no scheduler reads.

`stowplan record` keeps only what scheduling reads, so a Service comes without ports and a
ReplicaSet without a template. What is added here has no effect on decisions: controllers do not run
in replays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from stowplan.sim.traces.manifests import priority_class, priority_class_name
from stowplan.sim.traces.model import Json

_CONTAINER: Final = {"name": "recorded", "image": "recorded"}
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
#: Fields of a volume's spec that are no source.
_NOT_SOURCES: Final = frozenset(
    [
        "accessModes",
        "capacity",
        "claimRef",
        "nodeAffinity",
        "storageClassName",
        "volumeAttributesClassName",
        "volumeMode",
    ]
)


def completed(recorded: Json) -> Json:
    """The object, complete; the one that was given is not changed."""
    complete = _BY_KIND.get(recorded["kind"])
    spec = recorded.get("spec")
    if complete is None or not isinstance(spec, dict | None):
        return recorded
    return {**recorded, "spec": complete(spec or {})}


def _pod(spec: Json) -> Json:
    """The class of the pod is the one that stands for its number: classes are not recorded."""
    made = {name: value for name, value in spec.items() if name != "priorityClassName"}
    if (own := class_of(spec)) is not None:
        made["priorityClassName"] = own["metadata"]["name"]
    volumes = made.get("volumes")
    if isinstance(volumes, list):
        made["volumes"] = [
            _pod_volume(volume) if isinstance(volume, dict) else volume for volume in volumes
        ]
    constraints = made.get("topologySpreadConstraints")
    if isinstance(constraints, list):  # recordings leave out a maxSkew of 1
        made["topologySpreadConstraints"] = [
            _unmerged({"maxSkew": 1, **each}) if isinstance(each, dict) else each
            for each in constraints
        ]
    affinity = made.get("affinity")
    if isinstance(affinity, dict):
        made["affinity"] = {**affinity, **_without_merged_keys(affinity)}
    return made


def class_of(spec: Json) -> Json | None:
    """The PriorityClass that stands for a recorded pod's priority."""
    value, preempts = spec.get("priority"), spec.get("preemptionPolicy") != "Never"
    if value is None:
        if preempts:
            return None
        value = 0
    return priority_class(priority_class_name(value, preempts=preempts), value, preempts=preempts)


def _pod_volume(volume: Json) -> Json:
    if len(volume) < 2:
        return {**volume, "emptyDir": {}}
    disk = volume.get("iscsi")
    if isinstance(disk, dict):
        return {**volume, "iscsi": {"targetPortal": "192.0.2.1", "lun": 0, **disk}}
    return volume


def _without_merged_keys(affinity: Json) -> Json:
    """Pod affinity and anti-affinity with all terms `_unmerged`; their types have been checked."""
    made = {}
    for side in ("podAffinity", "podAntiAffinity"):
        if terms := affinity.get(side):
            made[side] = dict(terms)
            if required := terms.get(_REQUIRED):
                made[side][_REQUIRED] = list(map(_unmerged, required))
            if preferred := terms.get(_PREFERRED):
                made[side][_PREFERRED] = [
                    {**each, "podAffinityTerm": _unmerged(each.get("podAffinityTerm") or {})}
                    for each in preferred
                ]
    return made


def _unmerged(term: Json) -> Json:
    """Without `matchLabelKeys` that the API server has merged into the selector already."""
    selector = term.get("labelSelector")
    expressions = selector.get("matchExpressions") if isinstance(selector, dict) else None
    if not isinstance(expressions, list):
        return term
    merged = {each.get("key") for each in expressions if isinstance(each, dict)}
    made = dict(term)
    for name in ("matchLabelKeys", "mismatchLabelKeys"):
        keys = made.pop(name, None)
        if isinstance(keys, list) and (left := [key for key in keys if key not in merged]):
            made[name] = left
    return made


def _service(spec: Json) -> Json:
    return {"ports": [{"port": 1}], **spec}


def _controller(spec: Json) -> Json:
    selector = spec.get("selector")
    selector = selector if isinstance(selector, dict) else {}
    return {**spec, "replicas": 0, "template": _template(selector.get("matchLabels"))}


def _replication_controller(spec: Json) -> Json:
    return {**spec, "replicas": 0, "template": _template(spec.get("selector"))}


def _template(labels: object) -> Json:
    chosen = labels if isinstance(labels, dict) else {}
    return {"metadata": {"labels": chosen}, "spec": {"containers": [_CONTAINER]}}


def _volume(spec: Json) -> Json:
    has_source = any(name not in _NOT_SOURCES for name in spec)
    return spec if has_source else {**spec, "hostPath": {"path": "/recorded"}}


_BY_KIND: Final[Mapping[str, Callable[[Json], dict[str, Any]]]] = {
    "Pod": _pod,
    "Service": _service,
    "ReplicaSet": _controller,
    "StatefulSet": _controller,
    "ReplicationController": _replication_controller,
    "PersistentVolume": _volume,
}
