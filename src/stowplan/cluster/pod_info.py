"""A pod compiled for scheduling: every quantity parsed, once.

The cache holds one `PodInfo` for each pod that occupies a node, the cycle makes one for the pod
it decides on. Equal specs compile to equal numbers, so nothing here depends on the cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from typing import TypeAlias

from stowplan.api.objects import Pod, Volume
from stowplan.cluster.compiled import compile_once
from stowplan.cluster.pod_volumes import placing_volumes
from stowplan.cluster.ports import HostPort, host_ports
from stowplan.cluster.requests import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    NON_ZERO_DEFAULTS,
    Amounts,
    canonical,
    is_pod_level,
    pod_requests,
    resize_infeasible,
)

Request: TypeAlias = tuple[tuple[str, int], ...]
#: The fields of a PodInfo between pod and priority.
_Numbers: TypeAlias = tuple[
    int, Request, Request, Request, tuple[int, int], tuple[HostPort, ...], tuple[Volume, ...]
]

_LEADING = {CPU: 0, MEMORY: 1, EPHEMERAL_STORAGE: 2}


@dataclass(slots=True, eq=False)
class PodInfo:
    """What one pod takes, in canonical units (milli-CPU, bytes, counts).

    pod            the Pod object
    request        pairs of resource name and amount, as fitting compares them
    score_request  the same as scoring adds them, with defaults for cpu and memory
    held           what the pod takes from its node
    held_non_zero  cpu and memory of `held`, with defaults for containers that request none
    host_ports     the ports of its node that it takes
    volumes        those of its volumes that restrict where it can run
    priority       its priority
    kind           equal numbers mean equal values of all fields but pod and priority

    Each request lists cpu, memory and ephemeral storage first, then scalar resources by name;
    resources that are not named are absent.
    """

    pod: Pod
    #: Pods of one kind have all but pod and priority in common; the same pod may be of another kind
    #: when it is compiled again.
    kind: int
    #: What fitting compares: the spec alone.
    request: Request
    #: What scoring adds: containers only, cpu and memory never absent (kube-scheduler's quirk:
    #: pod-level resources are not seen there).
    score_request: Request
    #: What the pod takes from its node: a resized container's larger figure counts.
    held: Request
    #: cpu and memory of `held` with defaults for containers that name none.
    held_non_zero: tuple[int, int]
    #: The ports of its node that it takes for itself.
    host_ports: tuple[HostPort, ...] = ()
    #: Those of its volumes that its place depends on.
    volumes: tuple[Volume, ...] = ()
    #: The same for every version of a pod; here because preemption compares thousands.
    priority: int = 0

    @property
    def uid(self) -> str:
        """The pod's UID."""
        return self.pod.metadata.uid

    def takes_as_much_as(self, other: PodInfo) -> bool:
        """Whether two versions of a pod mean the same to a node."""
        return (
            self.held == other.held
            and self.held_non_zero == other.held_non_zero
            and self.request == other.request
            and self.score_request == other.score_request
        )


def compile_pod(pod: Pod) -> PodInfo:
    """Parse a pod's requests. Raises ValueError for a quantity that is none."""
    spec, status = pod.spec, pod.status
    # Pods of one template share one answer, which also saves the memory of all the others. What a
    # resized container holds is in the status; most pods' statuses say nothing of it.
    has_statuses = status.container_statuses or status.init_container_statuses
    parts = (
        spec.containers,
        spec.init_containers,
        spec.overhead,
        spec.resources,
        spec.volumes,
        status.reported_resources if has_statuses else (),
        status.resources,
        status.allocated_resources,
        resize_infeasible(pod),
    )
    numbers = compile_once("pod", parts, lambda: _compile(pod))
    return PodInfo(pod, *numbers, pod.priority)


_kinds = count()


def _compile(pod: Pod) -> _Numbers:
    request = _ordered(pod_requests(pod))
    if pod.spec.resources is None and not pod.status.reported_resources:
        score_request = _ordered(pod_requests(pod, defaults=NON_ZERO_DEFAULTS))
        held = request
        non_zero = dict(score_request)
    else:
        score_request = _ordered(pod_requests(pod, skip_pod_level=True, defaults=NON_ZERO_DEFAULTS))
        amounts = pod_requests(pod, use_status=True)
        held = _ordered(amounts)
        non_zero = canonical(
            pod_requests(pod, use_status=True, defaults=_held_defaults(pod, amounts))
        )
    return (
        next(_kinds),
        request,
        score_request,
        held,
        (non_zero.get(CPU, 0), non_zero.get(MEMORY, 0)),
        host_ports(pod),
        placing_volumes(pod),
    )


def held_amounts(pod: Pod) -> dict[str, int]:
    """What a pod takes from its node, by resource."""
    return dict(compile_pod(pod).held)


def same_footprint(old: Pod, new: Pod) -> bool:
    """Whether two versions of one pod compile to the same numbers."""
    old_status, new_status = old.status, new.status
    return (
        old.spec == new.spec
        and (
            # Mostly equal, and compared without a call.
            (
                old_status.container_statuses == new_status.container_statuses
                and old_status.init_container_statuses == new_status.init_container_statuses
            )
            or old_status.reported_resources == new_status.reported_resources
        )
        and old_status.resources == new_status.resources
        and old_status.allocated_resources == new_status.allocated_resources
        and (not _has_held_amounts(new) or old_status.conditions == new_status.conditions)
    )


def _has_held_amounts(pod: Pod) -> bool:
    """Whether the status says what the pod holds; only then an infeasible resize matters."""
    status = pod.status
    has_statuses = status.container_statuses or status.init_container_statuses
    return bool(has_statuses and status.reported_resources) or status.resources is not None


def _held_defaults(pod: Pod, amounts: Amounts) -> Mapping[str, int]:
    """With pod-level resources, defaults apply only to what is missing at both levels."""
    resources = pod.spec.resources
    if resources is None or not any(map(is_pod_level, resources.requests or ())):
        return NON_ZERO_DEFAULTS
    return {name: milli for name, milli in NON_ZERO_DEFAULTS.items() if name not in amounts}


def _ordered(amounts: dict[str, int]) -> Request:
    items = canonical(amounts).items()
    return tuple(sorted(items, key=lambda item: (_LEADING.get(item[0], 3), item[0])))
