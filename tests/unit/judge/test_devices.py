"""Pods that ask for devices: claims from templates, extended resources, what nodes would give."""

from __future__ import annotations

from typing import Any, TypeAlias

from stowplan.api.device_objects import ResourceClaim
from stowplan.judge import Judge, Stream, answer
from stowplan.plugins.dra.facts import DeviceFacts
from stowplan.testing import (
    as_manifest,
    claim_template,
    device_class,
    device_request,
    node,
    pod,
    resource_claim,
    resource_slice,
)
from tests.unit.judge.live_engine import ask, live_engine

Json: TypeAlias = dict[str, Any]

DRIVER = "gpu.example.com"
CLUSTER = [
    as_manifest(node("a")),
    as_manifest(node("b")),
    device_class("gpu", driver=DRIVER, extended_resource="example.com/gpu"),
    resource_slice(DRIVER, 1, node="b"),
]
TEMPLATE = claim_template("one", "gpu")
ASKING = as_manifest(pod("job", claim_templates={"gpu": "one"}))
DEVICE = {"driver": DRIVER, "pool": "b", "device": "device-0"}
LACKING = "claim job-gpu, request devices: needs 1 device of class gpu, and the node has none"


def facts(said: Json) -> tuple[Any, ...]:
    return said.get("best"), said.get("devices"), said.get("allocations")


def test_a_template_is_answered_as_the_claim_that_would_be_made() -> None:
    said = answer({"objects": [*CLUSTER, TEMPLATE], "pod": ASKING})
    given = {"claim": "job-gpu", "request": "devices", **DEVICE}
    assert facts(said) == (["b"], {"a": [LACKING]}, {"b": [given]})


def test_a_claim_of_the_same_name_is_not_taken_for_the_one_that_would_be_made() -> None:
    said = answer(
        {"objects": [*CLUSTER, TEMPLATE, resource_claim("job-gpu", "gpu")], "pod": ASKING}
    )
    assert said["allocations"]["b"][0]["claim"] == "job-gpu-x"


def test_an_unknown_template_is_said() -> None:
    warnings: list[str] = []
    said = Judge(warn=warnings.append).answer({"objects": CLUSTER, "pod": ASKING})
    assert said["prefilter"]["reasons"] == ['pod "default/job": ResourceClaim not created yet']
    assert warnings == [
        "line 1: pod: Pod default/job: spec.resourceClaims: the ResourceClaimTemplate one is not"
        " among the objects"
    ]


def test_an_extended_resource_is_answered_as_its_devices() -> None:
    asking = as_manifest(pod("job", requests={"example.com/gpu": 1}))
    said = answer({"objects": CLUSTER, "pod": asking})
    assert said["best"] == ["b"]
    (given,) = said["allocations"]["b"]
    assert given.items() >= DEVICE.items()


def test_what_was_supposed_for_one_question_is_gone_for_the_next() -> None:
    stream = Stream()
    stream.answer({"apply": [*CLUSTER, TEMPLATE]})
    first = stream.answer({"pod": ASKING})
    again = stream.answer({"pod": ASKING})
    assert facts(first) == facts(again)
    other = as_manifest(pod("other", claims={"gpu": "job-gpu"}))
    reasons = stream.answer({"pod": other})["prefilter"]["reasons"]
    assert reasons == ['could not find ResourceClaim "default/job-gpu"']


def test_a_running_scheduler_answers_the_same_if_the_question_brings_the_template() -> None:
    engine = live_engine(CLUSTER)
    said = ask(engine, {"apply": [TEMPLATE], "pod": ASKING})
    given = answer({"objects": [*CLUSTER, TEMPLATE], "pod": ASKING})
    assert facts(said) == facts(given)
    brief = ask(engine, {"apply": [TEMPLATE], "pod": ASKING}, brief=True)
    assert facts(brief) == facts(given)
    unknown = ask(engine, {"pod": ASKING})
    assert unknown["prefilter"]["reasons"] == ['pod "default/job": ResourceClaim not created yet']
    assert unknown["warnings"] == [
        "pod: spec.resourceClaims: the ResourceClaimTemplate one is not known here, so the pod"
        " waits for its claim. Fix: send the template in apply"
    ]


def test_a_question_takes_no_device_from_the_running_scheduler() -> None:
    wanted = device_request("gpu", allocationMode="ExactCount")
    engine = live_engine([*CLUSTER, resource_claim("mine", wanted)])
    known: DeviceFacts = engine.cache.catalog.shared(DeviceFacts)
    before = known.version
    said = ask(engine, {"pod": as_manifest(pod("job", claims={"gpu": "mine"}))})
    assert said["allocations"]["b"][0]["device"] == "device-0"
    claim = known.claim("mine", "default")
    assert isinstance(claim, ResourceClaim)
    assert (claim.status.allocation, known.in_flight, known.version) == (None, {}, before)


def test_a_device_taint_rule_among_the_objects_is_obeyed() -> None:
    rule = {
        "apiVersion": "resource.k8s.io/v1beta2",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "broken"},
        "spec": {"taint": {"key": "example.com/broken", "effect": "NoSchedule"}},
    }
    assert answer({"objects": [*CLUSTER, TEMPLATE], "pod": ASKING})["best"] == ["b"]
    said = answer({"objects": [*CLUSTER, TEMPLATE, rule], "pod": ASKING})
    assert "best" not in said
    taint = "1 has a taint that the request does not tolerate (example.com/broken:NoSchedule)"
    assert taint in said["devices"]["b"][0]
