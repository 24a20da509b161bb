"""What the builders of devices make is what an API server takes."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.apiserver.kinds import KINDS
from stowplan.apiserver.kubelet import KubeletOptions
from stowplan.apiserver.server import ApiServer
from stowplan.testing import (
    as_manifest,
    claim_template,
    device,
    device_class,
    device_request,
    pod,
    resource_claim,
    resource_slice,
)

GPU = "gpu.example.com"
OBJECTS = {
    "class": device_class("gpu", "device.attributes['x'].y == 1", driver=GPU),
    "class of an extended resource": device_class("gpu", extended_resource="example.com/gpu"),
    "slice of a node": resource_slice(GPU, 8, node="n1", attributes={"model": "A100", "ecc": True}),
    "slice of all nodes": resource_slice(GPU, ["a", "b"], capacity={"memory": "80Gi"}),
    "slice of counters": resource_slice(
        GPU, 0, sharedCounters=[{"name": "s", "counters": {"memory": {"value": "80Gi"}}}]
    ),
    "slice of parts": resource_slice(
        GPU,
        [
            device(
                "part",
                attributes={"version": {"version": "1.2.3"}, "cores": 4},
                capacity={"memory": {"value": "10Gi"}},
                consumesCounters=[{"counterSet": "s", "counters": {"memory": {"value": "10Gi"}}}],
                taints=[{"key": "k", "effect": "NoSchedule"}],
            )
        ],
        node="n1",
    ),
    "claim": resource_claim("one", "gpu", "gpu"),
    "claim with alternatives": resource_claim(
        "one",
        device_request(
            name="any",
            first_available=[
                device_request("big", "big"),
                device_request("small", "small", "device.driver == 'x'", count=2),
            ],
        ),
        device_request("gpu", "all", allocationMode="All"),
        constraints=[{"matchAttribute": f"{GPU}/model"}],
    ),
    "template": claim_template("t", "gpu", namespace="default"),
    "pod": as_manifest(pod("p", claims={"a": "one"}, claim_templates={"b": "t"})),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_the_api_server_takes_it(name: str) -> None:
    made = OBJECTS[name]
    kind = next(
        each
        for each in KINDS
        if (each.api_version, each.kind) == (made["apiVersion"], made["kind"])
    )
    server = ApiServer(kubelet=KubeletOptions(enabled=False))
    stored: dict[str, Any] = server.create(
        kind.group, kind.version, kind.plural, made, namespace="default" * kind.namespaced
    )
    for field, value in made["spec"].items():
        assert field in stored["spec"], (field, value)


def test_values_of_attributes() -> None:
    made = device("d", attributes={"a": "x", "b": 1, "c": False, "d": {"version": "1.0.0"}})
    assert made["attributes"] == {
        "a": {"string": "x"},
        "b": {"int": 1},
        "c": {"bool": False},
        "d": {"version": "1.0.0"},
    }


def test_names_of_claims_in_a_pod() -> None:
    built = pod("p", claims={"a": "one"}, claim_templates={"b": "t"})
    assert [
        (each.name, each.resource_claim_name, each.resource_claim_template_name)
        for each in built.spec.resource_claims or ()
    ] == [("a", "one", None), ("b", None, "t")]
