"""Lists: selectors, paging at one version, resourceVersion semantics, other forms."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.apiserver.serving import NODES, PODS, Api, node, pod


def names(answer: Any) -> list[str]:
    return [item["metadata"]["name"] for item in answer["items"]]


async def populate(api: Api) -> None:
    await api.create(PODS, pod("a", {"labels": {"app": "web", "tier": "1"}}))
    await api.create(PODS, pod("b", {"labels": {"app": "web", "tier": "2"}}, nodeName="n1"))
    await api.create(PODS, pod("c", {"labels": {"app": "db"}}, schedulerName="other"))
    await api.create(PODS, pod("d", hostNetwork=True, restartPolicy="Never"))
    await api.create("/api/v1/namespaces/kube-system/pods", pod("a"))


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("app=web", "ab"),
        ("app==web,tier=2", "b"),
        ("app!=web", "cd"),
        ("app", "abc"),
        ("!app", "d"),
        ("app in (web, db),tier notin (2)", "ac"),
        ("tier>1", "b"),
        ("tier<2", "a"),
        ("", "abcd"),
    ],
)
async def test_label_selectors(api: Api, selector: str, expected: str) -> None:
    await populate(api)
    async with api.session.get(PODS, params={"labelSelector": selector}) as response:
        assert "".join(names(await response.json())) == expected


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("metadata.name=a", "a"),
        ("metadata.name!=a", "bcd"),
        ("metadata.namespace=default,spec.nodeName=", "acd"),
        ("spec.nodeName=n1", "b"),
        ("spec.schedulerName!=default-scheduler", "c"),
        ("spec.restartPolicy=Never", "d"),
        ("spec.hostNetwork=true", "d"),
        ("spec.hostNetwork=false", "abc"),
        ("status.phase=Pending", "abcd"),
        ("status.phase=Running", ""),
    ],
)
async def test_field_selectors_of_pods(api: Api, selector: str, expected: str) -> None:
    await populate(api)
    async with api.session.get(PODS, params={"fieldSelector": selector}) as response:
        assert "".join(names(await response.json())) == expected


async def test_field_selectors_of_nodes(api: Api) -> None:
    await api.create(NODES, node("n1"))
    await api.create(NODES, node("n2", spec={"unschedulable": True}))
    assert names(await api.get(f"{NODES}?fieldSelector=spec.unschedulable=false")) == ["n1"]
    assert names(await api.get(f"{NODES}?fieldSelector=spec.unschedulable=true")) == ["n2"]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (f"{PODS}?fieldSelector=spec.foo=1", "field label not supported: spec.foo"),
        (f"{NODES}?fieldSelector=metadata.namespace=1", "field label not supported"),
        (
            "/api/v1/configmaps?fieldSelector=data.x=1",
            '"data.x" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
        (f"{PODS}?labelSelector=a%20b", "unable to parse requirement"),
        (f"{PODS}?limit=x", 'strconv.ParseInt: parsing "x": invalid syntax'),
        (f"{PODS}?continue=!!", "continue key is not valid"),
        (f"{PODS}?resourceVersion=x", "invalid resource version"),
    ],
)
async def test_mistakes_are_bad_requests(api: Api, path: str, message: str) -> None:
    answer = await api.request("GET", path)
    assert (answer.status, answer.reason) == (400, "BadRequest")
    assert message in answer.message


async def test_all_namespaces_and_one(api: Api) -> None:
    await populate(api)
    everywhere = await api.get("/api/v1/pods")
    assert [(i["metadata"]["namespace"], i["metadata"]["name"]) for i in everywhere["items"]] == [
        ("default", "a"),
        ("default", "b"),
        ("default", "c"),
        ("default", "d"),
        ("kube-system", "a"),
    ]
    assert names(await api.get("/api/v1/namespaces/nowhere/pods")) == []


async def test_list_shape(api: Api) -> None:
    await api.create(PODS, pod("a"))
    listed = await api.get(PODS)
    assert (listed["kind"], listed["apiVersion"]) == ("PodList", "v1")
    (item,) = listed["items"]
    assert "kind" not in item
    assert {"kind": "Pod", "apiVersion": "v1", **item} == await api.get(f"{PODS}/a")


async def test_pages_show_one_version_whatever_happens_meanwhile(api: Api) -> None:
    for name in "abcdefg":
        await api.create(PODS, pod(name))
    first = await api.get(f"{PODS}?limit=3")
    assert names(first) == ["a", "b", "c"]
    assert first["metadata"]["remainingItemCount"] == 4
    await api.request("DELETE", f"{PODS}/e")
    await api.create(PODS, pod("dd"))
    await api.patch(f"{PODS}/f", {"metadata": {"labels": {"x": "y"}}})
    second = await api.get(f"{PODS}?limit=3&continue={first['metadata']['continue']}")
    assert names(second) == ["d", "e", "f"]
    assert "labels" not in second["items"][2]["metadata"]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert second["metadata"]["remainingItemCount"] == 1
    third = await api.get(f"{PODS}?limit=3&continue={second['metadata']['continue']}")
    assert names(third) == ["g"]
    assert "continue" not in third["metadata"]


async def test_an_expired_continue_token_offers_an_inconsistent_rest(api: Api) -> None:
    for name in "abcd":
        await api.create(PODS, pod(name))
    first = await api.get(f"{PODS}?limit=2")
    await api.create(PODS, pod("e"))
    api.server.compact()
    answer = await api.request("GET", f"{PODS}?limit=2&continue={first['metadata']['continue']}")
    assert (answer.status, answer.reason) == (410, "Expired")
    token = answer.body["metadata"]["continue"]
    rest = await api.get(f"{PODS}?continue={token}")
    assert names(rest) == ["c", "d", "e"]


async def test_paging_with_a_selector(api: Api) -> None:
    await populate(api)
    first = await api.get(f"{PODS}?limit=1&labelSelector=app%3Dweb")
    assert names(first) == ["a"]
    assert "remainingItemCount" not in first["metadata"]
    token = first["metadata"]["continue"]
    second = await api.get(f"{PODS}?limit=1&labelSelector=app%3Dweb&continue={token}")
    assert names(second) == ["b"]
    assert "continue" not in second["metadata"]


async def test_resource_version_semantics(api: Api) -> None:
    first = await api.create(PODS, pod("a"))
    await api.create(PODS, pod("b"))
    version = first["metadata"]["resourceVersion"]
    exact = await api.get(f"{PODS}?resourceVersion={version}&resourceVersionMatch=Exact")
    assert names(exact) == ["a"]
    assert exact["metadata"]["resourceVersion"] == version
    for query in (f"resourceVersion={version}", "resourceVersion=0", ""):
        assert names(await api.get(f"{PODS}?{query}")) == ["a", "b"]
    api.server.compact()
    answer = await api.request(
        "GET", f"{PODS}?resourceVersion={version}&resourceVersionMatch=Exact"
    )
    assert (answer.status, answer.reason) == (410, "Expired")


async def test_a_version_from_the_future_is_a_timeout(api: Api) -> None:
    answer = await api.request("GET", f"{PODS}?resourceVersion=999999")
    assert (answer.status, answer.reason) == (504, "Timeout")
    assert answer.message.startswith("Timeout: Too large resource version: 999999, current: ")
    assert answer.body["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
    assert answer.headers["Retry-After"] == "1"


async def test_partial_metadata(api: Api) -> None:
    created = await api.create(PODS, pod("a"))
    accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    listed = await api.get(PODS, accept=accept)
    assert (listed["kind"], listed["apiVersion"]) == (
        "PartialObjectMetadataList",
        "meta.k8s.io/v1",
    )
    (item,) = listed["items"]
    assert item["metadata"] == created["metadata"]
    assert "spec" not in item
    accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    single = await api.get(f"{PODS}/a", accept=accept)
    assert single == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": created["metadata"],
    }


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("application/vnd.kubernetes.protobuf,application/json", "PodList"),
        ("*/*", "PodList"),
        ("", "PodList"),
        ("application/json;q=0.5, application/json;as=Table;g=meta.k8s.io;v=v1", "Table"),
        ("application/json;as=Table;g=unknown;v=v1,application/json", "PodList"),
    ],
)
async def test_content_negotiation(api: Api, accept: str, kind: str) -> None:
    answer = await api.request("GET", PODS, accept=accept)
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.body["kind"] == kind


async def test_a_client_that_insists_on_protobuf(api: Api) -> None:
    answer = await api.request("GET", PODS, accept="application/vnd.kubernetes.protobuf")
    assert (answer.status, answer.reason) == (406, "NotAcceptable")
