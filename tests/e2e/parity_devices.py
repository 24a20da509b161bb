"""Scenarios over device classes and resource slices, and all device objects with random junk."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.e2e.device_bodies import (
    CLAIMS,
    CLASS,
    CLASSES,
    DEVICES,
    OPAQUE,
    SLICE,
    SLICES,
    TEMPLATES,
    capacity,
    cel,
    device,
    device_slice,
    selector,
)
from tests.e2e.parity import Step
from tests.e2e.parity_objects import named
from tests.e2e.parity_pods import TABLE, create, patch
from tests.property.test_apiserver_junk import BODIES, CLAIM_STATUS, paths, with_junk

SCENARIOS: dict[str, list[Step]] = {
    "device classes": [
        create(
            named(
                "{ns}",
                spec={
                    "selectors": [cel("device.driver == 'gpu.example.com'")],
                    "config": [OPAQUE],
                    "extendedResourceName": "example.com/gpu",
                },
            ),
            CLASSES,
        ),
        Step("GET", CLASS, accept=TABLE),
        patch(CLASS, {"spec": {"extendedResourceName": "gpu"}}),
        patch(CLASS, {"spec": {"extendedResourceName": "kubernetes.io/gpu"}}),
        patch(CLASS, {"spec": {"extendedResourceName": "requests.x/gpu"}}),
        patch(CLASS, {"spec": {"extendedResourceName": None}}),
        patch(CLASS, {"metadata": {"labels": {"a": "b"}}}),
        patch(CLASS, {"spec": {"selectors": [cel("device.nothing")]}}),
        patch(CLASS, {"spec": {"config": [{}]}}),
        Step("DELETE", CLASS),
        create(named("A_"), CLASSES),
        create(named("{ns}"), CLASSES),
        Step("DELETE", CLASS),
    ],
    "resource slices": [
        create(
            device_slice(
                device(
                    attributes={
                        "model": {"string": "A100"},
                        "x.y/cores": {"int": 4},
                        "healthy": {"bool": False},
                        "version": {"version": "1.2.3-a+b"},
                    },
                    capacity={"memory": {"value": "81920Mi"}},
                    taints=[{"key": "k", "effect": "NoSchedule"}],
                    bindsToNode=True,
                    bindingConditions=["a"],
                    bindingFailureConditions=["b"],
                )
            ),
            SLICES,
        ),
        Step("GET", SLICE, accept=TABLE),
        Step("GET", f"{SLICES}?fieldSelector=metadata.name%3D{{ns}}%2Cspec.nodeName%3Dn"),
        Step("GET", f"{SLICES}?fieldSelector=metadata.name%3D{{ns}}%2Cspec.driver%3Dx"),
        Step("GET", f"{SLICES}?fieldSelector=spec.pool%3Dx"),
        patch(SLICE, {"spec": {"pool": {"generation": 2}}}),
        patch(SLICE, {"metadata": {"labels": {"a": "b"}}}),
        patch(SLICE, {"spec": {"nodeName": "m"}}),
        patch(SLICE, {"spec": {"driver": "m", "pool": {"name": "q"}}}),
        patch(SLICE, {"spec": {"nodeName": None, "allNodes": True}}),
        Step("DELETE", SLICE),
        create(device_slice(capacity(default="1Gi", validValues=["1Gi", "2Gi"])), SLICES),
        Step("DELETE", SLICE),
        create(
            device_slice(capacity(default="1Gi", validRange={"min": "1Gi", "step": "1Gi"})),
            SLICES,
        ),
        Step("DELETE", SLICE),
        create(
            device_slice(
                device(
                    attributes={"a": {"strings": ["x"], "string": "y"}},
                    nodeAllocatableResourceMappings={"cpu": {"capacityKey": "x"}},
                )
            ),
            SLICES,
        ),
        Step("DELETE", SLICE),
        create(
            device_slice(
                devices=None,
                sharedCounters=[{"name": "s", "counters": {"memory": {"value": "1Gi"}}}],
                nodeSelector=selector("a"),
            ),
            SLICES,
        ),
        Step("DELETE", SLICE),
        create(
            device_slice(
                device(
                    nodeName="n",
                    consumesCounters=[
                        {"counterSet": "s", "counters": {"memory": {"value": "1Gi"}}}
                    ],
                ),
                device("e", allNodes=True),
                perDeviceNodeSelection=True,
            ),
            SLICES,
        ),
        Step("DELETE", SLICE),
    ],
    "resource slices that are refused": [
        create(named("{ns}"), SLICES),
        create(device_slice(driver="", pool={"name": "", "generation": -1}), SLICES),
        create(device_slice(nodeName=""), SLICES),
        create(device_slice(nodeName="-"), SLICES),
        create(device_slice(allNodes=False), SLICES),
        create(device_slice(allNodes=True, nodeName="n"), SLICES),
        create(
            device_slice(nodeSelector={}),
            SLICES,
        ),
        create(device_slice(device(), sharedCounters=[{"name": "s"}]), SLICES),
        create(device_slice(devices=None, sharedCounters=[{"name": ""}]), SLICES),
        create(
            device_slice(
                devices=None, sharedCounters=[{"name": "s", "counters": {"A_": {"value": "1"}}}] * 2
            ),
            SLICES,
        ),
        create(device_slice(device("D")), SLICES),
        create(device_slice(device(), device()), SLICES),
        create(device_slice(*[device(f"d{i}") for i in range(129)]), SLICES),
        create(
            device_slice(
                *[device(f"d{i}", taints=[{"key": "k", "effect": "None"}]) for i in range(65)]
            ),
            SLICES,
        ),
        create(device_slice(device(taints=[{"key": "-", "effect": ""}])), SLICES),
        create(device_slice(device(taints=[{"key": "k", "value": "-", "effect": "X"}])), SLICES),
        create(device_slice(device(taints=[{"key": "k", "effect": "None"}] * 17)), SLICES),
        create(device_slice(device(attributes={"a": {}})), SLICES),
        create(device_slice(device(attributes={"9": {"int": 1}})), SLICES),
        create(device_slice(device(attributes={"a/": {"int": 1}})), SLICES),
        create(device_slice(device(attributes={"/a": {"int": 1}})), SLICES),
        create(device_slice(device(attributes={"a": {"version": "1.2"}})), SLICES),
        create(device_slice(device(attributes={"a": {"string": "x" * 65}})), SLICES),
        create(device_slice(device(attributes={f"a{i}": {"int": i} for i in range(33)})), SLICES),
        create(device_slice(device(nodeName="n")), SLICES),
        create(device_slice(device(), perDeviceNodeSelection=True), SLICES),
        create(
            device_slice(device(nodeName="n", allNodes=True), perDeviceNodeSelection=True), SLICES
        ),
        create(
            device_slice(device(nodeName="", allNodes=False), perDeviceNodeSelection=True), SLICES
        ),
        create(device_slice(device(consumesCounters=[{"counterSet": ""}])), SLICES),
        create(
            device_slice(
                device(
                    consumesCounters=[{"counterSet": "s", "counters": {"a": {"value": "1"}}}] * 2
                )
            ),
            SLICES,
        ),
        create(device_slice(device(capacity={"m": {"value": "1", "requestPolicy": {}}})), SLICES),
        create(device_slice(capacity(validValues=["1Gi"])), SLICES),
        create(device_slice(capacity(validRange={})), SLICES),
        create(device_slice(capacity(default="1", validRange={}, validValues=["1"])), SLICES),
        create(device_slice(capacity(default="1", validValues=["2", "1", "20Gi"])), SLICES),
        create(device_slice(capacity(default="3", validValues=["2", "2", "4"])), SLICES),
        create(device_slice(capacity(default="1", validRange={"max": "2"})), SLICES),
        create(device_slice(capacity(default="1", validRange={"min": "2", "max": "1"})), SLICES),
        create(
            device_slice(
                capacity(default="3Gi", validRange={"min": "1Gi", "max": "6Gi", "step": "4Gi"})
            ),
            SLICES,
        ),
        create(
            device_slice(
                capacity(default="1Gi", validRange={"min": "1Gi", "max": "20Gi", "step": "10Gi"})
            ),
            SLICES,
        ),
        create(device_slice(device(bindingConditions=["a"])), SLICES),
        create(device_slice(device(bindingFailureConditions=["a"])), SLICES),
    ],
}


#: In place of any value of an object.
_JUNK: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    3,
    2**40,
    "",
    "-1",
    "x",
    "X_",
    "1Gi",
    "0.5",
    [],
    {},
    [{}],
    ["a", "a"],
)
_PLURALS = ("resourceclaims", "resourceclaimtemplates", "deviceclasses", "resourceslices")


def _with_any_junk(rng: Random, body: dict[str, Any]) -> dict[str, Any]:
    path, junk = rng.choice(paths(body)), rng.choice(_JUNK)
    if path[-1] == "expression":
        junk = "x"  # syntax errors of CEL are compared elsewhere
    elif "onditions" in str(path[-1]) and junk == []:
        junk = None  # Go tells an empty list from none, and shows it
    return with_junk(body, path, junk)


def _mutated(rng: Random, plural: str) -> Step:
    body = {"metadata": {"name": "a", "labels": {"a": "b"}}, **BODIES[plural]}
    body = _with_any_junk(rng, body)
    places = {"resourceclaims": CLAIMS, "resourceclaimtemplates": TEMPLATES}
    path = places.get(plural, f"{DEVICES}/{plural}")
    # The causes say what the message says; where JSON has the wrong type, Go's text has Go's types.
    return Step("POST", f"{path}?dryRun=All", body, drop=("message",))


def _mutated_status(rng: Random) -> Step:
    whole = _with_any_junk(rng, CLAIM_STATUS)
    body = {"metadata": {"name": "a"}, **BODIES["resourceclaims"], "status": whole}
    return Step("PUT", f"{CLAIMS}/a/status?dryRun=All", body, drop=("message",))


def _random_steps(seed: int, count: int) -> list[Step]:
    rng = Random(seed)
    steps = [create({"metadata": {"name": "a"}, **BODIES["resourceclaims"]}, CLAIMS)]
    steps += [_mutated_status(rng) for _ in range(count)]
    return steps + [_mutated(rng, plural) for plural in _PLURALS for _ in range(count)]


SCENARIOS["random device objects"] = _random_steps(seed=1, count=100)
