"""The `resize` subresource of pods: other amounts of CPU and memory, and nothing else.

Called by `strategies` and `validation`. What a kubelet would answer (`status.resize` and the
containers' actual amounts) is not emulated.
"""

from __future__ import annotations

from stowplan.apiserver.field_errors import not_allowed, wrong
from stowplan.apiserver.history import Json
from stowplan.apiserver.pod_defaults import qos_class
from stowplan.apiserver.pod_validation import pod_spec_causes
from stowplan.apiserver.statuses import Cause

_LISTS = ("containers", "initContainers")
_RESIZED = ("resources", "resizePolicy")
_MUTABLE = ("cpu", "memory")


def resized_spec(new: Json, old: Json) -> Json:
    """The old spec with the new one's amounts; `new` itself where containers do not match."""
    spec = dict(old)
    for name in _LISTS:
        asked, there = new.get(name) or [], old.get(name) or []
        if [each["name"] for each in asked] != [each["name"] for each in there]:
            return new
        if there:
            spec[name] = [_resized(*pair) for pair in zip(asked, there, strict=True)]
    return spec


def resize_causes(new: Json, old: Json) -> list[Cause]:
    """What is wrong with a pod that `resized_spec` made."""
    spec, old_spec = new["spec"], old["spec"]
    causes = pod_spec_causes(spec, "spec")
    if qos_class(spec) != old["status"].get("qosClass"):
        detail = "Pod QOS Class may not change as a result of resizing"
        causes.append(wrong("spec", old["status"].get("qosClass"), detail))
    others = [cause for name in _LISTS for cause in _other_containers(spec, old_spec, name)]
    if others:
        return causes + others
    for name in _LISTS:
        pairs = zip(spec.get(name) or (), old_spec.get(name) or (), strict=True)
        for index, (after, before) in enumerate(pairs):
            at = f"spec.{name}[{index}].resources"
            causes += _removed(after, before, at)
            if _immutable(after) != _immutable(before):
                causes.append(not_allowed("spec", "only cpu and memory resources are mutable"))
    return causes


def _other_containers(spec: Json, old_spec: Json, name: str) -> list[Cause]:
    asked, there = spec.get(name) or [], old_spec.get(name) or []
    if len(asked) != len(there):
        return [not_allowed(f"spec.{name}", f"{name} may not be added or removed on resize")]
    return [
        not_allowed(
            f"spec.{name}[{index}].name", f"{name} may not be renamed or reordered on resize"
        )
        for index, (after, before) in enumerate(zip(asked, there, strict=True))
        if after["name"] != before["name"]
    ]


def _resized(asked: Json, there: Json) -> Json:
    kept = {field: value for field, value in there.items() if field not in _RESIZED}
    return kept | {field: asked[field] for field in _RESIZED if field in asked}


def _amounts(container: Json, side: str) -> Json:
    return (container.get("resources") or {}).get(side) or {}


def _removed(after: Json, before: Json, at: str) -> list[Cause]:
    return [
        not_allowed(f"{at}.{side}", f"resource {side} cannot be removed")
        for side in ("requests", "limits")
        if _amounts(before, side).keys() - _amounts(after, side).keys()
    ]


def _immutable(container: Json) -> list[Json]:
    return [
        {name: amount for name, amount in _amounts(container, side).items() if name not in _MUTABLE}
        for side in ("requests", "limits")
    ]
