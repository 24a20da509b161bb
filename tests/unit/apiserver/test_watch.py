"""Watch streams: where they start, what they show, how they end."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.apiserver.serving import NODES, PODS, Api, node, pod, serving

INITIAL = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan"


@pytest.mark.parametrize("query", ["", "resourceVersion=", "resourceVersion=0"])
async def test_without_a_version_the_state_comes_first(api: Api, query: str) -> None:
    await api.create(PODS, pod("a"))
    await api.create(PODS, pod("b"))
    async with api.watch(PODS, query) as watch:
        assert await watch.take(2) == [("ADDED", "a"), ("ADDED", "b")]
        await api.create(PODS, pod("c"))
        assert await watch.take(1) == [("ADDED", "c")]


async def test_from_a_version_only_what_came_after(api: Api) -> None:
    await api.create(PODS, pod("a"))
    version = (await api.get(PODS))["metadata"]["resourceVersion"]
    await api.bind("a", "n1")
    await api.create(PODS, pod("b"))
    await api.request("DELETE", f"{PODS}/b")
    async with api.watch(PODS, f"resourceVersion={version}") as watch:
        assert await watch.take(4) == [
            ("MODIFIED", "a"),
            ("ADDED", "b"),
            ("MODIFIED", "b"),
            ("DELETED", "b"),
        ]


async def test_events_carry_rising_versions_and_whole_objects(api: Api) -> None:
    async with api.watch(PODS) as watch:
        created = await api.create(PODS, pod("a"))
        added = await watch.next()
        assert added is not None
        assert added["object"] == created
        await api.request("DELETE", f"{PODS}/a")
        versions = [int(created["metadata"]["resourceVersion"])]
        for _ in range(2):
            event = await watch.next()
            assert event is not None
            versions.append(int(event["object"]["metadata"]["resourceVersion"]))
        assert versions == sorted(set(versions))


async def test_a_namespaced_watch_sees_its_namespace_only(api: Api) -> None:
    async with api.watch("/api/v1/namespaces/kube-system/pods") as watch:
        await api.create(PODS, pod("a"))
        await api.create("/api/v1/namespaces/kube-system/pods", pod("b"))
        assert await watch.take(1) == [("ADDED", "b")]


async def test_an_object_that_leaves_or_enters_the_selector(api: Api) -> None:
    created = await api.create(PODS, pod("a"))
    version = created["metadata"]["resourceVersion"]
    selector = f"resourceVersion={version}&fieldSelector=spec.nodeName="
    async with (
        api.watch(PODS, selector) as unbound,
        api.watch(PODS, selector + "n1") as on_node,
        api.watch(PODS, f"resourceVersion={version}&labelSelector=x=y") as labelled,
    ):
        await api.patch(f"{PODS}/a", {"metadata": {"labels": {"x": "y"}}})
        await api.bind("a", "n1")
        assert await unbound.take(1) == [("MODIFIED", "a")]
        left = await unbound.next()
        assert left is not None
        assert left["type"] == "DELETED"
        # The state before it left, at the version at which it did.
        assert "nodeName" not in left["object"]["spec"]
        bound = await api.get(f"{PODS}/a")
        assert left["object"]["metadata"]["resourceVersion"] == bound["metadata"]["resourceVersion"]
        entered = await on_node.next()
        assert entered == {"type": "ADDED", "object": bound}
        assert await labelled.take(2) == [("ADDED", "a"), ("MODIFIED", "a")]


async def test_a_version_that_history_forgot_is_expired(api: Api) -> None:
    created = await api.create(PODS, pod("a"))
    await api.create(PODS, pod("b"))
    version = int(created["metadata"]["resourceVersion"])
    api.server.compact()
    async with api.watch(PODS, f"resourceVersion={version}") as watch:
        event = await watch.next()
        assert event == {
            "type": "ERROR",
            "object": {
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Failure",
                "message": f"too old resource version: {version} ({version + 1})",
                "reason": "Expired",
                "code": 410,
            },
        }
        assert await watch.next() is None


async def test_a_short_history_forgets_by_itself() -> None:
    async with serving(history_size=3) as api:
        first = await api.create(PODS, pod("p0"))
        for number in range(1, 5):
            await api.create(PODS, pod(f"p{number}"))
        version = int(first["metadata"]["resourceVersion"])
        async with api.watch(PODS, f"resourceVersion={version + 1}") as watch:
            assert await watch.take(3) == [("ADDED", "p2"), ("ADDED", "p3"), ("ADDED", "p4")]
        async with api.watch(PODS, f"resourceVersion={version}") as watch:
            event = await watch.next()
            assert event is not None
            assert event["object"]["code"] == 410


async def test_other_kinds_do_not_age_a_watch(api: Api) -> None:
    version = (await api.get(PODS))["metadata"]["resourceVersion"]
    for number in range(5):
        await api.create(NODES, node(f"n{number}"))
    async with api.watch(PODS, f"resourceVersion={version}") as watch:
        await api.create(PODS, pod("a"))
        assert await watch.take(1) == [("ADDED", "a")]


async def test_bookmarks_tell_how_far_the_watch_is() -> None:
    async with (
        serving(bookmark_interval_s=0.05) as api,
        api.watch(PODS, "allowWatchBookmarks=true") as watch,
    ):
        await api.create(NODES, node())
        newest = (await api.get(NODES))["metadata"]["resourceVersion"]
        bookmark = ""
        while bookmark != newest:
            event = await watch.next()
            assert event is not None
            assert event["type"] == "BOOKMARK"
            assert event["object"]["kind"] == "Pod"
            assert "name" not in event["object"]["metadata"]
            bookmark = event["object"]["metadata"]["resourceVersion"]


async def test_no_bookmarks_for_who_did_not_ask() -> None:
    async with (
        serving(bookmark_interval_s=0.01) as api,
        api.watch(PODS, "timeoutSeconds=1") as watch,
    ):
        await asyncio.sleep(0.1)
        await api.create(PODS, pod("a"))
        assert await watch.rest() == [("ADDED", "a")]


async def test_initial_events_end_with_their_bookmark(api: Api) -> None:
    await api.create(PODS, pod("a"))
    async with api.watch(PODS, f"{INITIAL}&allowWatchBookmarks=true") as watch:
        assert await watch.take(1) == [("ADDED", "a")]
        end = await watch.next()
        assert end is not None
        assert end["type"] == "BOOKMARK"
        assert end["object"]["metadata"] == {
            "resourceVersion": (await api.get(PODS))["metadata"]["resourceVersion"],
            "annotations": {"k8s.io/initial-events-end": "true"},
        }
        await api.create(PODS, pod("b"))
        assert await watch.take(1) == [("ADDED", "b")]


@pytest.mark.parametrize(
    "query",
    ["sendInitialEvents=true", "resourceVersionMatch=NotOlderThan"],
)
async def test_options_that_contradict_each_other(api: Api, query: str) -> None:
    answer = await api.request("GET", f"{PODS}?watch=1&{query}")
    assert answer.status == 422
    assert answer.body["details"]["kind"] == "ListOptions"


async def test_a_watch_ends_after_its_time(api: Api) -> None:
    async with api.watch(PODS, "timeoutSeconds=1") as watch:
        assert await watch.rest() == []


async def test_dropped_watches_end_and_new_ones_work(api: Api) -> None:
    async with api.watch(PODS) as pods, api.watch(NODES) as nodes:
        await api.create(PODS, pod("a"))
        assert await pods.take(1) == [("ADDED", "a")]
        assert api.server.drop_watches() == 2
        assert await pods.rest() == []
        assert await nodes.rest() == []
    async with api.watch(PODS) as watch:
        assert await watch.take(1) == [("ADDED", "a")]


async def test_the_server_forgets_watchers_that_left(api: Api) -> None:
    async with api.watch(PODS) as watch:
        await api.create(PODS, pod("a"))
        await watch.take(1)
    # The server notices when it writes to the closed connection, or when told of the close.
    async with asyncio.timeout(10):
        number = 0
        while api.server.drop_watches():
            number += 1
            await api.create(PODS, pod(f"p{number}"))
            await asyncio.sleep(0.01)


async def test_a_watch_as_metadata_and_as_table(api: Api) -> None:
    await api.create(PODS, pod("a"))
    accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    async with api.watch(PODS, accept=accept) as watch:
        event = await watch.next()
        assert event is not None
        assert event["object"]["kind"] == "PartialObjectMetadata"
        assert "spec" not in event["object"]
    accept = "application/json;as=Table;g=meta.k8s.io;v=v1"
    async with api.watch(PODS, accept=accept) as watch:
        await api.create(PODS, pod("b"))
        first, second = await watch.next(), await watch.next()
        assert first is not None
        assert second is not None
        assert first["object"]["columnDefinitions"]
        assert second["object"]["columnDefinitions"] is None
        assert second["object"]["rows"][0]["cells"][0] == "b"


async def test_the_older_watch_path(api: Api) -> None:
    await api.create(PODS, pod("a"))
    async with api.session.get("/api/v1/watch/namespaces/default/pods") as response:
        line = await response.content.readline()
    assert b'"ADDED"' in line


async def test_events_of_both_groups_are_one_stream(api: Api) -> None:
    core, new = "/api/v1/namespaces/default/events", "/apis/events.k8s.io/v1/events"
    body = {
        "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "a"},
        "message": "hello",
    }
    async with api.watch(new) as watch:
        await api.create(core, body)
        event = await watch.next()
        assert event is not None
        assert event["object"]["apiVersion"] == "events.k8s.io/v1"
        assert event["object"]["note"] == "hello"
        assert event["object"]["regarding"]["name"] == "a"
