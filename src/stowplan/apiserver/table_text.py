"""Texts that kube-apiserver computes for table cells: ages, labels, selectors, container lists.

Shared by the row functions in `table_pods.py` and `table_rows.py`; pure functions of an object and
the time given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stowplan.clock import parse_rfc3339

Json = dict[str, Any]

_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_YEAR = 365 * _DAY


def dig(value: Any, *path: str) -> Any:
    """The value at a path of keys, None where the path ends early."""
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def text(value: Any, *path: str) -> str:
    """Like `dig`, with "" for what is absent."""
    found = dig(value, *path)
    return "" if found is None else str(found)


def number(value: Any, *path: str) -> int:
    """Like `dig`, with 0 for what is absent."""
    return int(dig(value, *path) or 0)


def items(value: Any, *path: str) -> Sequence[Any]:
    """Like `dig`, with () for what is absent."""
    return dig(value, *path) or ()


def human_duration(seconds: float) -> str:
    """`5m30s`, `3h`, `7d4h`: about two digits of what matters, as kubectl users know it."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 2 * _MINUTE:
        return f"{max(whole, 0)}s"
    if whole < 10 * _MINUTE:
        return _two(whole, _MINUTE, "m", 1, "s")
    if whole < 3 * _HOUR:
        return f"{whole // _MINUTE}m"
    if whole < 8 * _HOUR:
        return _two(whole, _HOUR, "h", _MINUTE, "m")
    if whole < 2 * _DAY:
        return f"{whole // _HOUR}h"
    if whole < 8 * _DAY:
        return _two(whole, _DAY, "d", _HOUR, "h")
    if whole < 2 * _YEAR:
        return f"{whole // _DAY}d"
    if whole < 8 * _YEAR:
        return _two(whole, _YEAR, "y", _DAY, "d")
    return f"{whole // _YEAR}y"


def _two(seconds: int, big: int, big_name: str, small: int, small_name: str) -> str:
    rest = seconds % big // small
    return f"{seconds // big}{big_name}" + (f"{rest}{small_name}" if rest else "")


def since(timestamp: Any, now: float) -> str:
    """How long ago a metav1.Time or MicroTime was."""
    return human_duration(now - parse_rfc3339(timestamp)) if timestamp else "<unknown>"


def age(obj: Json, now: float) -> str:
    return since(dig(obj, "metadata", "creationTimestamp"), now)


def labels_text(labels: Json | None) -> str:
    """`a=b,c=d`, sorted."""
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or "<none>"


def selector_text(selector: Json | None) -> str:
    """A LabelSelector in the syntax of `kubectl get -l`; "" selects everything or nothing."""
    found = [
        (key, f"{key}={value}")
        for key, value in ((selector or {}).get("matchLabels") or {}).items()
    ]
    for term in items(selector, "matchExpressions"):
        key, values = term["key"], ",".join(sorted(term.get("values") or ()))
        match term["operator"]:
            case "In":
                found.append((key, f"{key} in ({values})"))
            case "NotIn":
                found.append((key, f"{key} notin ({values})"))
            case "Exists":
                found.append((key, key))
            case "DoesNotExist":
                found.append((key, f"!{key}"))
    return ",".join(requirement for _, requirement in sorted(found))


def container_cells(obj: Json) -> list[str]:
    """Names and images of a workload's template."""
    containers = items(obj, "spec", "template", "spec", "containers")
    return [
        ",".join(text(container, "name") for container in containers),
        ",".join(text(container, "image") for container in containers),
    ]


_ACCESS_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def access_modes_text(modes: Sequence[str]) -> str:
    return ",".join(short for mode, short in _ACCESS_MODES.items() if mode in modes)


def has_condition(obj: Json, condition_type: str) -> bool:
    """True when that condition of the object's status is True."""
    for condition in items(obj, "status", "conditions"):
        if condition.get("type") == condition_type:
            return bool(condition.get("status") == "True")
    return False
