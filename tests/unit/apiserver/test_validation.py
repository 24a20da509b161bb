"""Invalid objects are refused with causes; the texts are compared with upstream's in e2e."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.apiserver.serving import NODES, PODS, STRATEGIC, Api, node, pod

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


def with_container(**rest: Any) -> dict[str, Any]:
    return pod(containers=[{"name": "c", "image": "x", **rest}])


async def test_an_invalid_name_in_full(api: Api) -> None:
    answer = await api.request("POST", PODS, pod("A_b"))
    text = (
        'Invalid value: "A_b": a lowercase RFC 1123 subdomain must consist of lower case'
        " alphanumeric characters, '-' or '.', and must start and end with an alphanumeric"
        " character (e.g. 'example.com', regex used for validation is"
        " '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
    )
    assert answer.status == 422
    assert answer.body == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f'Pod "A_b" is invalid: metadata.name: {text}',
        "reason": "Invalid",
        "details": {
            "name": "A_b",
            "kind": "Pod",
            "causes": [{"reason": "FieldValueInvalid", "message": text, "field": "metadata.name"}],
        },
        "code": 422,
    }


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({"metadata": {}, "spec": {}}, ["metadata.name", "spec.containers"]),
        (with_container(name=""), ["spec.containers[0].name"]),
        (with_container(image=""), ["spec.containers[0].image"]),
        (
            with_container(ports=[{"containerPort": 0}]),
            ["spec.containers[0].ports[0].containerPort"],
        ),
        (
            with_container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
            ["spec.containers[0].resources.requests"],
        ),
        (
            with_container(resources={"requests": {"memory": "-1"}}),
            ["spec.containers[0].resources.requests[memory]"],
        ),
        (
            with_container(resources={"requests": {"x.y/gpu": "1"}}),
            ["spec.containers[0].resources.limits"],
        ),
        (pod(restartPolicy="Sometimes"), ["spec.restartPolicy"]),
        (pod(nodeSelector={"a b": "c"}), ["spec.nodeSelector"]),
        (pod(tolerations=[{"key": "a", "operator": "In"}]), ["spec.tolerations[0].operator"]),
        (pod(tolerations=[{"key": "a", "effect": "Never"}]), ["spec.tolerations[0].effect"]),
        (pod(schedulingGates=[{"name": "a b"}]), ["spec.schedulingGates[0]"]),
        (pod(schedulingGates=[{"name": "a"}], nodeName="n"), ["spec.nodeName"]),
        (pod(metadata={"labels": {"a": "b c"}}), ["metadata.labels"]),
        (pod(volumes=[{"name": "x"}, {"name": "x"}]), ["spec.volumes[1].name"]),
        (
            pod(
                topologySpreadConstraints=[
                    {"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "Maybe"}
                ]
            ),
            [
                "spec.topologySpreadConstraints[0].maxSkew",
                "spec.topologySpreadConstraints[0].topologyKey",
                "spec.topologySpreadConstraints[0].whenUnsatisfiable",
            ],
        ),
    ],
)
async def test_invalid_pods(api: Api, body: dict[str, Any], fields: list[str]) -> None:
    answer = await api.request("POST", PODS, body)
    assert (answer.status, answer.reason) == (422, "Invalid")
    assert [cause["field"] for cause in answer.body["details"]["causes"]] == fields
    for field in fields:
        assert field in answer.message


@pytest.mark.parametrize(
    ("patch", "field"),
    [
        ({"spec": {"nodeName": "n1"}}, "spec"),
        ({"spec": {"schedulerName": "x"}}, "spec"),
        ({"spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}]}}, "spec"),
        ({"spec": {"containers": [{"name": "d", "image": "x"}]}}, "spec.containers"),
        ({"spec": {"schedulingGates": [{"name": "new"}]}}, "spec.schedulingGates[0].name"),
        (
            {"spec": {"tolerations": [{"key": "k", "operator": "Exists", "$patch": "delete"}]}},
            "spec.tolerations",
        ),
    ],
)
async def test_what_may_not_change_in_a_pod(api: Api, patch: dict[str, Any], field: str) -> None:
    before = await api.create(PODS, pod(tolerations=[{"key": "k", "operator": "Exists"}]))
    if field == "spec.tolerations":
        rest = [t for t in before["spec"]["tolerations"] if t["key"] != "k"]
        patch = {"spec": {"tolerations": [{"$patch": "replace"}, *rest]}}
    answer = await api.request("PATCH", f"{PODS}/a", patch, content_type=STRATEGIC)
    assert answer.status == 422, answer.raw
    assert field in [cause["field"] for cause in answer.body["details"]["causes"]]
    assert await api.get(f"{PODS}/a") == before


@pytest.mark.parametrize(
    "patch",
    [
        {"spec": {"containers": [{"name": "c", "image": "other:2"}]}},
        {"spec": {"activeDeadlineSeconds": 60}},
        {"spec": {"tolerations": [{"key": "new", "operator": "Exists"}]}},
        {"spec": {"schedulingGates": [{"$patch": "delete", "name": "g"}]}},
        {"metadata": {"labels": {"x": "y"}, "annotations": {"a": "b"}}},
    ],
)
async def test_what_may_change_in_a_pod(api: Api, patch: dict[str, Any]) -> None:
    before = await api.create(PODS, pod(schedulingGates=[{"name": "g"}]))
    after = await api.patch(f"{PODS}/a", patch, STRATEGIC)
    assert after != before


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        (NODES, node(spec={"taints": [{"key": "a", "effect": ""}]}), "metadata.taints[0].effect"),
        (NODES, {"metadata": {"name": "N"}}, "metadata.name"),
        (CLASSES, {"metadata": {"name": "c"}, "value": 2_000_000_000}, "value"),
        (CLASSES, {"metadata": {"name": "system-x"}, "value": 1}, "metadata.name"),
        (DEPLOYMENTS, {"metadata": {"name": "d"}}, "spec.selector"),
        ("/api/v1/namespaces", {"metadata": {"name": "a.b"}}, "metadata.name"),
    ],
)
async def test_other_kinds(api: Api, path: str, body: dict[str, Any], field: str) -> None:
    answer = await api.request("POST", path, body)
    assert answer.status == 422
    assert field in [cause["field"] for cause in answer.body["details"]["causes"]]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            {"metadata": {"name": "a"}, "spec": "x"},
            "json: cannot unmarshal string into Go struct field Pod.spec of type v1.PodSpec",
        ),
        (
            {"metadata": {"name": 5}},
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.name of type"
            " string",
        ),
        (
            with_container(ports=[{"containerPort": "80"}]),
            "json: cannot unmarshal string into Go struct field"
            " ContainerPort.spec.containers.ports.containerPort of type int32",
        ),
        (
            pod(priority=2**31),
            "json: cannot unmarshal number 2147483648 into Go struct field PodSpec.spec.priority"
            " of type int32",
        ),
        (
            with_container(resources={"requests": {"cpu": "much"}}),
            "quantities must match the regular expression"
            " '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
    ],
)
async def test_wrong_types(api: Api, body: dict[str, Any], message: str) -> None:
    answer = await api.request("POST", PODS, body)
    assert (answer.status, answer.reason) == (400, "BadRequest")
    assert answer.message == f'Pod in version "v1" cannot be handled as a Pod: {message}'


async def test_unknown_fields(api: Api) -> None:
    body = pod(tolerance=[])
    answer = await api.request("POST", f"{PODS}?fieldValidation=Strict", body)
    assert answer.status == 400
    assert answer.message.endswith('strict decoding error: unknown field "spec.tolerance"')
    answer = await api.request("POST", PODS, body)
    assert answer.status == 201
    assert answer.headers["Warning"] == '299 - "unknown field \\"spec.tolerance\\""'
    assert "tolerance" not in answer.body["spec"]
    answer = await api.request("POST", f"{PODS}?fieldValidation=Ignore", {**body, **pod("b")})
    assert "Warning" not in answer.headers
    assert (await api.request("POST", f"{PODS}?fieldValidation=Maybe", body)).status == 422
