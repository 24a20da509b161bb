"""DynamicResources before a node is chosen: the verdicts and texts of each point, as upstream's."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.api.objects import Pod
from stowplan.cluster.pod_info import compile_pod
from stowplan.errors import PluginError
from stowplan.framework.plugin import Plugin, PreFilterResult
from stowplan.framework.status import SKIP, Code, Status, error, unresolvable, unschedulable
from stowplan.scheduler.cycle import decide
from stowplan.scheduler.decision import Decision
from stowplan.testing import node, pod
from tests.unit.plugins.dra.device_kit import (
    Scene,
    allocation,
    claim,
    device_class,
    gpus,
    made_for,
    request,
    using,
)
from tests.unit.plugins.plugin_kit import in_place, made, run_scores
from tests.unit.scheduler.scheduler_kit import profile_of

NODES = [node("a"), node("b")]
A_GPU_EACH = (device_class(), gpus("a", "gpu-0"), gpus("b", "gpu-0"))


@pytest.mark.parametrize(
    ("asking", "things", "problem"),
    [
        (using("gpu"), (), 'could not find ResourceClaim "default/gpu"'),
        (using("gpu"), (claim(deleted=True),), 'resourceclaim "gpu" is being deleted'),
        (using(templates=["t"]), (), 'pod "default/p": ResourceClaim not created yet'),
        (
            using(templates=["t"], status=made_for(("t", "made"))),
            (claim("made"),),
            "ResourceClaim default/made was not created for Pod default/p (Pod is not owner)",
        ),
        (
            pod("p", resource_claims=[{"name": "odd"}]),
            (),
            'pod "default/p", spec.resourceClaim "odd": none of the supported fields are set',
        ),
    ],
)
def test_claims_that_cannot_be_used(asking: Pod, things: tuple[Any, ...], problem: str) -> None:
    scene = Scene(NODES, *things)
    assert scene.plugin.pre_enqueue(asking) == unresolvable(problem)
    assert scene.pre_filter(asking) == unresolvable(problem)


def test_claims_that_can_be_used() -> None:
    owner = using(templates=["t"], status=made_for(("t", "made")))
    scene = Scene(NODES, *A_GPU_EACH, claim(), claim("made", owner=owner))
    assert scene.plugin.pre_enqueue(using("gpu")) is None
    assert scene.pre_filter(using("gpu")) is None
    assert scene.plugin.pre_enqueue(owner) is None
    assert scene.pre_filter(owner) is None
    # Left out on purpose: there is nothing to wait for.
    left_out = using(templates=["t"], status=made_for(("t", None)))
    assert scene.plugin.pre_enqueue(left_out) is None
    assert scene.pre_filter(left_out) is SKIP


@pytest.mark.parametrize(
    ("asked", "refusal"),
    [
        (
            request(deviceClassName="no"),
            unresolvable("request gpu: device class no does not exist"),
        ),
        (request(deviceClassName=""), error("request gpu: unsupported request type")),
        (
            {"name": "r"},
            unresolvable("resource claim default/gpu, request r: unknown request type"),
        ),
        (
            {"name": "r", "firstAvailable": [{"name": "s", "deviceClassName": "no"}]},
            unresolvable("request r/s: device class no does not exist"),
        ),
    ],
)
def test_requests_that_cannot_be_met_anywhere(asked: dict[str, Any], refusal: Status) -> None:
    assert Scene(NODES, *A_GPU_EACH, claim("gpu", asked)).pre_filter(using("gpu")) == refusal


def test_a_claim_in_flight_is_waited_for() -> None:
    scene = Scene(NODES, *A_GPU_EACH, claim())
    scene.reserve(using("gpu"), "a")
    text = "resource claim default/gpu is in the process of being allocated"
    assert scene.pre_filter(using("gpu", name="other")) == unresolvable(text)


def test_nodes_without_a_free_device_are_refused() -> None:
    taken = claim("taken", allocation=allocation("b", "gpu-0"))
    scene = Scene([*NODES, node("c")], *A_GPU_EACH, claim(), taken)
    nothing = "cannot allocate all claims"
    assert scene.filter(using("gpu")) == {"a": "", "b": nothing, "c": nothing}
    scene.remove("taken")
    assert scene.filter(using("gpu")) == {"a": "", "b": "", "c": nothing}


def test_devices_of_a_claim_in_flight_are_taken() -> None:
    scene = Scene(NODES, *A_GPU_EACH, claim("one"), claim("two"))
    cycle = scene.reserve(using("one"), "a")
    assert scene.filter(using("two", name="q"))["a"] == "cannot allocate all claims"
    scene.plugin.unreserve(cycle, cycle.pod, "a")
    assert scene.filter(using("two", name="q")) == {"a": "", "b": ""}


def test_devices_that_administrators_look_at_are_free() -> None:
    watched = claim("watched", allocation=allocation("a", "gpu-0", adminAccess=True))
    assert Scene(NODES, *A_GPU_EACH, claim(), watched).filter(using("gpu")) == {"a": "", "b": ""}


def test_an_allocated_claim_binds_the_pod_to_its_node() -> None:
    scene = Scene(NODES, *A_GPU_EACH, claim(allocation=allocation("b", "gpu-0")))
    assert scene.filter(using("gpu")) == {"a": "resourceclaim not available on the node", "b": ""}


def test_an_idle_claim_elsewhere_is_given_back() -> None:
    idle = claim(allocation=allocation("b", "gpu-0"))
    scene = Scene([node("a")], *A_GPU_EACH, idle)
    cycle, answers = scene.filtered(using("gpu"))
    assert answers["a"].code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    result = scene.post_filter(cycle)
    assert not isinstance(result, Status)
    assert result.status == unschedulable("deallocation of ResourceClaim completed")
    assert result.effect is not None


def test_a_claim_that_others_use_is_not_given_back() -> None:
    used = claim(allocation=allocation("b", "gpu-0"), reserved_for=[using("gpu", name="other")])
    scene = Scene([node("a")], *A_GPU_EACH, used)
    cycle, _ = scene.filtered(using("gpu"))
    assert scene.post_filter(cycle) == unschedulable("still not schedulable")


def test_pools_that_are_incomplete_or_invalid() -> None:
    half = gpus("a", "gpu-0", count=2)
    twice = gpus("b", "gpu-0", "gpu-0")
    scene = Scene(NODES, device_class(), half, twice, claim())
    assert scene.filter(using("gpu")) == {
        "a": "cannot allocate all claims",
        "b": "invalid resource pools were encountered",
    }
    scene.put(gpus("a", "gpu-1", count=2, name="rest"))
    assert scene.filter(using("gpu"))["a"] == ""


def test_an_older_generation_does_not_come_back() -> None:
    scene = Scene([node("a")], device_class(), claim("gpu", request(count=2)))
    scene.put(gpus("a", "gpu-0", "gpu-1", generation=2, name="new"))
    assert scene.filter(using("gpu")) == {"a": ""}
    # Another slice of the past, or one that goes back in time, changes nothing for the new pool.
    scene.put(gpus("a", "gpu-2", generation=1, name="old"))
    assert scene.filter(using("gpu")) == {"a": ""}
    scene.put(gpus("a", "gpu-0", generation=1, name="new"))
    assert scene.filter(using("gpu")) == {"a": "cannot allocate all claims"}


def test_malformed_selectors_fail_the_attempt_with_their_place() -> None:
    scene = Scene(NODES, *A_GPU_EACH, claim("gpu", request("gpu", "device.driver ==")))
    with pytest.raises(PluginError, match="claim default/gpu: selector #0: CEL compile error"):
        scene.filter(using("gpu"))
    missing = 'device.attributes["gpu.example.com"].model == "A"'
    scene = Scene(NODES, *A_GPU_EACH, claim("gpu", request("gpu", missing)))
    with pytest.raises(PluginError, match="claim default/gpu: selector #0: CEL runtime error"):
        scene.filter(using("gpu"))


def test_a_better_alternative_scores_higher() -> None:
    big = 'device.attributes["gpu.example.com"].size == "big"'
    devices = {
        size: [{"name": "gpu-0", "attributes": {"size": {"string": size}}}]
        for size in ("big", "small")
    }
    details = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    asked = {
        "name": "gpu",
        "firstAvailable": [
            {"name": "big", "selectors": [{"cel": {"expression": big}}], **details},
            {"name": "any", **details},
        ],
    }
    scene = Scene(
        [node("a"), node("b"), node("c")],
        device_class(),
        gpus("a", devices=devices["small"]),
        gpus("b", devices=devices["big"]),
        claim("gpu", asked),
    )
    plugins = [scene.plugin, made("DefaultBinder")]
    decision = decide(scene.cache.table, compile_pod(using("gpu")), profile_of(*plugins))
    assert decision.node == "b"
    assert decision.scores is not None
    scores = {each.node: each.by_plugin["DynamicResources"] for each in decision.scores.top(3)}
    assert scores == {"a": 7 * 100 // 8, "b": 100}


# Pods without claims


def decided(asking: Pod, *before: Plugin) -> Decision:
    cache = in_place([node("small", cpu=1), node("large", cpu=8)])
    plugins = [*before, made("NodeResourcesFit"), made("DynamicResources")]
    return decide(cache.table, compile_pod(asking), profile_of(*plugins, made("DefaultBinder")))


def test_without_claims_it_adds_a_score_of_nothing() -> None:
    decision = decided(pod())
    assert decision.node == "large"
    assert decision.scores is not None
    assert [score.by_plugin["DynamicResources"] for score in decision.scores.top(2)] == [0, 0]
    assert run_scores(made("DynamicResources"), pod(), in_place([node(), node()])) == [0, 0]


def test_without_claims_there_is_nothing_to_give_back() -> None:
    decision = decided(pod(cpu=100))
    assert decision.message == (
        "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate"
    )
    assert decision.unschedulable_plugins == {"NodeResourcesFit"}


class Refusing(Plugin):
    name = "Refusing"

    def pre_filter(self, cycle: object) -> Status:
        return unresolvable("no")


class Nowhere(Plugin):
    name = "Nowhere"

    def pre_filter(self, cycle: object) -> PreFilterResult:
        return PreFilterResult(frozenset())


def test_upstreams_words_when_it_was_never_asked() -> None:
    assert decided(pod(), Refusing()).message == "0/2 nodes are available: no. not found"
    assert decided(pod(), Nowhere()).message == (
        "0/2 nodes are available: node(s) didn't satisfy plugin Nowhere. not found"
    )
