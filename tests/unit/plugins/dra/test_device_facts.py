"""Which devices are taken, by claims that the watch has shown and by writes that it has not."""

from __future__ import annotations

from typing import Any

from stowplan.api.device_objects import ResourceClaim
from stowplan.testing import node
from tests.unit.plugins.dra.device_kit import (
    DRIVER,
    Scene,
    allocation,
    claim,
    device_class,
    gpus,
    request,
    using,
)


def scene(*things: Any) -> Scene:
    return Scene([node("a"), node("b")], device_class(), gpus("a", "gpu-0", "gpu-1"), *things)


def version(number: int, **more: Any) -> ResourceClaim:
    return claim(version=str(number), **more)


def test_a_written_claim_counts_until_the_watch_shows_a_newer_one() -> None:
    at = scene(version(1))
    facts = at.facts
    assert facts.assume(version(5, allocation=allocation("a", "gpu-0")))
    at.put(version(3))
    assert facts.allocated.devices == {(DRIVER, "a", "gpu-0"): 1}
    at.put(version(6))
    assert not facts.allocated.devices
    assert not facts.assume(version(5, allocation=allocation("a", "gpu-0"))), "it is older"
    at.remove("gpu")
    assert not facts.assume(version(9)), "there is no such claim"


def test_a_namesake_ends_an_assumption() -> None:
    at = scene(version(1))
    assert at.facts.assume(version(5, allocation=allocation("a", "gpu-0")))
    at.put(version(4, uid="another"))
    assert not at.facts.allocated.devices
    assert not at.facts.assume(version(9, allocation=allocation("a", "gpu-0")))


def test_a_device_of_two_claims_is_free_when_both_are_gone() -> None:
    both = [claim(name, allocation=allocation("a", "gpu-0")) for name in ("one", "two")]
    at = scene(*both)
    at.remove("one")
    assert at.facts.allocated.devices == {(DRIVER, "a", "gpu-0"): 1}
    at.remove("two")
    assert not at.facts.allocated.devices


def test_shares_of_a_device_are_added_up_and_taken_back() -> None:
    def share(name: str) -> ResourceClaim:
        part = {"shareID": f"s-{name}", "consumedCapacity": {"memory": "10Gi"}}
        return claim(name, allocation=allocation("a", "gpu-0", **part))

    big = [
        {
            "name": "gpu-0",
            "allowMultipleAllocations": True,
            "capacity": {"memory": {"value": "25Gi"}},
        }
    ]
    wanted = claim("gpu", request(capacity={"requests": {"memory": "10Gi"}}))
    at = Scene([node("a")], device_class(), gpus("a", devices=big), wanted, share("one"))
    assert at.filter(using("gpu")) == {"a": ""}
    at.put(share("two"))
    assert at.filter(using("gpu")) == {"a": "cannot allocate all claims"}
    at.remove("one")
    at.remove("two")
    assert at.filter(using("gpu")) == {"a": ""}
    assert not at.facts.allocated.consumed
    assert not at.facts.allocated.shares


def test_everything_can_be_derived_again() -> None:
    at = scene(version(1), claim("held", allocation=allocation("a", "gpu-1")))
    at.reserve(using("gpu"), "a")
    facts = at.facts
    before = dict(facts.allocated.devices)
    facts.reset(facts)
    assert (
        facts.allocated.devices == before == {(DRIVER, "a", each): 1 for each in ("gpu-0", "gpu-1")}
    )
    twin = at.cache.catalog.copy().shared(type(facts))
    assert twin.allocated.devices == before
    assert twin.in_flight == facts.in_flight
