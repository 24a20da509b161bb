"""Why a node's devices do not count for a request, in words; as `stowplan decide` answers."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.judge.answers import answer
from tests.unit.explain.manifests import GPU, WITH_GPUS, Json, a_node, a_pod, device_class, gpus

_H100 = f'device.attributes["{GPU}"].model == "H100"'


def a_claim(**devices: Any) -> Json:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "gpus", "namespace": "shop", "uid": "gpus-claim"},
        "spec": {"devices": devices},
    }


def exactly(**details: Any) -> Json:
    asked = {"deviceClassName": GPU, "allocationMode": "ExactCount", "count": 1, **details}
    return {"name": "gpu", "exactly": asked}


def told(claim: Json, *slices: Json) -> dict[str, list[str]]:
    objects = [a_node("worker-1"), device_class(), *slices, claim]
    said = answer({"objects": objects, "pod": a_pod(**WITH_GPUS)})
    assert "error" not in said
    devices: dict[str, list[str]] = said.get("devices", {})
    return devices


def slice_of(**device: Any) -> Json:
    made = gpus("worker-1", "A100")
    made["spec"]["devices"][0] |= device
    return made


@pytest.mark.parametrize(
    ("request_", "slices", "text"),
    [
        (exactly(), [], "needs 1 device of class gpu.example.com, and the node has none"),
        (exactly(count=2), [slice_of()], "needs 2 devices of class gpu.example.com; 1 is here"),
        (
            exactly(selectors=[{"cel": {"expression": _H100}}]),
            [slice_of()],
            f"needs 1 device of class gpu.example.com; of 1 here, 1 does not match {_H100}",
        ),
        (
            exactly(),
            [slice_of(taints=[{"key": "broken", "effect": "NoSchedule"}])],
            "needs 1 device of class gpu.example.com; of 1 here, 1 has a taint that the request"
            " does not tolerate (broken:NoSchedule)",
        ),
        (
            exactly(tolerations=[{"key": "slow", "operator": "Exists"}]),
            [
                slice_of(
                    taints=[
                        {"key": "slow", "effect": "NoSchedule"},
                        {"key": "team", "value": "a", "effect": "NoExecute"},
                        {"key": "hot", "effect": "None"},
                    ]
                )
            ],
            "needs 1 device of class gpu.example.com; of 1 here, 1 has a taint that the request"
            " does not tolerate (team=a:NoExecute)",
        ),
        (
            exactly(capacity={"requests": {"memory": "80Gi"}}),
            [slice_of(allowMultipleAllocations=True, capacity={"memory": {"value": "40Gi"}})],
            "needs 1 device of class gpu.example.com; of 1 here, 1 has too little capacity left",
        ),
    ],
)
def test_why_devices_do_not_count(request_: Json, slices: list[Json], text: str) -> None:
    said = told(a_claim(requests=[request_]), *slices)
    assert said == {"worker-1": [f"claim gpus, request gpu: {text}"]}


def test_every_alternative_is_told() -> None:
    wanted = {
        "name": "gpu",
        "firstAvailable": [
            {
                "name": name,
                "deviceClassName": GPU,
                "allocationMode": "ExactCount",
                "count": count,
            }
            for name, count in (("four", 4), ("two", 2))
        ],
    }
    assert told(a_claim(requests=[wanted]), slice_of()) == {
        "worker-1": [
            "claim gpus, request gpu/four: needs 4 devices of class gpu.example.com; 1 is here",
            "claim gpus, request gpu/two: needs 2 devices of class gpu.example.com; 1 is here",
        ]
    }


def test_a_pool_that_is_not_complete_is_named() -> None:
    partial = slice_of()
    partial["spec"]["pool"]["resourceSliceCount"] = 2
    (lines,) = told(a_claim(requests=[exactly()]), partial).values()
    pool = "the pool gpu.example.com/worker-1"
    assert lines[-1] == f"{pool} is not published completely, and its devices do not count"


def test_a_pod_whose_devices_are_there_is_told_nothing() -> None:
    assert told(a_claim(requests=[exactly()]), slice_of()) == {}
