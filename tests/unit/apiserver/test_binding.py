"""The binding subresource and the older bindings collection."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.apiserver.serving import NODES, PODS, Api, node, pod

BINDINGS = "/api/v1/namespaces/default/bindings"


async def test_bind_sets_node_and_condition_and_merges_metadata(api: Api) -> None:
    await api.create(NODES, node())
    created = await api.create(PODS, pod(metadata={"labels": {"a": "1", "b": "1"}}))
    answer = await api.bind(
        "a", "n1", uid=created["metadata"]["uid"], labels={"b": "2"}, annotations={"x": "y"}
    )
    assert answer.status == 201
    assert answer.body == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "code": 201,
    }
    bound = await api.get(f"{PODS}/a")
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["metadata"]["labels"] == {"a": "1", "b": "2"}
    assert bound["metadata"]["annotations"] == {"x": "y"}
    (condition,) = bound["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")
    assert condition["lastTransitionTime"]


async def test_bind_through_the_older_collection(api: Api) -> None:
    await api.create(PODS, pod())
    body = {"metadata": {"name": "a"}, "target": {"name": "n1"}}
    answer = await api.request("POST", BINDINGS, body)
    assert answer.status == 201
    assert (await api.get(f"{PODS}/a"))["spec"]["nodeName"] == "n1"


async def test_bind_clears_the_nomination(api: Api) -> None:
    await api.create(PODS, pod())
    await api.patch(f"{PODS}/a/status", {"status": {"nominatedNodeName": "n2"}})
    await api.bind("a", "n1")
    assert "nominatedNodeName" not in (await api.get(f"{PODS}/a"))["status"]


async def test_a_second_bind_is_refused_and_changes_nothing(api: Api) -> None:
    await api.create(PODS, pod())
    await api.bind("a", "n1")
    before = await api.get(f"{PODS}/a")
    answer = await api.bind("a", "n2")
    assert answer.status == 409
    assert answer.reason == "Conflict"
    assert answer.message == (
        'Operation cannot be fulfilled on pods/binding "a": pod a is already assigned to node "n1"'
    )
    assert answer.body["details"] == {"name": "a", "kind": "pods/binding"}
    assert await api.get(f"{PODS}/a") == before


async def test_of_many_binds_at_once_one_wins(api: Api) -> None:
    await api.create(PODS, pod())
    answers = await asyncio.gather(*(api.bind("a", f"n{i}") for i in range(20)))
    assert sorted(answer.status for answer in answers) == [201] + [409] * 19


async def test_a_pod_of_the_same_name_with_another_uid_is_not_bound(api: Api) -> None:
    first = await api.create(PODS, pod())
    await api.request("DELETE", f"{PODS}/a")
    second = await api.create(PODS, pod())
    answer = await api.bind("a", "n1", uid=first["metadata"]["uid"])
    assert answer.status == 409
    assert answer.message.endswith(
        f"Precondition failed: UID in precondition: {first['metadata']['uid']}, UID in object"
        f" meta: {second['metadata']['uid']}"
    )
    assert "nodeName" not in (await api.get(f"{PODS}/a"))["spec"]


async def test_a_gated_pod_is_not_bound(api: Api) -> None:
    await api.create(PODS, pod(schedulingGates=[{"name": "x.y/z"}]))
    answer = await api.bind("a", "n1")
    assert answer.status == 409
    assert answer.message.endswith("pod a has non-empty .spec.schedulingGates")


async def test_a_pod_being_deleted_is_not_bound(api: Api) -> None:
    await api.create(PODS, pod(metadata={"finalizers": ["x.y/z"]}))
    await api.request("DELETE", f"{PODS}/a")
    answer = await api.bind("a", "n1")
    assert answer.status == 409
    assert answer.message.endswith("pod a is being deleted, cannot be assigned to a host")


async def test_binding_a_pod_that_is_not_there(api: Api) -> None:
    answer = await api.bind("a", "n1")
    assert answer.status == 404
    assert answer.message == 'pods "a" not found'


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (
            {"metadata": {"name": "b"}, "target": {"name": "n"}},
            400,
            "name in URL does not match name in Binding object",
        ),
        ({"metadata": {"name": "a"}}, 500, "target.name: Required value"),
        (
            {"metadata": {"name": "a"}, "target": {"kind": "Pod", "name": "n"}},
            500,
            'target.kind: Unsupported value: "Pod": supported values: "Node", "<empty>"',
        ),
    ],
)
async def test_a_binding_that_makes_no_sense(
    api: Api, body: dict[str, object], status: int, message: str
) -> None:
    await api.create(PODS, pod())
    answer = await api.request("POST", f"{PODS}/a/binding", body)
    assert (answer.status, answer.message) == (status, message)


async def test_a_dry_run_binds_nothing(api: Api) -> None:
    await api.create(PODS, pod())
    body = {"metadata": {"name": "a"}, "target": {"name": "n1"}}
    answer = await api.request("POST", f"{PODS}/a/binding?dryRun=All", body)
    assert answer.status == 201
    assert "nodeName" not in (await api.get(f"{PODS}/a"))["spec"]
