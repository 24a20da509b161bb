"""Changes of recorded pods that replays make, too.

These are the changes that an API server accepts from a pod's owner: labels, removed scheduling
gates, and what goes with them (node selectors and affinity of gated pods), tolerations, and resized
containers. Nodes, phases and conditions are left to the scheduler and the kubelets of the replay.
"""

from __future__ import annotations

from typing import Any, Final

from stowplan.sim.traces.model import Json

#: Fields of a pod's spec that an update may change.
_CHANGED: Final = ("schedulingGates", "tolerations", "nodeSelector", "affinity")
#: Fields that the subresource `resize` may change.
_RESIZED: Final = ("resources", "containers", "initContainers")
#: The API server copies these labels from a pod's node when the pod is bound.
_OF_NODES: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


def changeable(pod: Json) -> Json:
    """The part of a pod that its owner may change. Of containers these are names and resources."""
    metadata, spec = pod["metadata"], pod.get("spec") or {}
    kept = {name: spec[name] for name in (*_CHANGED, *_RESIZED) if name in spec}
    for name in ("containers", "initContainers"):
        if isinstance(kept.get(name), list):
            kept[name] = [_resources_of(each) for each in kept[name] if isinstance(each, dict)]
    labels = {
        key: value
        for key, value in _mapping(metadata.get("labels")).items()
        if key not in _OF_NODES
    }
    identity = {name: metadata[name] for name in ("name", "namespace") if name in metadata}
    return {
        "apiVersion": pod["apiVersion"],
        "kind": pod["kind"],
        "metadata": {**identity, "labels": labels},
        "spec": kept,
    }


def revised(pod: Json, after: Json) -> Json:
    """The pod's manifest with a `changeable` part in place of its own."""
    before = changeable(pod)
    return resized(changed(pod, before, after), before, after)


def changed(pod: Json, before: Json, after: Json) -> Json:
    """The pod with what differs between two `changeable` parts, except resources."""
    metadata, spec = pod["metadata"], dict(pod["spec"])
    labels = _mapping(metadata.get("labels"))
    if before["metadata"]["labels"] != after["metadata"]["labels"]:
        of_node = {key: value for key, value in labels.items() if key in _OF_NODES}
        metadata = {**metadata, "labels": {**after["metadata"]["labels"], **of_node}}
    for name in _CHANGED:
        value = after["spec"].get(name)
        if value != before["spec"].get(name):
            spec.pop(name, None)
            spec |= {} if value is None else {name: value}
    return {**pod, "metadata": metadata, "spec": spec}


def resized(pod: Json, before: Json, after: Json) -> Json:
    """The pod with the resources that differ."""
    spec = dict(pod["spec"])
    for name in _RESIZED:
        value = after["spec"].get(name)
        if value is None or value == before["spec"].get(name):
            continue
        if name == "resources":
            spec[name] = value
            continue
        resources = {each["name"]: each for each in value}
        there = spec.get(name) or ()
        spec[name] = [{**each, **resources.get(each.get("name"), {})} for each in there]
    return {**pod, "spec": spec}


def _resources_of(container: Json) -> Json:
    return {"name": container.get("name"), "resources": container.get("resources") or {}}


def _mapping(value: Any) -> Json:
    return value if isinstance(value, dict) else {}
