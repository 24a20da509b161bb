"""Recorded objects with the fields that an API server requires and no scheduler reads.

`stowplan record` keeps only what scheduling reads, so a Service comes without ports and a
ReplicaSet without a template. What is added here has no effect on decisions: controllers do not run
in replays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from stowplan.sim.traces.model import Json

_CONTAINER: Final = {"name": "recorded", "image": "recorded"}
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
    """The priority is a number here: classes are not recorded."""
    made = {name: value for name, value in spec.items() if name != "priorityClassName"}
    volumes = made.get("volumes")
    if isinstance(volumes, list):
        made["volumes"] = [
            {**volume, "emptyDir": {}} if isinstance(volume, dict) and len(volume) < 2 else volume
            for volume in volumes
        ]
    constraints = made.get("topologySpreadConstraints")
    if isinstance(constraints, list):  # recordings leave out a maxSkew of 1
        made["topologySpreadConstraints"] = [
            {"maxSkew": 1, **each} if isinstance(each, dict) else each for each in constraints
        ]
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
