"""Claims, templates, classes and slices; every text is compared with upstream's in e2e."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.apiserver.serving import MERGE, PODS, Api, pod

DEVICES = "/apis/resource.k8s.io/v1"
CLAIMS = f"{DEVICES}/namespaces/default/resourceclaims"
TEMPLATES = f"{DEVICES}/namespaces/default/resourceclaimtemplates"
SLICES = f"{DEVICES}/resourceslices"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
RESULT = {"request": "r", "driver": "gpu.example.com", "pool": "p", "device": "d"}


def claim(**exactly: Any) -> dict[str, Any]:
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", **exactly}}
    return {"metadata": {"name": "a"}, "spec": {"devices": {"requests": [request]}}}


def device_slice(**device: Any) -> dict[str, Any]:
    spec = {
        "driver": "gpu.example.com",
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        "nodeName": "n",
        "devices": [{"name": "d", **device}],
    }
    return {"metadata": {"name": "s"}, "spec": spec}


async def test_discovery_lists_the_kinds(api: Api) -> None:
    answer = await api.request("GET", DEVICES)
    names = [each["name"] for each in answer.body["resources"]]
    assert names == [
        "deviceclasses",
        "resourceclaims",
        "resourceclaims/status",
        "resourceclaimtemplates",
        "resourceslices",
    ]


async def test_requests_have_defaults_and_the_spec_is_immutable(api: Api) -> None:
    made = await api.request("POST", CLAIMS, {**claim(), "status": {"reservedFor": [{}]}})
    exactly = made.body["spec"]["devices"]["requests"][0]["exactly"]
    assert exactly == {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    assert made.body["status"] == {}
    change: dict[str, Any] = {"spec": {"devices": {"requests": []}}}
    refused = await api.request("PATCH", f"{CLAIMS}/a", change, content_type=MERGE)
    assert refused.status == 422
    assert "field is immutable" in refused.message


@pytest.mark.parametrize(
    ("exactly", "cause"),
    [
        (
            {"selectors": [{"cel": {"expression": "device.nothing"}}]},
            "compilation failed: ERROR: <input>:1:7: undefined field 'nothing'",
        ),
        (
            {"selectors": [{"cel": {"expression": "lists.range(999990).size() > 1"}}]},
            "selectors[0].cel.expression: Forbidden: too complex, exceeds cost limit",
        ),
        ({"count": -1}, "exactly.count: Invalid value: -1: must be greater than zero"),
        ({"adminAccess": True}, "admin access to devices requires the `resource.kubernetes.io"),
    ],
)
async def test_a_claim_that_is_refused(api: Api, exactly: Any, cause: str) -> None:
    answer = await api.request("POST", CLAIMS, claim(**exactly))
    assert (answer.status, answer.reason) == (422, "Invalid")
    assert cause in answer.message


async def test_admin_access_in_a_namespace_for_it(api: Api) -> None:
    label = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
    await api.request("PATCH", "/api/v1/namespaces/default", label, content_type=MERGE)
    answer = await api.request("POST", CLAIMS, claim(adminAccess=True))
    assert answer.status == 201


async def test_a_claim_is_allocated_through_its_status_alone(api: Api) -> None:
    await api.request("POST", CLAIMS, claim())
    consumer = {"resource": "pods", "name": "p", "uid": "u"}
    status = {"allocation": {"devices": {"results": [RESULT]}}, "reservedFor": [consumer]}
    early = await api.request(
        "PATCH", f"{CLAIMS}/a/status", {"status": {"reservedFor": [consumer]}}, content_type=MERGE
    )
    assert "may not be specified when `allocated` is not set" in early.message
    ignored = await api.request("PATCH", f"{CLAIMS}/a", {"status": status}, content_type=MERGE)
    assert ignored.body["status"] == {}
    done = await api.request("PATCH", f"{CLAIMS}/a/status", {"status": status}, content_type=MERGE)
    assert done.body["status"]["allocation"]["devices"]["results"] == [RESULT]
    table = await api.request("GET", CLAIMS, accept=TABLE)
    assert table.body["rows"][0]["cells"][:2] == ["a", "allocated,reserved"]
    other = {"status": {"allocation": {"devices": {"results": [{**RESULT, "device": "e"}]}}}}
    moved = await api.request("PATCH", f"{CLAIMS}/a/status", other, content_type=MERGE)
    assert "status.allocation" in moved.message
    assert "field is immutable" in moved.message


async def test_reports_of_drivers_go_with_the_allocation(api: Api) -> None:
    await api.request("POST", CLAIMS, claim())
    device = {"driver": "gpu.example.com", "pool": "p", "device": "d"}
    status = {"allocation": {"devices": {"results": [RESULT]}}, "devices": [device]}
    await api.request("PATCH", f"{CLAIMS}/a/status", {"status": status}, content_type=MERGE)
    freed = await api.request(
        "PATCH", f"{CLAIMS}/a/status", {"status": {"allocation": None}}, content_type=MERGE
    )
    assert freed.body["status"] == {}


async def test_a_slice_counts_its_generations_and_dates_its_taints(api: Api) -> None:
    taint = {"key": "k", "effect": "NoSchedule"}
    made = await api.request("POST", SLICES, device_slice(taints=[taint]))
    assert made.body["metadata"]["generation"] == 1
    assert made.body["spec"]["devices"][0]["taints"][0].keys() == {"key", "effect", "timeAdded"}
    change = {"spec": {"pool": {"generation": 2}}}
    changed = await api.request("PATCH", f"{SLICES}/s", change, content_type=MERGE)
    assert changed.body["metadata"]["generation"] == 2
    chosen = await api.request("GET", f"{SLICES}?fieldSelector=spec.nodeName%3Dother")
    assert chosen.body["items"] == []


@pytest.mark.parametrize(
    ("device", "cause"),
    [
        ({"attributes": {"a": {}}}, "exactly one value must be specified"),
        ({"nodeName": "n"}, "can only be set if `perDeviceNodeSelection` is set to true"),
        ({"bindingConditions": ["a"]}, "bindingFailureConditions are required to use"),
        ({"consumesCounters": [{"counterSet": "s"}]}, "counters: Required value"),
    ],
)
async def test_a_device_that_is_refused(api: Api, device: Any, cause: str) -> None:
    answer = await api.request("POST", SLICES, device_slice(**device))
    assert answer.status == 422
    assert cause in answer.message


async def test_a_container_names_claims_of_its_pod(api: Api) -> None:
    body = pod(resourceClaims=[{"name": "gpu", "resourceClaimName": "a"}])
    body["spec"]["containers"][0]["resources"] = {"claims": [{"name": "disk"}]}
    answer = await api.request("POST", PODS, body)
    assert (
        'resources.claims[0]: Not found: "disk": must be one of the names in'
        " pod.spec.resourceClaims: gpu" in answer.message
    )


RULES = "/apis/resource.k8s.io/v1beta2/devicetaintrules"


def rule(**taint: Any) -> dict[str, Any]:
    return {"metadata": {"name": "broken"}, "spec": {"taint": taint}}


async def test_a_rule_has_a_time_a_generation_and_a_status_of_its_own(api: Api) -> None:
    made = await api.request("POST", RULES, rule(key="broken", effect="NoSchedule"))
    assert made.status == 201
    first = made.body["spec"]["taint"]["timeAdded"]
    assert (first[-1], made.body["metadata"]["generation"]) == ("Z", 1)
    same = {"spec": {"taint": {"effect": "NoSchedule"}}}
    kept = await api.request("PATCH", f"{RULES}/broken", same, content_type=MERGE)
    assert kept.body["spec"]["taint"]["timeAdded"] == first
    change = {"spec": {"taint": {"effect": "None", "timeAdded": "2020-01-01T00:00:00Z"}}}
    timed = await api.request("PATCH", f"{RULES}/broken", change, content_type=MERGE)
    assert timed.body["spec"]["taint"]["timeAdded"] == "2020-01-01T00:00:00Z"
    change = {"spec": {"taint": {"effect": "NoExecute"}}}
    renewed = await api.request("PATCH", f"{RULES}/broken", change, content_type=MERGE)
    assert renewed.body["spec"]["taint"]["timeAdded"] >= first
    assert renewed.body["metadata"]["generation"] == 3
    table = await api.request("GET", RULES, accept=TABLE)
    assert table.body["rows"][0]["cells"][:4] == ["broken", "broken", "", "NoExecute"]


@pytest.mark.parametrize(
    ("taint", "cause"),
    [
        ({"effect": "None"}, "spec.taint.key: Invalid value"),
        ({"key": "a"}, "spec.taint.effect: Required value"),
        ({"key": "a", "effect": "Never"}, 'spec.taint.effect: Unsupported value: "Never"'),
    ],
)
async def test_a_rule_that_is_refused(api: Api, taint: Any, cause: str) -> None:
    answer = await api.request("POST", RULES, rule(**taint))
    assert answer.status == 422
    assert cause in answer.message
