"""Changes of a node or a pod, as kubectl's cordon, taint and label make them; pure.

Each function gets the object and kubectl's argument, and returns a merge patch and what was done.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from stowplan.errors import BadRequest

Json: TypeAlias = dict[str, Any]
Changed: TypeAlias = tuple[Json, str]

_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def cordon(node: Mapping[str, Any], value: str) -> Changed:
    return {"spec": {"unschedulable": True}}, "cordoned"


def uncordon(node: Mapping[str, Any], value: str) -> Changed:
    return {"spec": {"unschedulable": None}}, "uncordoned"


def taint(node: Mapping[str, Any], value: str) -> Changed:
    """`key=value:Effect` or `key:Effect` adds or replaces, `key:Effect-` and `key-` remove."""
    taints = list(node.get("spec", {}).get("taints") or ())
    is_removal = value.endswith("-")
    written, _, effect = value.removesuffix("-").partition(":")
    key, _, text = written.partition("=")
    if not key or (effect not in _EFFECTS and not (is_removal and not effect)):
        raise BadRequest(
            f'taint: Invalid value: "{value}": write key=value:Effect with the effect'
            f" {', '.join(_EFFECTS)}, or key- to remove it"
        )
    kept = [each for each in taints if each["key"] != key or (effect and each["effect"] != effect)]
    if is_removal:
        if len(kept) == len(taints):
            raise BadRequest(f'taint "{value.removesuffix("-")}" not found')
        return {"spec": {"taints": kept or None}}, "untainted"
    added = {"key": key, "effect": effect} | ({"value": text} if text else {})
    return {"spec": {"taints": [*kept, added]}}, "tainted"


def label(obj: Mapping[str, Any], value: str) -> Changed:
    """`key=value` sets a label, `key-` removes it."""
    if value.endswith("-") and "=" not in value:
        key = value.removesuffix("-")
        if key not in (obj["metadata"].get("labels") or {}):
            raise BadRequest(f'label "{key}" not found.')
        return {"metadata": {"labels": {key: None}}}, "unlabeled"
    key, equals, text = value.partition("=")
    if not key or not equals:
        raise BadRequest(f'label: Invalid value: "{value}": write key=value, or key- to remove it')
    return {"metadata": {"labels": {key: text}}}, "labeled"


#: By kind and action.
CHANGES: Final[dict[tuple[str, str], Callable[[Mapping[str, Any], str], Changed]]] = {
    ("Node", "cordon"): cordon,
    ("Node", "uncordon"): uncordon,
    ("Node", "taint"): taint,
    ("Node", "label"): label,
    ("Pod", "label"): label,
}
