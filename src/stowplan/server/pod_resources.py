"""/metrics/resources: requests and limits of every pod, as kube-scheduler's leader shows them.

`serving` adds the route. Written in pieces, so that the scheduler goes on meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator
from typing import Final

from msgspec.structs import replace

from stowplan.api.objects import Container, Pod, ResourceRequirements
from stowplan.cluster.requests import Amounts, parse_amounts, pod_requests
from stowplan.http.messages import Request, Response

_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_PIECE: Final = 100
_UNITS: Final = {
    "cpu": "cores",
    "memory": "bytes",
    "storage": "bytes",
    "ephemeral-storage": "bytes",
}
_UNITS_BY_PREFIX: Final = {"hugepages-": "bytes", "attachable-volumes-": "integer"}
_HELP: Final = (
    "broken down by pod. This shows the resource usage the scheduler and kubelet expect per pod"
    " for resources along with the unit for the resource if any."
)
_FAMILIES: Final = {
    "kube_pod_resource_limit": f"Resources limit for workloads on the cluster, {_HELP}",
    "kube_pod_resource_request": f"Resources requested by workloads on the cluster, {_HELP}",
}


def pod_resources(
    pods: Callable[[], Collection[Pod]], is_leading: Callable[[], bool]
) -> Callable[[Request], Awaitable[Response]]:
    """A route; its response is empty unless `is_leading`."""

    async def answer(_: Request) -> Response:
        text = await _text(list(pods())) if is_leading() else ""
        return Response(text.encode(), 200, _TYPE)

    return answer


async def _text(pods: list[Pod]) -> str:
    limits: list[str] = []
    requests: list[str] = []
    for start in range(0, len(pods), _PIECE):
        for pod in pods[start : start + _PIECE]:
            if pod.spec.node_name and pod.status.phase in ("Succeeded", "Failed"):
                continue
            limits += _series("kube_pod_resource_limit", pod, pod_limits(pod))
            requests += _series("kube_pod_resource_request", pod, pod_requests(pod))
        await asyncio.sleep(0)
    lines: list[str] = []
    for (name, help_text), series in zip(_FAMILIES.items(), (limits, requests), strict=True):
        if series:
            lines += [f"# HELP {name} [STABLE] {help_text}", f"# TYPE {name} gauge"]
            lines += sorted(series)
    return "\n".join([*lines, ""]) if lines else ""


def pod_limits(pod: Pod) -> Amounts:
    """The sum of a pod's limits in thousandths, by the rules of requests.

    Overhead is added only to resources with a limit.
    """
    spec = pod.spec
    whole = spec.resources
    as_requests = replace(
        spec,
        containers=_limited(spec.containers),
        init_containers=_limited(spec.init_containers),
        resources=None if whole is None else ResourceRequirements(requests=whole.limits),
        overhead=None,
    )
    limits = pod_requests(replace(pod, spec=as_requests))
    for name, milli in parse_amounts(spec.overhead).items():
        if limits.get(name):
            limits[name] += milli
    return limits


def _limited(containers: tuple[Container, ...] | None) -> tuple[Container, ...] | None:
    return containers and tuple(
        replace(each, resources=each.resources and ResourceRequirements(each.resources.limits))
        for each in containers
    )


def _series(family: str, pod: Pod, amounts: Amounts) -> Iterator[str]:
    from prometheus_client.utils import floatToGoString

    meta, spec = pod.metadata, pod.spec
    priority = "" if spec.priority is None else spec.priority
    for name, milli in amounts.items():
        if milli:
            labels = (
                f'namespace="{_label(meta.namespace)}",node="{_label(spec.node_name)}",'
                f'pod="{_label(meta.name)}",priority="{priority}",resource="{_label(name)}",'
                f'scheduler="{_label(spec.scheduler_name)}",unit="{_unit(name)}"'
            )
            value: str = floatToGoString(milli / 1000)  # type: ignore[no-untyped-call]  # prometheus_client has no types for it
            yield f"{family}{{{labels}}} {value.removesuffix('.0')}"


def _unit(name: str) -> str:
    found = (unit for prefix, unit in _UNITS_BY_PREFIX.items() if name.startswith(prefix))
    return _UNITS.get(name) or next(found, "")


def _label(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
