"""Validation of resource names and amounts, of containers, pods and nodes."""

from __future__ import annotations

from stowplan.api.quantity import nanos
from stowplan.apiserver.field_errors import key_problems, not_allowed, required, unsupported, wrong
from stowplan.apiserver.history import Json
from stowplan.apiserver.statuses import Cause

_NATIVE = frozenset({"cpu", "memory", "ephemeral-storage"})
_NANOS_IN_MILLI = 10**6
_INT64_MAX = 2**63 - 1


def resources_causes(resources: Json, at: str, *, pod_level: bool = False) -> list[Cause]:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    causes: list[Cause] = []
    for name, amount in limits.items():
        field = f"{at}.limits[{name}]"
        causes += _name(name, field, pod_level) + amount_causes(name, amount, field)
    for name, amount in requests.items():
        field = f"{at}.requests[{name}]"
        causes += _name(name, field, pod_level) + amount_causes(name, amount, field)
        limit = limits.get(name)
        if limit is None:
            if not _overcommitted(name):
                detail = "Limit must be set for non overcommitable resources"
                causes.append(required(f"{at}.limits", detail))
        elif nanos(amount) != nanos(limit) and not _overcommitted(name):
            detail = f"must be equal to {name} limit of {limit}"
            causes.append(wrong(f"{at}.requests", amount, detail))
        elif nanos(amount) > nanos(limit):
            detail = f"must be less than or equal to {name} limit of {limit}"
            causes.append(wrong(f"{at}.requests", amount, detail))
    names = limits.keys() | requests.keys()
    if any(name.startswith("hugepages-") for name in names) and not names & {"cpu", "memory"}:
        causes.append(not_allowed(at, "HugePages require cpu or memory"))
    return causes


def amount_causes(name: str, amount: str, field: str) -> list[Cause]:
    number = nanos(amount)
    if number < 0:
        return [wrong(field, amount, "must be greater than or equal to 0")]
    # Upstream counts thousandths, of which an int64 holds no more than so many.
    thousandths = min(-(-number // _NANOS_IN_MILLI), _INT64_MAX)
    if (name == "pods" or not _is_native(name)) and thousandths % 1000:
        return [wrong(field, amount, "must be an integer")]
    return []


def _is_native(name: str) -> bool:
    return "/" not in name or name.partition("/")[0].endswith("kubernetes.io")


def _overcommitted(name: str) -> bool:
    """Requests below limits make sense only where a kubelet can take away what it gave."""
    return _is_native(name) and not name.startswith("hugepages-")


def _name(name: str, field: str, pod_level: bool) -> list[Cause]:
    causes = [wrong(field, name, problem) for problem in key_problems(name)]
    if causes:
        return causes
    if name in _NATIVE or name.startswith("hugepages-"):
        return []
    if "/" not in name:
        causes = [wrong(field, name, "must be a standard resource type or fully qualified")]
        if not pod_level:
            causes.append(wrong(field, name, "must be a standard resource for containers"))
        return causes
    if pod_level:
        return [unsupported(field, name, ("cpu", "hugepages-", "memory"))]
    return []
