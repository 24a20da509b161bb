"""A pod's requests: kube-scheduler's PodRequests in exact integers.

Amounts are summed in thousandths (the API server rounds every quantity to that) and leave here in
canonical units: milli-CPU for `cpu`, whole units rounded up for everything else. Called once a
pod, when it is compiled (`pod_info`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from stowplan.api.objects import Container, ContainerStatus, Pod, Quantities
from stowplan.api.quantity import INT64_MAX, nanos

Amounts: TypeAlias = dict[str, int]

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL_STORAGE = "ephemeral-storage"
PODS = "pods"

DEFAULT_MILLI_CPU = 100
DEFAULT_MEMORY_BYTES = 200 * 1024 * 1024
# What a container that names no request is taken for when nodes are scored, in thousandths.
NON_ZERO_DEFAULTS: Mapping[str, int] = {CPU: DEFAULT_MILLI_CPU, MEMORY: DEFAULT_MEMORY_BYTES * 1000}


def is_scalar(name: str) -> bool:
    """Whether a resource other than cpu, memory and ephemeral storage is accounted for."""
    if name.startswith(("hugepages-", "attachable-volumes-")):
        return True
    return "kubernetes.io/" in name or is_extended(name)


def is_extended(name: str) -> bool:
    """A fully qualified name outside kubernetes.io, such as `example.com/gpu`."""
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


def is_pod_level(name: str) -> bool:
    """Whether a resource may be requested for the pod as a whole."""
    return name in (CPU, MEMORY) or name.startswith("hugepages-")


def canonical(amounts: Amounts) -> Amounts:
    """Thousandths to canonical units, dropping what the scheduler does not account for."""
    out: Amounts = {}
    for name, milli in amounts.items():
        if name == CPU:
            out[name] = _bounded(milli)
        elif name in (MEMORY, EPHEMERAL_STORAGE) or is_scalar(name):
            out[name] = whole_units(milli)
    return out


def whole_units(milli: int) -> int:
    """Thousandths as whole units, rounded up."""
    return _bounded(-(-milli // 1000))


def _bounded(amount: int) -> int:
    """An amount that columns can hold (`exact_sums` says what follows); none is negative."""
    return max(0, min(amount, INT64_MAX))


def parse_amounts(quantities: Quantities | None) -> Amounts:
    """Quantities as thousandths, rounded up; exact also where an int64 would overflow."""
    if not quantities:
        return {}
    return {name: -(-nanos(quantity) // 1_000_000) for name, quantity in quantities.items()}


def pod_requests(
    pod: Pod,
    *,
    use_status: bool = False,
    skip_pod_level: bool = False,
    defaults: Mapping[str, int] | None = None,
) -> Amounts:
    """Sum of the pod's requests in thousandths.

    `use_status` counts what a resized container holds now, `defaults` fills in requests that a
    container leaves out, `skip_pod_level` ignores `spec.resources`.
    """
    spec = pod.spec
    statuses = _statuses(pod) if use_status else None
    infeasible = statuses is not None and resize_infeasible(pod)
    total: Amounts = {}
    for container in spec.containers or ():
        _add(total, _container(container, statuses, infeasible, defaults))
    if spec.init_containers:
        _fold_init_containers(total, spec.init_containers, statuses, infeasible, defaults)
    if not skip_pod_level and spec.resources is not None and spec.resources.requests:
        for name, milli in _pod_level(pod, use_status=use_status).items():
            total[name] = milli
    if spec.overhead:
        _add(total, parse_amounts(spec.overhead))
    return total


def _fold_init_containers(
    total: Amounts,
    init_containers: Iterable[Container],
    statuses: Mapping[str, ContainerStatus] | None,
    infeasible: bool,
    defaults: Mapping[str, int] | None,
) -> None:
    """Sidecars run beside everything that starts after them; other init containers run alone."""
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in init_containers:
        is_sidecar = container.restart_policy == "Always"
        # Only containers that may still be running can have been resized.
        own = _container(container, statuses if is_sidecar else None, infeasible, defaults)
        if is_sidecar:
            _add(total, own)
            _add(sidecars, own)
        # What sidecars hold of other names is in the peak since they came.
        for name, milli in own.items():
            beside = sidecars[name] if is_sidecar else milli + sidecars.get(name, 0)
            peak[name] = max(peak.get(name, beside), beside)
    _max(total, peak)


def _container(
    container: Container,
    statuses: Mapping[str, ContainerStatus] | None,
    infeasible: bool,
    defaults: Mapping[str, int] | None,
) -> Amounts:
    requirements = container.resources
    amounts = parse_amounts(requirements.requests) if requirements is not None else {}
    if statuses is not None:
        status = statuses.get(container.name)
        if status is not None and status.resources is not None:
            held = parse_amounts(status.resources.requests)
            _max(held, parse_amounts(status.allocated_resources))
            if infeasible:
                amounts = held
            else:
                _max(amounts, held)
    if defaults is not None:
        for name, milli in defaults.items():
            amounts.setdefault(name, milli)
    return amounts


def _pod_level(pod: Pod, *, use_status: bool) -> Amounts:
    """Pod-level requests replace the containers' sum for the resources that allow it."""
    assert pod.spec.resources is not None
    wanted = parse_amounts(pod.spec.resources.requests)
    effective = dict(wanted)
    if use_status and pod.status.resources is not None:
        held = parse_amounts(pod.status.resources.requests)
        _max(held, parse_amounts(pod.status.allocated_resources))
        if resize_infeasible(pod):
            effective = held
        else:
            _max(effective, held)
    return {name: effective.get(name, 0) for name in wanted if is_pod_level(name)}


def _statuses(pod: Pod) -> dict[str, ContainerStatus] | None:
    reported = pod.status.reported_resources
    return {status.name: status for status in reported} if reported else None


def resize_infeasible(pod: Pod) -> bool:
    """Whether the node will never give the pod what it wants to be resized to."""
    for condition in pod.status.conditions or ():
        if condition.type == "PodResizePending":
            return condition.reason == "Infeasible"
    return False


def _add(into: Amounts, amounts: Mapping[str, int]) -> None:
    for name, milli in amounts.items():
        into[name] = into.get(name, 0) + milli


def _max(into: Amounts, amounts: Mapping[str, int]) -> None:
    for name, milli in amounts.items():
        if milli > into.get(name, 0):
            into[name] = milli
        else:
            into.setdefault(name, milli)
