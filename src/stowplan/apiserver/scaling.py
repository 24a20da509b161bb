"""The subresource `scale`: the replicas of a workload as an autoscaling/v1 Scale.

`kubectl scale` and autoscalers use it. A Scale is not stored: reads are made from the workload,
writes change its `spec.replicas`.
"""

from __future__ import annotations

from stowplan.apiserver.field_errors import not_negative
from stowplan.apiserver.history import Json
from stowplan.apiserver.kinds import Kind
from stowplan.apiserver.patches import MERGE_PATCH, STRATEGIC_MERGE_PATCH, apply_patch
from stowplan.apiserver.statuses import bad_request, invalid, modified

SCALE = Kind("autoscaling", "v1", "scales", "Scale", "scale")
_SHOWN = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
_OPERATORS = {"In": " in ", "NotIn": " notin "}


def scale_of(workload: Json) -> Json:
    """The Scale that shows a workload."""
    metadata, spec = workload["metadata"], workload["spec"]
    status: Json = {"replicas": workload["status"].get("replicas", 0)}
    selector = _selector_text(spec.get("selector") or {})
    if selector:
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: metadata[name] for name in _SHOWN if name in metadata},
        "spec": {"replicas": spec["replicas"]} if spec.get("replicas") else {},
        "status": status,
    }


def patched_scale(workload: Json, content_type: str, body: bytes) -> Json:
    """The Scale after a patch. It has no lists, so strategic and plain merging are the same."""
    media = content_type.partition(";")[0].strip()
    if media == STRATEGIC_MERGE_PATCH:
        content_type = MERGE_PATCH
    return apply_patch(content_type, scale_of(workload), body, kind=SCALE)


def scaled(kind: Kind, workload: Json, scale: Json) -> Json:
    """The workload with the replicas of a Scale; refuses one of another version or below zero."""
    name = workload["metadata"]["name"]
    metadata, spec = scale.get("metadata") or {}, scale.get("spec") or {}
    if not isinstance(metadata, dict) or not isinstance(spec, dict):
        raise bad_request('Scale in version "v1" cannot be handled as a Scale: not an object')
    version = metadata.get("resourceVersion", "")
    if version and version != workload["metadata"]["resourceVersion"]:
        raise modified(kind, name)
    replicas = spec.get("replicas") or 0
    if type(replicas) is not int:
        raise bad_request(
            'Scale in version "v1" cannot be handled as a Scale: spec.replicas is no number'
        )
    causes = not_negative("spec.replicas", replicas)
    if causes:
        raise invalid(SCALE, name, causes)
    return {**workload, "spec": {**workload["spec"], "replicas": replicas}}


def _selector_text(selector: Json) -> str:
    """A selector as text; that of a ReplicationController is a map of labels."""
    if not selector.keys() & {"matchLabels", "matchExpressions"}:
        selector = {"matchLabels": selector}
    parts = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    for each in selector.get("matchExpressions") or ():
        key, operator = each["key"], each["operator"]
        if operator in _OPERATORS:
            values = ",".join(sorted(each.get("values") or ()))
            parts.append((key, f"{key}{_OPERATORS[operator]}({values})"))
        else:
            parts.append((key, key if operator == "Exists" else f"!{key}"))
    return ",".join(text for _, text in sorted(parts))
