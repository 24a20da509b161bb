"""Slices, classes and claims in few words, DynamicResources on a small cluster, and an API server.

The API server keeps versions, refuses stale writes, and can lose requests or answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeVar

import msgspec
import numpy as np

from stowplan.api.device_objects import DeviceClass, ResourceClaim, ResourceSlice
from stowplan.api.objects import Node, Pod, PodResourceClaimStatus, PodStatus
from stowplan.api.paging import ListResult
from stowplan.api.resources import CATALOGED, RESOURCE_CLAIMS, Resource
from stowplan.api.verbs import NoApi
from stowplan.clock import VirtualClock
from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.pod_info import compile_pod
from stowplan.config.plugin_args import DynamicResourcesArgs
from stowplan.errors import Conflict, NotFound
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import FilterStep
from stowplan.framework.handle import Handle
from stowplan.framework.plugin import PostFilterResult
from stowplan.framework.status import SUCCESS, Status
from stowplan.plugins.dra import DynamicResources
from stowplan.plugins.dra.facts import DeviceFacts
from stowplan.scheduler.wakeups import Wakeups
from stowplan.testing import pod as make_pod

T = TypeVar("T")
DRIVER = "gpu.example.com"
_BY_TYPE: dict[type, Resource[Any]] = {resource.type: resource for resource in CATALOGED}


def gpus(
    node: str, *names: str, generation: int = 1, name: str = "", count: int = 1, **spec: Any
) -> ResourceSlice:
    """A slice of GPUs of a node."""
    devices = spec.pop("devices", [{"name": each} for each in names])
    wire = {
        "metadata": {"name": name or f"{node}-gpus"},
        "spec": {
            "driver": DRIVER,
            "pool": {"name": node, "generation": generation, "resourceSliceCount": count},
            "nodeName": node or None,
            "devices": devices,
            **spec,
        },
    }
    return msgspec.convert(wire, ResourceSlice)


def device_class(name: str = "gpu", *expressions: str, **spec: Any) -> DeviceClass:
    selectors = [{"cel": {"expression": each}} for each in expressions]
    wire = {"metadata": {"name": name}, "spec": {"selectors": selectors, **spec}}
    return msgspec.convert(wire, DeviceClass)


def request(name: str = "gpu", *expressions: str, **details: Any) -> dict[str, Any]:
    selectors = [{"cel": {"expression": each}} for each in expressions]
    exactly = {
        "deviceClassName": "gpu",
        "allocationMode": "ExactCount",
        "count": 1,
        "selectors": selectors,
        **details,
    }
    return {"name": name, "exactly": exactly}


def claim(
    name: str = "gpu",
    *requests: dict[str, Any],
    version: str = "1",
    uid: str = "",
    owner: Pod | None = None,
    deleted: bool = False,
    allocation: dict[str, Any] | None = None,
    reserved_for: Iterable[Pod] = (),
    devices: Iterable[dict[str, Any]] = (),
    **spec: Any,
) -> ResourceClaim:
    owners = [{"kind": "Pod", "uid": owner.uid, "controller": True}] if owner is not None else None
    wire = {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": uid or f"uid-{name}",
            "resourceVersion": version,
            "ownerReferences": owners,
            "deletionTimestamp": "2026-01-01T00:00:00Z" if deleted else None,
        },
        "spec": {"devices": {"requests": list(requests) or [request()], **spec}},
        "status": {
            "allocation": allocation,
            "reservedFor": [
                {"resource": "pods", "name": each.metadata.name, "uid": each.uid}
                for each in reserved_for
            ],
            "devices": list(devices),
        },
    }
    return msgspec.convert(wire, ResourceClaim)


def allocation(node: str, *names: str, **more: Any) -> dict[str, Any]:
    """What a claim got on a node; `more` is said of each device."""
    timestamp = more.pop("allocationTimestamp", None)
    return {
        "devices": {
            "results": [
                {"request": "gpu", "driver": DRIVER, "pool": node, "device": each, **more}
                for each in names
            ]
        },
        "nodeSelector": {
            "nodeSelectorTerms": [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
            ]
        },
        "allocationTimestamp": timestamp,
    }


def using(*claims: str, name: str = "p", templates: Iterable[str] = (), **more: Any) -> Pod:
    """A pod with these claims by name, and with claims of templates."""
    entries = [{"name": each, "resourceClaimName": each} for each in claims]
    entries += [{"name": each, "resourceClaimTemplateName": each} for each in templates]
    return make_pod(name, uid=f"uid-{name}", resource_claims=entries, **more)


def made_for(*entries: tuple[str, str | None]) -> PodStatus:
    """The status of a pod for which claims were made."""
    return PodStatus(
        resource_claim_statuses=tuple(
            PodResourceClaimStatus(name=entry, resource_claim_name=name) for entry, name in entries
        )
    )


class Server(NoApi):
    """Holds claims; what it stores is shown to every scene that listens."""

    def __init__(self, *claims: ResourceClaim) -> None:
        self.claims: dict[str, dict[str, Any]] = {}
        self.scenes: list[Scene] = []
        self.version = 100
        self.requests: list[tuple[str, str]] = []
        #: Called with each request before and after it takes effect; may raise.
        self.before: Callable[[str], None] = lambda request: None
        self.after: Callable[[str], None] = lambda request: None
        self.shows = True
        for each in claims:
            self.store(each)

    def store(self, thing: ResourceClaim) -> None:
        self.claims[thing.metadata.name] = msgspec.to_builtins(thing)

    def claim(self, name: str = "gpu") -> ResourceClaim:
        return msgspec.convert(self.claims[name], ResourceClaim)

    def change(self, name: str, **metadata: Any) -> None:
        """Someone else writes to a claim."""
        self.version += 1
        meta = self.claims[name]["metadata"]
        meta |= {**metadata, "resourceVersion": str(self.version)}

    async def list_all(
        self,
        resource: Resource[T],
        *,
        field_selector: str = "",
        **_: Any,
    ) -> ListResult[T]:
        name = field_selector.removeprefix("metadata.name=")
        self.requests.append(("list", name))
        await asyncio.sleep(0)
        kind: Resource[Any] = resource
        found = [each for each in self.claims if not name or each == name]
        items = [msgspec.convert(self.claims[each], kind.type) for each in found]
        return ListResult(items, str(self.version))

    async def amend(
        self,
        resource: Resource[T],
        name: str,
        changes: Mapping[str, Any],
        *,
        resource_version: str,
        subresource: str = "",
        **_: Any,
    ) -> T:
        what = subresource or "object"
        await self._enter(what, name)
        stored = self.claims[name]
        metadata = changes.get("metadata", {})
        if resource_version != stored["metadata"]["resourceVersion"]:
            raise Conflict("the object has been modified; please apply your changes to the latest")
        assert metadata.get("uid", stored["metadata"]["uid"]) == stored["metadata"]["uid"]
        self.version += 1
        if subresource:
            assert set(changes) <= {"status", "metadata"}, "other parts are ignored by the server"
            status = stored.setdefault("status", {})
            for key, value in changes["status"].items():
                if isinstance(value, dict) and isinstance(status.get(key), dict):
                    status[key] = {**status[key], **value}
                else:
                    status[key] = value
        else:
            stored["metadata"] |= metadata
        stored["metadata"]["resourceVersion"] = str(self.version)
        self._show(name)
        self.after(what)
        kind: Resource[Any] = resource
        written: T = msgspec.convert(stored, kind.type)
        return written

    async def patch(
        self,
        resource: Resource[Any],
        name: str,
        patch: Mapping[str, Any] | list[Any] | bytes,
        **_: Any,
    ) -> bytes:
        await self._enter("unreserve", name)
        assert isinstance(patch, Mapping)
        stored = self.claims[name]
        assert patch["metadata"]["uid"] == stored["metadata"]["uid"]
        (removal,) = patch["status"]["reservedFor"]
        status = stored["status"]
        status["reservedFor"] = [
            each for each in status.get("reservedFor") or () if each["uid"] != removal["uid"]
        ]
        self.version += 1
        stored["metadata"]["resourceVersion"] = str(self.version)
        self._show(name)
        return b""

    async def _enter(self, what: str, name: str) -> None:
        self.requests.append((what, name))
        await asyncio.sleep(0)
        self.before(what)
        if name not in self.claims:
            raise NotFound(f'resourceclaims.resource.k8s.io "{name}" not found')

    def _show(self, name: str) -> None:
        if self.shows:
            for scene in self.scenes:
                scene.put(self.claim(name))


class Scene:
    """A cluster and the plugin."""

    def __init__(
        self,
        nodes: Iterable[Node],
        *things: Any,
        server: Server | None = None,
        args: DynamicResourcesArgs | None = None,
        clock: VirtualClock | None = None,
    ) -> None:
        self.cache = ClusterCache()
        for node in nodes:
            self.cache.set_node(node)
        self.clock = clock or VirtualClock()
        self.wakeups = Wakeups(lambda: None)
        self.tasks: list[asyncio.Future[None]] = []
        self.observed: list[tuple[str, tuple[str, ...], float]] = []
        self.recorded: list[str] = []
        self.handle = Handle(
            table=self.cache.table,
            catalog=self.cache.catalog,
            clock=self.clock,
            wakeup=self.wakeups.new,
            background=self._start,
            observe=lambda *observed: self.observed.append(observed),
            record=lambda *_, **event: self.recorded.append(f"{event['reason']}: {event['note']}"),
        )
        self.server = server or Server()
        self.server.scenes.append(self)
        self.handle.client = self.server
        self.plugin = DynamicResources(args, self.handle)
        self.put(*things)

    @property
    def facts(self) -> DeviceFacts:
        return self.cache.catalog.shared(DeviceFacts)

    def _start(self, make: Callable[[], Awaitable[None]], name: str) -> None:
        self.tasks.append(asyncio.ensure_future(make()))

    def put(self, *things: Any) -> None:
        for thing in things:
            self.cache.catalog[_BY_TYPE[type(thing)]].set(thing)
            if isinstance(thing, ResourceClaim) and thing.metadata.name not in self.server.claims:
                self.server.store(thing)

    def remove(self, name: str) -> None:
        self.cache.catalog[RESOURCE_CLAIMS].remove(name, "default")

    def cycle(self, pod: Pod) -> Cycle:
        return Cycle(self.cache.table, compile_pod(pod))

    def pre_filter(self, pod: Pod) -> Status | None:
        return self.plugin.pre_filter(self.cycle(pod))

    def filtered(self, pod: Pod) -> tuple[Cycle, dict[str, Status]]:
        """The answers by node."""
        cycle = self.cycle(pod)
        assert self.plugin.pre_filter(cycle) is None
        step, table = FilterStep(self.plugin), self.cache.table
        rows = table.order.tolist()
        answers = {table.names[row]: step.status_of_row(cycle, row) for row in rows}
        # The columns say the same, also to a pod that comes first.
        other = self.cycle(pod)
        assert self.plugin.pre_filter(other) is None
        column = np.zeros(table.capacity, np.int32)
        step.fill(other, table.order, column)
        for row in rows:
            found = step.status(other, int(column[row])) if column[row] else SUCCESS
            assert found == answers[table.names[row]]
        return cycle, answers

    def filter(self, pod: Pod) -> dict[str, str]:
        """Reasons by node; empty where the pod fits."""
        return {name: status.message for name, status in self.filtered(pod)[1].items()}

    def reserve(self, pod: Pod, node: str) -> Cycle:
        """A cycle that has chosen the node."""
        cycle, answers = self.filtered(pod)
        assert answers[node] == SUCCESS, answers
        assert self.plugin.reserve(cycle, pod, node) is None
        return cycle

    def post_filter(self, cycle: Cycle) -> PostFilterResult | Status:
        return self.plugin.post_filter(cycle, None)

    async def settle(self) -> None:
        """Let background requests end."""
        for _ in range(50):
            await asyncio.sleep(0)
        await asyncio.gather(*self.tasks)
