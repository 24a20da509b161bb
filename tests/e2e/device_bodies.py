"""Bodies of claims, claim templates, device classes and resource slices for requests."""

from __future__ import annotations

from typing import Any

from tests.e2e.parity import MERGE, Step
from tests.e2e.parity_objects import named
from tests.e2e.parity_pods import pod

DEVICES = "/apis/resource.k8s.io/v1"
CLAIMS = f"{DEVICES}/namespaces/{{ns}}/resourceclaims"
TEMPLATES = f"{DEVICES}/namespaces/{{ns}}/resourceclaimtemplates"
CLASSES = f"{DEVICES}/deviceclasses"
SLICES = f"{DEVICES}/resourceslices"
SLICE = f"{SLICES}/{{ns}}"
CLASS = f"{CLASSES}/{{ns}}"

DRIVER = "gpu.example.com"
#: kube-apiserver shows the whole internal struct.
IMMUTABLE = ("message", "details.causes")


def exactly(**more: Any) -> dict[str, Any]:
    return {"name": "r", "exactly": {"deviceClassName": "gpu", **more}}


def claim(*requests: dict[str, Any], name: str = "a", **devices: Any) -> dict[str, Any]:
    return named(name, spec={"devices": {"requests": list(requests), **devices}})


def template(*requests: dict[str, Any], name: str = "a", **devices: Any) -> dict[str, Any]:
    return named(name, spec={"spec": {"devices": {"requests": list(requests), **devices}}})


def cel(expression: str) -> dict[str, Any]:
    return {"cel": {"expression": expression}}


def device_slice(*devices: dict[str, Any], **spec: Any) -> dict[str, Any]:
    whole: dict[str, Any] = {
        "driver": DRIVER,
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        "devices": list(devices),
        **spec,
    }
    if not whole.keys() & {"nodeSelector", "allNodes", "perDeviceNodeSelection", "nodeName"}:
        whole["nodeName"] = "n"
    whole = {key: value for key, value in whole.items() if value is not None}
    return named("{ns}", spec=whole)


def device(name: str = "d", **more: Any) -> dict[str, Any]:
    return {"name": name, **more}


def capacity(value: str = "10Gi", **policy: Any) -> dict[str, Any]:
    return device(
        allowMultipleAllocations=True,
        capacity={"memory": {"value": value, "requestPolicy": policy}},
    )


def result(**more: Any) -> dict[str, Any]:
    return {"request": "r", "driver": DRIVER, "pool": "p", "device": "d", **more}


def allocation(*results: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"devices": {"results": list(results), **more}}


def status(body: dict[str, Any], name: str = "a", **rest: Any) -> Step:
    return Step("PATCH", f"{CLAIMS}/{name}/status", {"status": body}, MERGE, **rest)


def selector(*values: str) -> dict[str, Any]:
    terms = [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [value]}]}
        for value in values
    ]
    return {"nodeSelectorTerms": terms}


CONSUMER = {"resource": "pods", "name": "p", "uid": "u"}
DEVICE_STATUS = {"driver": DRIVER, "pool": "p", "device": "d"}
CONDITION = {
    "type": "Ready",
    "status": "True",
    "reason": "R",
    "message": "m",
    "lastTransitionTime": "2025-01-01T00:00:00Z",
}
OPAQUE = {"opaque": {"driver": DRIVER, "parameters": {"kind": "X", "a": [1]}}}
UUID = "11111111-2222-3333-4444-555555555555"
TWO_NODES = selector("a", "b")


def pod_with_claims(*claims: dict[str, Any], uses: list[Any] | None = None) -> dict[str, Any]:
    whole = pod("a")
    whole["spec"]["resourceClaims"] = list(claims)
    if uses is not None:
        whole["spec"]["containers"][0]["resources"] = {"claims": uses}
    return whole
