"""From Reserve to a written claim: what is sent, who wins a conflict, and what is taken back."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import msgspec
import pytest

from stowplan.errors import ApiUnavailable, Forbidden, ServerError
from stowplan.framework.status import SKIP, Status, error
from stowplan.plugins.dra import claim_writes, sole_holder
from stowplan.testing import node
from tests.unit.plugins.dra.device_kit import (
    DRIVER,
    Scene,
    Server,
    allocation,
    claim,
    device_class,
    gpus,
    request,
    using,
)

NODES = [node("a"), node("b")]
FINALIZER = "resource.kubernetes.io/delete-protection"


def scene(*things: Any, server: Server | None = None, **more: Any) -> Scene:
    return Scene(NODES, device_class(), gpus("a", "gpu-0", "gpu-1"), *things, server=server, **more)


async def bound(at: Scene, name: str = "p", claim_name: str = "gpu") -> Status | None:
    pod = using(claim_name, name=name)
    cycle = at.reserve(pod, "a")
    return await at.plugin.pre_bind(cycle, pod, "a")


def held(server: Server) -> Counter[str]:
    """How many claims say that they have a device."""
    found = Counter[str]()
    for name in server.claims:
        status = server.claim(name).status
        if status.allocation is not None:
            found.update(each.device for each in status.allocation.devices.results or ())
    return found


async def test_the_finalizer_comes_first_then_allocation_and_reservation() -> None:
    at = scene(claim())
    assert await bound(at) is None
    assert at.server.requests == [("object", "gpu"), ("status", "gpu")]
    written = at.server.claim()
    assert written.metadata.finalizers == (FINALIZER,)
    assert written.status.allocation is not None
    (device,) = written.status.allocation.devices.results or ()
    assert (device.driver, device.pool, device.device) == (DRIVER, "a", "gpu-0")
    assert written.status.allocation.allocation_timestamp == "2023-11-14T22:13:20Z"
    (consumer,) = written.status.reserved_for or ()
    assert (consumer.resource, consumer.name, consumer.uid) == ("pods", "p", "uid-p")
    assert not at.facts.in_flight
    assert at.facts.allocated.devices == {(DRIVER, "a", "gpu-0"): 1}


async def test_a_claim_that_is_allocated_is_only_reserved() -> None:
    allocated = allocation("a", "gpu-0", allocationTimestamp="2023-01-01T00:00:00Z")
    at = scene(claim(allocation=allocated, reserved_for=[using(name="q")]))
    assert await bound(at) is None
    assert at.server.requests == [("status", "gpu")]
    status = at.server.claim().status
    assert [each.name for each in status.reserved_for or ()] == ["q", "p"]
    assert status.allocation is not None
    assert status.allocation.allocation_timestamp == "2023-01-01T00:00:00Z"
    assert await bound(at) is None
    assert len(at.server.requests) == 1, "it is reserved for the pod already"


async def test_a_pod_without_claims_is_not_held_up() -> None:
    at = scene()
    pod = using()
    cycle = at.cycle(pod)
    assert at.plugin.pre_filter(cycle) is SKIP
    assert at.plugin.reserve(cycle, pod, "a") is None
    assert at.plugin.pre_bind_pre_flight(cycle, pod, "a") is SKIP
    assert await at.plugin.pre_bind(cycle, pod, "a") is None
    at.plugin.unreserve(cycle, pod, "a")
    assert at.server.requests == []


async def test_a_conflict_with_a_harmless_change_is_overcome() -> None:
    at = scene(claim())
    at.server.change("gpu", labels={"some": "label"})
    assert await bound(at) is None
    assert at.server.requests == [
        ("object", "gpu"),
        ("list", "gpu"),
        *[("object", "gpu")],
        ("status", "gpu"),
    ]


async def test_two_schedulers_never_allocate_a_device_twice_for_one_claim(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sole_holder, "_SHOWN_WITHIN_S", 0.0)
    server = Server(claim())
    mine, theirs = scene(claim(), server=server), scene(claim(), server=server)
    server.shows = False  # both decide on the same, old state
    pods = [using("gpu", name=name) for name in ("p", "q")]
    cycles = [at.reserve(pod, "a") for at, pod in zip((mine, theirs), pods, strict=True)]
    answers = await asyncio.gather(
        mine.plugin.pre_bind(cycles[0], pods[0], "a"),
        theirs.plugin.pre_bind(cycles[1], pods[1], "a"),
    )
    assert answers.count(None) == 1
    (lost,) = (each for each in answers if each is not None)
    assert lost == error("claim default/gpu got allocated elsewhere in the meantime")
    assert max(held(server).values()) == 1
    for at in (mine, theirs):
        assert not at.facts.in_flight


#: Each has enough for one claim of 6.
SHARED = {
    "device": [gpus("a", "gpu-0")],
    "capacity": [
        gpus(
            "a",
            devices=[
                {
                    "name": "gpu-0",
                    "allowMultipleAllocations": True,
                    "capacity": {"memory": {"value": "10"}},
                }
            ],
        )
    ],
    "counters": [
        gpus(
            "a",
            count=2,
            devices=[
                {
                    "name": f"gpu-{number}",
                    "attributes": {"slot": {"int": number}},
                    "consumesCounters": [
                        {"counterSet": "card", "counters": {"memory": {"value": "6"}}}
                    ],
                }
                for number in range(2)
            ],
        ),
        gpus(
            "a",
            name="counters",
            count=2,
            devices=None,
            sharedCounters=[{"name": "card", "counters": {"memory": {"value": "10"}}}],
        ),
    ],
}


@pytest.mark.parametrize("shows", [True, False])
@pytest.mark.parametrize("shared", SHARED)
async def test_two_schedulers_never_give_to_two_claims_what_is_enough_for_one(
    shared: str, shows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both writes succeed, as they are to different claims; the later writer notices."""
    monkeypatch.setattr(sole_holder, "_SHOWN_WITHIN_S", 0.0)
    capacity = {"capacity": {"requests": {"memory": "6"}}} if shared == "capacity" else {}
    slots = ["device.attributes['gpu.example.com'].slot == "] if shared == "counters" else []
    claims = [
        claim(name, request("gpu", *(f"{slot}{number}" for slot in slots), **capacity))
        for number, name in enumerate(("one", "two"))
    ]
    server = Server(*claims)
    things = (device_class(), *SHARED[shared], *claims)
    scenes = [Scene(NODES, *things, server=server) for _ in range(2)]
    server.shows = shows
    pods = [using("one", name="p"), using("two", name="q")]
    cycles = [at.reserve(pod, "a") for at, pod in zip(scenes, pods, strict=True)]
    answers = await asyncio.gather(
        *(
            at.plugin.pre_bind(cycle, pod, "a")
            for at, cycle, pod in zip(scenes, cycles, pods, strict=True)
        )
    )
    assert answers.count(None) <= 1
    refused = [each.message for each in answers if each is not None]
    text = "others got the counters of its pool" if shared == "counters" else "was given to claim"
    assert all(text in each and each.endswith("in the meantime") for each in refused)
    assert held(server).total() == answers.count(None)


async def test_counters_that_others_overdrew_concern_only_devices_that_take_of_them() -> None:
    """The pool was published anew with fewer counters than its claims take."""
    partitions, counters = SHARED["counters"]
    plain = msgspec.structs.replace((partitions.spec.devices or ())[0], consumes_counters=None)
    spec = msgspec.structs.replace(
        partitions.spec,
        devices=(
            *(partitions.spec.devices or ()),
            msgspec.structs.replace(plain, name="plain", attributes=None),
        ),
    )
    taken = [
        claim(f"old-{number}", allocation=allocation("a", f"gpu-{number}")) for number in range(2)
    ]
    at = Scene(
        NODES,
        device_class(),
        msgspec.structs.replace(partitions, spec=spec),
        counters,
        *taken,
        claim(),
    )
    assert await bound(at) is None
    assert held(at.server)["plain"] == 1


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            {"deletionTimestamp": "2026-01-01T00:00:00Z"},
            "claim default/gpu got deleted in the meantime",
        ),
        ({"uid": "another"}, "claim default/gpu got deleted in the meantime"),
    ],
)
async def test_a_claim_that_is_not_the_same_any_more(change: dict[str, Any], problem: str) -> None:
    at = scene(claim())
    pod = using("gpu")
    cycle = at.reserve(pod, "a")
    at.server.change("gpu", **change)
    assert await at.plugin.pre_bind(cycle, pod, "a") == error(problem)
    at.plugin.unreserve(cycle, pod, "a")
    assert not at.facts.allocated.devices
    assert held(at.server) == {}


async def test_a_claim_that_is_gone() -> None:
    at = scene(claim())
    pod = using("gpu")
    cycle = at.reserve(pod, "a")
    del at.server.claims["gpu"]
    assert await at.plugin.pre_bind(cycle, pod, "a") == error(
        'add finalizer to claim default/gpu: resourceclaims.resource.k8s.io "gpu" not found'
    )
    assert not at.facts.allocated.devices


async def test_a_claim_that_was_deallocated_meanwhile() -> None:
    at = scene(claim(allocation=allocation("a", "gpu-0")))
    pod = using("gpu")
    cycle = at.reserve(pod, "a")
    at.server.store(claim(version="7"))
    assert await at.plugin.pre_bind(cycle, pod, "a") == error(
        "claim default/gpu got deallocated elsewhere in the meantime"
    )


async def test_endless_conflicts_end() -> None:
    at = scene(claim())
    at.server.before = lambda what: at.server.change("gpu") if what == "object" else None
    status = await bound(at)
    assert status is not None
    assert status.message.startswith("add allocation and reservation to claim default/gpu: ")
    assert at.server.requests.count(("object", "gpu")) == 5
    assert not at.facts.in_flight


async def test_a_refused_write_frees_the_devices() -> None:
    at = scene(claim())

    def refuse(what: str) -> None:
        if what == "status":
            raise Forbidden("no")

    at.server.before = refuse
    assert await bound(at) == error("add allocation and reservation to claim default/gpu: no")
    assert not at.facts.allocated.devices


@pytest.mark.parametrize("problem", [ServerError("oops"), ApiUnavailable("cut", maybe_done=True)])
@pytest.mark.parametrize("place", ["before", "after"])
async def test_a_lost_answer_is_asked_for_again(
    problem: Exception, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim_writes, "_AGAIN_S", (0.0,))
    monkeypatch.setattr(claim_writes, "_PAUSE_S", 0.0)
    at = scene(claim())
    left = [problem]

    def lose(what: str) -> None:
        if what == "status" and left:
            raise left.pop()

    setattr(at.server, place, lose)
    assert await bound(at) is None
    assert held(at.server) == {"gpu-0": 1}
    assert [each.name for each in at.server.claim().status.reserved_for or ()] == ["p"]
    assert not at.facts.in_flight


async def test_a_pod_turned_back_in_the_middle_of_a_write() -> None:
    """Its devices stay taken until it is known whether the claim got them."""
    at = scene(claim())
    pod = using("gpu")
    cycle = at.reserve(pod, "a")
    task = asyncio.create_task(at.plugin.pre_bind(cycle, pod, "a"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    at.plugin.unreserve(cycle, pod, "a")
    assert at.facts.allocated.devices == {(DRIVER, "a", "gpu-0"): 1}
    await at.settle()
    assert not at.facts.in_flight
    assert held(at.server) == {"gpu-0": 1}
    assert not at.server.claim().status.reserved_for
    assert at.facts.allocated.devices == {(DRIVER, "a", "gpu-0"): 1}


async def test_unreserve_takes_the_pod_out_of_its_claims() -> None:
    at = scene(claim())
    pod = using("gpu")
    cycle = at.reserve(pod, "a")
    assert await at.plugin.pre_bind(cycle, pod, "a") is None
    at.plugin.unreserve(cycle, pod, "a")
    await at.settle()
    status = at.server.claim().status
    assert not status.reserved_for
    assert status.allocation is not None, "the next attempt uses it, or gives it back"
    at.plugin.unreserve(cycle, pod, "a")


async def test_an_idle_claim_is_deallocated() -> None:
    server = Server()
    at = Scene([node("b")], device_class(), gpus("a", "gpu-0"), server=server)
    at.put(claim(allocation=allocation("a", "gpu-0"), reserved_for=[using("gpu")]))
    cycle, _ = at.filtered(using("gpu"))
    result = at.post_filter(cycle)
    assert not isinstance(result, Status)
    assert result.effect is not None
    assert server.requests == [], "deciding writes nothing"
    await result.effect()
    assert server.claim().status == type(server.claim().status)()
    assert not at.facts.allocated.devices
