"""Devices for the pods that `raw` binds: any free one, written into a claim as schedulers do.

What must stay true: each pod costs the requests that kube-scheduler and Stowplan send. A claim gets
its finalizer, then its allocation and reservation; for an extended resource the claim is created
before, and the pod's status is patched after. Only devices that no claim has are given away. A
claim may have one request for one device; `plan.why_not_raw` knows which workloads that are.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import aiohttp
import msgspec

from stowplan.api.resources import DEVICE_CLASSES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from stowplan.lab.bench.follow import Followed, FollowedChange, Metadata, read_all, watch
from stowplan.lab.bench.sender import Sender

_MERGE: Final = "application/merge-patch+json"
_STRATEGIC: Final = "application/strategic-merge-patch+json"
_FINALIZER: Final = "resource.kubernetes.io/delete-protection"
_EXTENDED: Final = "resource.kubernetes.io/extended-resource-claim"
_EXTENDED_REQUEST: Final = "container-0-request-0"
_IMPLICIT: Final = "deviceclass.resource.kubernetes.io/"


class _Struct(msgspec.Struct, rename="camel"):
    pass


class _Named(_Struct):
    name: str = ""


class _Resources(_Struct):
    requests: dict[str, str | int] = {}


class _Container(_Named):
    resources: _Resources = msgspec.field(default_factory=_Resources)


class _PodSpec(_Struct):
    #: Null in a bookmark.
    containers: list[_Container] | None
    resource_claims: list[_Named] = []


class _ClaimOfPod(_Struct):
    resource_claim_name: str = ""


class _PodStatus(_Struct):
    resource_claim_statuses: list[_ClaimOfPod] = []


class PodWithDevices(Followed, kw_only=True):
    spec: _PodSpec
    status: _PodStatus

    @property
    def lacks_claim(self) -> bool:
        """Whether its claim has yet to be created from a template."""
        return bool(self.spec.resource_claims) and not self.status.resource_claim_statuses


class _Requests(_Struct):
    requests: list[_Named] = []


class _ClaimSpec(_Struct):
    devices: _Requests


class Device(msgspec.Struct, frozen=True):
    driver: str
    pool: str
    device: str


class _Results(_Struct):
    results: list[Device] = []


class _Allocation(_Struct):
    devices: _Results = msgspec.field(default_factory=_Results)


class _ClaimStatus(_Struct):
    allocation: _Allocation | None = None


class Claim(Followed, kw_only=True):
    spec: _ClaimSpec
    status: _ClaimStatus = msgspec.field(default_factory=_ClaimStatus)

    @property
    def devices(self) -> list[Device]:
        allocation = self.status.allocation
        return [] if allocation is None else allocation.devices.results


class _SliceSpec(_Struct):
    driver: str
    pool: _Named
    node_name: str = ""
    devices: list[_Named] = []


class _Slice(Followed, kw_only=True):
    spec: _SliceSpec


class _ClassSpec(_Struct):
    extended_resource_name: str = ""


class _Class(Followed, kw_only=True):
    spec: _ClassSpec


class RawDevices:
    """Free devices, and the pods that wait for one; `bind` makes the requests that bind a pod."""

    def __init__(self, sender: Sender, bind: Callable[[Metadata, str], Iterator[bytes]]) -> None:
        self._sender = sender
        self._bind = bind
        self._waiting: deque[PodWithDevices] = deque()
        self._claims: dict[tuple[str, str], Claim] = {}
        self._nodes: dict[Device, str] = {}
        self._free: deque[Device] = deque()
        self._class_of: dict[str, str] = {}

    @asynccontextmanager
    async def following(self, client: aiohttp.ClientSession) -> AsyncIterator[None]:
        """Read devices, classes and claims, which all exist when the first pod does."""
        classes, _ = await read_all(client, DEVICE_CLASSES.path(), _Class)
        for one in classes:
            name = one.metadata.name
            self._class_of |= {one.spec.extended_resource_name: name, _IMPLICIT + name: name}
        slices, _ = await read_all(client, RESOURCE_SLICES.path(), _Slice)
        for spec in (each.spec for each in slices):
            for device in spec.devices:
                self._nodes[Device(spec.driver, spec.pool.name, device.name)] = spec.node_name
        claims, version = await read_all(client, RESOURCE_CLAIMS.path(), Claim)
        self._claims = {_key(claim.metadata): claim for claim in claims}
        taken = {device for claim in claims for device in claim.devices}
        self._free.extend(device for device in self._nodes if device not in taken)
        changes = watch(client, RESOURCE_CLAIMS.path(), {}, Claim, version)
        task = asyncio.create_task(self._follow(changes))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _follow(self, changes: AsyncGenerator[FollowedChange[Claim], None]) -> None:
        async with aclosing(changes):
            async for change in changes:
                key, claim = _key(change.object.metadata), change.object
                before = self._claims.pop(key, None)
                if change.type == "DELETED":
                    claim.status.allocation = None
                else:
                    self._claims[key] = claim
                if before is not None and not claim.devices:
                    self._free.extend(before.devices)
                self._proceed()

    def add(self, pod: PodWithDevices) -> None:
        self._waiting.append(pod)
        self._proceed()

    def _proceed(self) -> None:
        while self._waiting and self._free:
            pod = self._waiting[0]
            names = [each.resource_claim_name for each in pod.status.resource_claim_statuses]
            claim = self._claims.get((pod.metadata.namespace, names[0])) if names else None
            if names and claim is None:
                return  # The watch of claims is behind that of pods.
            self._waiting.popleft()
            self._sender.submit_chain(self._requests(pod, claim, self._free.popleft()))

    def _requests(
        self, pod: PodWithDevices, claim: Claim | None, device: Device
    ) -> Iterator[bytes]:
        """Without a claim the pod asks for an extended resource."""
        send, node = self._sender.request, self._nodes[device]
        space, name = pod.metadata.namespace, f"{pod.metadata.name}-extended-resources"
        request, mapping = _EXTENDED_REQUEST, {}
        if claim is not None:
            name, request = claim.metadata.name, claim.spec.devices.requests[0].name
        else:
            container = (pod.spec.containers or [])[0]
            resource = next(each for each in container.resources.requests if "/" in each)
            mapping = {"containerName": container.name, "resourceName": resource}
            body = _extended_claim(pod.metadata, name, self._class_of[resource])
            yield send(RESOURCE_CLAIMS.path(namespace=space), body)
        path = partial(RESOURCE_CLAIMS.path, namespace=space, name=name)
        yield send(path(), {"metadata": {"finalizers": [_FINALIZER]}}, "PATCH", _MERGE)
        status = _status(pod.metadata, request, device, node)
        yield send(path(subresource="status"), {"status": status}, "PATCH", _MERGE)
        if mapping:
            mappings = {"requestMappings": [{**mapping, "requestName": request}]}
            patch = {
                "status": {"extendedResourceClaimStatus": {**mappings, "resourceClaimName": name}}
            }
            pod_status = PODS.path(namespace=space, name=pod.metadata.name, subresource="status")
            yield send(pod_status, patch, "PATCH", _STRATEGIC)
        yield from self._bind(pod.metadata, node)


def _key(metadata: Metadata) -> tuple[str, str]:
    return metadata.namespace, metadata.name


def _extended_claim(pod: Metadata, name: str, device_class: str) -> dict[str, Any]:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid}
    wanted = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": 1}
    requests = [{"name": _EXTENDED_REQUEST, "exactly": wanted}]
    return {
        "apiVersion": RESOURCE_CLAIMS.api_version,
        "kind": RESOURCE_CLAIMS.kind,
        "metadata": {
            "name": name,
            "namespace": pod.namespace,
            "annotations": {_EXTENDED: "true"},
            "ownerReferences": [owner | {"controller": True}],
        },
        "spec": {"devices": {"requests": requests}},
    }


def _status(pod: Metadata, request: str, device: Device, node: str) -> dict[str, Any]:
    on_node = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {
        "allocation": {
            "allocationTimestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "devices": {"results": [{"request": request, **msgspec.to_builtins(device)}]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [on_node]}]},
        },
        "reservedFor": [{"resource": "pods", "name": pod.name, "uid": pod.uid}],
    }
