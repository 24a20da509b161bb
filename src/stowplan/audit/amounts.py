"""What pods request of a node, and what a node offers, as whole numbers.

CPU counts in thousandths, everything else in units; both are rounded up after adding.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from stowplan.api.objects import Container, ContainerStatus, Pod, Quantities
from stowplan.api.quantity import nanos

Amounts: TypeAlias = Mapping[str, int]
_Nanos: TypeAlias = dict[str, int]

CPU: Final = "cpu"
PODS: Final = "pods"
_NANO: Final = 10**9
_MILLI_NANO: Final = 10**6
_POD_LEVEL: Final = ("cpu", "memory")
_HUGE_PAGES: Final = "hugepages-"


def offered(quantities: Quantities | None) -> Amounts:
    """The allocatable amounts of a node."""
    return _rounded(_read(quantities))


def requested(pod: Pod) -> Amounts:
    """What a pod asks for before it runs."""
    return _sum(pod, {}, None)


def held(pod: Pod) -> Amounts:
    """What a bound pod takes: during an in-place resize the larger of old and new."""
    spec_only = requested(pod)
    statuses = [*(pod.status.container_statuses or ()), *(pod.status.init_container_statuses or ())]
    if not any(each.resources or each.allocated_resources for each in statuses) and not (
        pod.status.resources or pod.status.allocated_resources
    ):
        return spec_only
    return _sum(pod, {each.name: each for each in statuses}, pod)


def shown(resource: str, amount: int) -> str:
    return f"{amount}m" if resource == CPU else str(amount)


def _sum(pod: Pod, statuses: Mapping[str, ContainerStatus], whole: Pod | None) -> Amounts:
    """Containers together, init containers one after another, sidecars beside them."""
    spec = pod.spec
    infeasible = whole is not None and _is_infeasible(pod)
    total: _Nanos = defaultdict(int)
    for container in spec.containers or ():
        _add(total, _of_container(container, statuses, infeasible))
    sidecars: _Nanos = defaultdict(int)
    highest: _Nanos = {}
    for container in spec.init_containers or ():
        own = _of_container(container, statuses, infeasible)
        if container.restart_policy == "Always":
            _add(total, own)
            _add(sidecars, own)
            now: Mapping[str, int] = sidecars
        else:
            together: _Nanos = defaultdict(int, sidecars)
            _add(together, own)
            now = together
        _raise(highest, now)
    _raise(total, highest)
    if spec.resources is not None and spec.resources.requests:
        level = _read(spec.resources.requests)
        if whole is not None:
            status = whole.status
            actual = _read(status.resources.requests if status.resources else None)
            level = _in_resize(level, actual, _read(status.allocated_resources), infeasible)
        for name, amount in level.items():
            if name in _POD_LEVEL or name.startswith(_HUGE_PAGES):
                total[name] = amount
    _add(total, _read(spec.overhead))
    return _rounded(total)


def _of_container(
    container: Container, statuses: Mapping[str, ContainerStatus], infeasible: bool
) -> _Nanos:
    asked = _read(container.resources.requests if container.resources else None)
    status = statuses.get(container.name)
    if status is None or status.resources is None:
        return asked
    return _in_resize(
        asked, _read(status.resources.requests), _read(status.allocated_resources), infeasible
    )


def _in_resize(asked: _Nanos, actual: _Nanos, allocated: _Nanos, infeasible: bool) -> _Nanos:
    """A resize that the node cannot carry out leaves the pod with what it has."""
    most: _Nanos = {}
    for each in (actual, allocated) if infeasible else (asked, actual, allocated):
        _raise(most, each)
    return most


def _is_infeasible(pod: Pod) -> bool:
    return any(
        each.type == "PodResizePending" and each.reason == "Infeasible"
        for each in pod.status.conditions or ()
    )


def _read(quantities: Quantities | None) -> _Nanos:
    return {name: nanos(raw) for name, raw in (quantities or {}).items()}


def _add(total: _Nanos, more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] += amount


def _raise(total: _Nanos, other: Mapping[str, int]) -> None:
    for name, amount in other.items():
        total[name] = max(total.get(name, 0), amount)


def _rounded(amounts: Mapping[str, int]) -> Amounts:
    return {
        name: -(-amount // (_MILLI_NANO if name == CPU else _NANO))
        for name, amount in amounts.items()
    }


def added(total: dict[str, int], amounts: Amounts, sign: int = 1) -> None:
    """Add to a running total, or take away; a resource of which nothing is left disappears."""
    for name, amount in amounts.items():
        left = total.get(name, 0) + sign * amount
        if left:
            total[name] = left
        else:
            total.pop(name, None)


def summed(many: Iterable[Amounts]) -> dict[str, int]:
    total: dict[str, int] = {}
    for each in many:
        added(total, each)
    return total
