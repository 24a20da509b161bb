"""Pods that ask for devices by the name of an extended resource, from PreFilter to PreBind."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from stowplan.api.device_objects import ResourceClaim
from stowplan.api.objects import Pod, Wire
from stowplan.api.resources import PODS, Resource
from stowplan.errors import Forbidden
from stowplan.framework.plugin import PostFilterResult
from stowplan.framework.status import SKIP, unschedulable
from stowplan.plugins.dra.extended import ANNOTATION
from stowplan.plugins.dra.node_search import PodDevices
from stowplan.testing import node as make_node
from stowplan.testing import pod as make_pod
from tests.unit.plugins.dra.device_kit import Scene, Server, claim, device_class, gpus, using

GPU = "example.com/gpu"
OTHER = "example.com/other"
IMPLICIT = "deviceclass.resource.kubernetes.io/gpu"
NODES = ("a", "b")


class ExtendedServer(Server):
    """Creates and deletes claims, and keeps what is written into the status of pods."""

    def __init__(self, *claims: ResourceClaim) -> None:
        super().__init__(*claims)
        self.pods: dict[str, Any] = {}
        self.shows_new = True

    async def create(
        self,
        resource: Resource[Any],
        obj: Wire | Mapping[str, Any] | bytes,
        **_: Any,
    ) -> bytes:
        self.requests.append(("create", ""))
        await asyncio.sleep(0)
        self.before("create")
        made: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(obj))
        assert "name" not in made["metadata"]
        assert "status" not in made
        self.version += 1
        named = f"{made['metadata']['generateName']}{self.version}"
        version = str(self.version)
        made["metadata"] |= {"name": named, "uid": f"uid-{named}", "resourceVersion": version}
        self.claims[named] = made
        if self.shows_new:
            self._show(named)
        return msgspec.json.encode(made)

    async def delete(self, resource: Resource[Any], name: str, *, uid: str = "", **_: Any) -> None:
        await self._enter("delete", name)
        assert self.claims[name]["metadata"]["uid"] == uid
        assert not self.claims[name]["metadata"].get("finalizers"), "it would stay"
        del self.claims[name]
        for scene in self.scenes:
            scene.remove(name)

    async def patch(
        self,
        resource: Resource[Any],
        name: str,
        patch: Mapping[str, Any] | list[Any] | bytes,
        *,
        subresource: str = "",
        **more: Any,
    ) -> bytes:
        if resource is not PODS:
            return await super().patch(resource, name, patch, subresource=subresource, **more)
        assert subresource == "status"
        assert isinstance(patch, Mapping)
        self.requests.append(("pod status", name))
        await asyncio.sleep(0)
        self.before("pod status")
        self.pods[name] = patch["status"]["extendedResourceClaimStatus"]
        return b""


def _scene(*things: Any, nodes: Mapping[str, Mapping[str, str]] | None = None) -> Scene:
    offers = nodes or {key: {} for key in NODES}
    made = [make_node(name, resources=dict(each)) for name, each in offers.items()]
    return Scene(
        made,
        device_class(extendedResourceName=GPU),
        *(things or [gpus("a", "gpu-0", "gpu-1")]),
        server=ExtendedServer(),
    )


def _asking(name: str = "p", **more: Any) -> Pod:
    requests = more.pop("requests", {GPU: 1})
    return make_pod(name, uid=f"uid-{name}", cpu=None, memory=None, requests=requests, **more)


def _server(scene: Scene) -> ExtendedServer:
    assert isinstance(scene.server, ExtendedServer)
    return scene.server


def _left_behind(pod: Pod, **more: Any) -> ResourceClaim:
    made = claim("p-extended-resources-x", **more)
    owner = {"kind": "Pod", "name": pod.metadata.name, "uid": pod.uid, "controller": True}
    wire = msgspec.to_builtins(made)
    wire["metadata"] |= {"annotations": {ANNOTATION: "true"}, "ownerReferences": [owner]}
    return msgspec.convert(wire, ResourceClaim)


@pytest.mark.parametrize("resource", [GPU, IMPLICIT])
def test_devices_stand_for_the_resource(resource: str) -> None:
    scene = _scene()
    assert scene.filter(_asking(requests={resource: 2})) == {
        "a": "",
        "b": "cannot allocate all claims",
    }
    assert scene.filter(_asking(requests={resource: 3})) == dict.fromkeys(
        NODES, "cannot allocate all claims"
    )


def test_a_resource_without_a_class_is_no_matter_of_devices() -> None:
    assert _scene().pre_filter(_asking(requests={OTHER: 1})) == SKIP
    assert _scene().pre_filter(_asking(requests={GPU: 0})) == SKIP


def test_a_device_plugin_comes_first_node_by_node() -> None:
    nodes = {"a": {}, "b": {GPU: "1"}, "c": {GPU: "0"}}
    scene = _scene(gpus("a", "gpu-0"), nodes=nodes)
    pod = _asking()
    assert scene.filter(pod) == {"a": "", "b": "", "c": "cannot allocate all claims"}
    cycle = scene.reserve(pod, "b")
    assert not scene.facts.in_flight
    assert asyncio.run(scene.plugin.pre_bind(cycle, pod, "b")) is None
    assert not scene.server.requests


def test_another_resource_must_be_known_to_the_node() -> None:
    """NodeResourcesFit lets the pod pass if its arguments say to ignore the resource."""
    nodes = {"a": {}, "b": {OTHER: "1"}, "c": {OTHER: "0"}}
    scene = _scene(gpus("b", "gpu-0"), gpus("c", "gpu-0"), nodes=nodes)
    assert scene.filter(_asking(requests={GPU: 1, OTHER: 1})) == {
        "a": "cannot fit resource",
        "b": "",
        "c": "",
    }


def test_the_claim_is_created_allocated_and_told_to_the_pod() -> None:
    scene = _scene()
    pod = _asking()
    cycle = scene.reserve(pod, "a")
    assert len(scene.facts.in_flight) == 1

    async def bind() -> None:
        assert await scene.plugin.pre_bind(cycle, pod, "a") is None
        await scene.settle()

    asyncio.run(bind())
    (name,) = scene.server.claims
    assert scene.server.requests == [
        ("create", ""),
        ("object", name),
        ("status", name),
        ("pod status", "p"),
    ]
    made = scene.server.claim(name)
    assert made.metadata.generate_name == "p-extended-resources-"
    assert made.metadata.annotations == {ANNOTATION: "true"}
    (owner,) = made.metadata.owner_references or ()
    assert (owner.kind, owner.uid, owner.controller) == ("Pod", "uid-p", True)
    assert made.metadata.finalizers == ("resource.kubernetes.io/delete-protection",)
    assert made.status.allocation is not None
    (device,) = made.status.allocation.devices.results or ()
    assert (device.request, device.device) == ("container-0-request-0", "gpu-0")
    assert [one.uid for one in made.status.reserved_for or ()] == ["uid-p"]
    assert _server(scene).pods["p"] == {
        "requestMappings": [
            {
                "containerName": (pod.spec.containers or ())[0].name,
                "resourceName": GPU,
                "requestName": "container-0-request-0",
            }
        ],
        "resourceClaimName": name,
    }
    assert not scene.facts.in_flight
    assert len(scene.facts.allocated.devices) == 1
    assert scene.observed == [("scheduler_resourceclaim_creates_total", ("success",), 1)]


def test_devices_stay_in_flight_until_the_watch_shows_the_claim() -> None:
    scene = _scene()
    _server(scene).shows_new = scene.server.shows = False
    pod = _asking()
    cycle = scene.reserve(pod, "a")

    async def bind() -> None:
        binding = asyncio.ensure_future(scene.plugin.pre_bind(cycle, pod, "a"))
        for _ in range(40):
            await asyncio.sleep(0)
        assert len(scene.facts.in_flight) == 1
        (name,) = scene.server.claims
        scene.put(scene.server.claim(name))
        assert await binding is None
        await scene.settle()

    asyncio.run(bind())
    assert not scene.facts.in_flight
    assert len(scene.facts.allocated.devices) == 1


@pytest.mark.parametrize("failing", ["create", "status", "pod status"])
def test_what_was_created_is_deleted_when_binding_fails(failing: str) -> None:
    scene = _scene()
    pod = _asking()
    cycle = scene.reserve(pod, "a")

    def refuse(what: str) -> None:
        if what == failing:
            raise _REFUSED

    scene.server.before = refuse

    async def bind() -> None:
        status = await scene.plugin.pre_bind(cycle, pod, "a")
        assert status is not None
        assert str(_REFUSED) in status.message
        scene.plugin.unreserve(cycle, pod, "a")
        await scene.settle()

    asyncio.run(bind())
    assert not scene.server.claims
    assert not scene.facts.in_flight
    assert not scene.facts.allocated.devices
    counted = "failure" if failing == "create" else "success"
    assert scene.observed == [("scheduler_resourceclaim_creates_total", (counted,), 1)]


def test_unreserve_before_binding_gives_the_devices_back() -> None:
    scene = _scene()
    pod = _asking()
    cycle = scene.reserve(pod, "a")
    scene.plugin.unreserve(cycle, pod, "a")
    assert not scene.facts.in_flight
    assert not scene.server.requests


def test_a_claim_that_was_left_behind_is_deleted_first() -> None:
    pod = _asking()
    old = _left_behind(pod)
    scene = _scene(gpus("a", "gpu-0"), old)
    cycle, answers = scene.filtered(pod)
    assert {status.message for status in answers.values()} == {
        "cannot schedule extended resource claim"
    }
    result = scene.post_filter(cycle)
    assert isinstance(result, PostFilterResult)
    assert result.status == unschedulable("deletion of ResourceClaim completed")
    effect = result.effect
    assert effect is not None
    activated: list[Pod] = []
    scene.handle.activate = activated.extend

    async def delete_claim() -> None:
        await effect()

    asyncio.run(delete_claim())
    assert not scene.server.claims
    assert activated == [pod]
    assert scene.filter(pod) == {"a": "", "b": "cannot allocate all claims"}


def test_the_claim_of_a_pod_of_the_same_name_is_another() -> None:
    old = _left_behind(make_pod("p", uid="earlier"))
    scene = _scene(gpus("a", "gpu-0"), old)
    assert scene.filter(_asking())["a"] == ""


def test_claims_and_extended_resources_share_the_devices_of_a_node() -> None:
    scene = _scene(gpus("a", "gpu-0", "gpu-1"), claim("mine"))
    pod = using("mine", requests={GPU: 1})
    cycle = scene.reserve(pod, "a")
    devices = cycle.get(PodDevices)
    assert devices is not None
    chosen = [
        device.device
        for allocation in devices.chosen.values()
        for device in allocation.devices.results or ()
    ]
    assert chosen == ["gpu-0", "gpu-1"]
    assert scene.filter(_asking("q")) == dict.fromkeys(NODES, "cannot allocate all claims")


_REFUSED = Forbidden("not allowed")
