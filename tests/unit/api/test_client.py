"""The client's verbs, error mapping and retries, against a server that misbehaves on demand."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from aiohttp import web

from stowplan.api.client import ApiClient, PatchKind
from stowplan.api.objects import Lease, LeaseSpec, ObjectMeta
from stowplan.api.resources import LEASES, NODES, PODS
from stowplan.errors import (
    ApiUnavailable,
    Gone,
)
from stowplan.http.client import ClientConnection
from stowplan.http.parser import ResponseHead
from tests.unit.api.api_kit import (
    STATUS_OK,
    bookmark,
    echo_empty,
    event_line,
    pod,
    pod_list,
    reply,
    scripted_server,
    status_body,
)

# Verbs


async def test_get_decodes_the_object() -> None:
    async def handler(request: web.Request) -> web.Response:
        return reply(pod("a", spec={"nodeName": "n1", "unknown": [1, 2]}))

    async with scripted_server(handler) as server, ApiClient(server.config) as client:
        found = await client.get(PODS, "a", namespace="ns")
    assert found.spec.node_name == "n1"
    assert server.seen[0].path == "/api/v1/namespaces/ns/pods/a"
    assert server.seen[0].headers["User-Agent"] == "stowplan"
    assert server.seen[0].headers["Accept"] == "application/json"


async def test_list_follows_pages_with_its_selectors() -> None:
    pages = {
        "": pod_list(pod("a"), pod("b"), version=7, continue_token="t 1/="),
        "t 1/=": pod_list(pod("c"), version=7),
    }

    async def handler(request: web.Request) -> web.Response:
        return reply(pages[request.query.get("continue", "")])

    async with scripted_server(handler) as server, ApiClient(server.config) as client:
        result = await client.list_all(
            PODS, label_selector="app in (a,b)", field_selector="spec.nodeName=", page_size=2
        )
    assert [item.metadata.name for item in result.items] == ["a", "b", "c"]
    assert result.resource_version == "7"
    for seen in server.seen:
        assert seen.query["labelSelector"] == "app in (a,b)"
        assert seen.query["fieldSelector"] == "spec.nodeName="
        assert seen.query["limit"] == "2"
        assert "resourceVersion" not in seen.query


async def test_the_server_works_on_the_next_page_while_one_is_decoded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    order: list[str] = []
    writes = ClientConnection.ask

    async def noting(self: Any, request: bytes, guard: Any, unpacks: bool) -> ResponseHead:
        order.append("asked")
        return await writes(self, request, guard, unpacks)

    class Noting(ApiClient):
        def decoder(self, resource: Any) -> Any:
            return self.decode

        def decode(self, raw: bytes) -> str:
            order.append("decoded")
            return bytes(raw).decode()

    async def handler(request: web.Request) -> web.Response:
        is_first = "continue" not in request.query
        return reply(pod_list(pod("a"), pod("b"), continue_token="next" if is_first else ""))

    monkeypatch.setattr(ClientConnection, "ask", noting)
    async with scripted_server(handler) as server, Noting(server.config) as client:
        await client.list_all(PODS)
    assert order == ["asked", "asked", *["decoded"] * 4]


async def test_a_list_that_is_given_up_leaves_no_request_behind() -> None:
    hanging = asyncio.Event()

    async def handler(request: web.Request) -> web.Response:
        if "continue" not in request.query:
            return reply(pod_list(pod("a"), continue_token="next"))
        hanging.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with scripted_server(handler) as server, ApiClient(server.config) as client:
        listing = asyncio.create_task(client.list_all(PODS))
        await hanging.wait()
        listing.cancel()
        await asyncio.wait([listing])
        assert listing.cancelled()
        await asyncio.sleep(0)
        assert not [task for task in asyncio.all_tasks() if task.get_name() == "list pods"]


async def test_a_page_that_is_gone_restarts_the_list() -> None:
    async def handler(request: web.Request) -> web.Response:
        if "continue" in request.query:
            return reply(status_body(410, "Expired", "too old"), status=410)
        if "limit" in request.query:
            return reply(pod_list(pod("old"), version=1, continue_token="next"))
        return reply(pod_list(pod("a"), pod("b"), version=9))

    async with scripted_server(handler) as server, ApiClient(server.config) as client:
        result = await client.list_all(PODS, page_size=1)
    assert [item.metadata.name for item in result.items] == ["a", "b"]
    assert result.resource_version == "9"


async def test_a_list_that_never_ends() -> None:
    async def handler(request: web.Request) -> web.Response:
        return reply(pod_list(pod("a"), continue_token="again"))

    async with scripted_server(handler) as server, ApiClient(server.config) as client:
        with pytest.raises(ApiUnavailable, match="the list does not end"):
            await client.list_all(PODS)
    assert len(server.seen) == 2


async def test_items_that_cannot_be_read_are_set_apart() -> None:
    async def handler(request: web.Request) -> web.Response:
        return reply(pod_list(pod("a"), pod("bad", spec=5), "text", None, version=3))

    async with scripted_server(handler) as server, ApiClient(server.config) as client:
        result = await client.list_all(PODS)
    assert [item.metadata.name for item in result.items] == ["a"]
    assert [json.loads(raw) for raw in result.undecodable] == [pod("bad", spec=5), "text", None]


async def test_null_items_are_an_empty_list() -> None:
    async def handler(request: web.Request) -> web.Response:
        return reply({"metadata": {"resourceVersion": "4"}, "items": None})

    async with scripted_server(handler) as server, ApiClient(server.config) as client:
        result = await client.list_all(PODS)
    assert result.items == []
    assert result.resource_version == "4"


async def test_watch_yields_changes_and_ends_with_the_stream() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        stream = web.StreamResponse()
        await stream.prepare(request)
        await stream.write(event_line("ADDED", pod("a", version=5)) + bookmark(6))
        await stream.write(event_line("MODIFIED", pod("bad", spec=7)) + event_line("ODD", pod("x")))
        await stream.write(event_line("DELETED", pod("a", version=8)))
        return stream

    async with scripted_server(handler) as server, ApiClient(server.config) as client:
        events = [
            (event.type.value, event.object.metadata.resource_version)
            async for event in client.watch(
                PODS, namespace="ns", resource_version="4", field_selector="a=b", timeout_s=61.5
            )
        ]
    assert events == [("ADDED", "5"), ("DELETED", "8")]
    assert server.seen[0].query == {
        "watch": "1",
        "resourceVersion": "4",
        "allowWatchBookmarks": "true",
        "fieldSelector": "a=b",
        "timeoutSeconds": "61",
    }


async def test_watch_error_event_is_a_typed_error() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        stream = web.StreamResponse()
        await stream.prepare(request)
        await stream.write(event_line("ADDED", pod("a", version=5)))
        await stream.write(event_line("ERROR", status_body(410, "Expired", "too old")))
        return stream

    async with scripted_server(handler) as server, ApiClient(server.config) as client:
        events = client.watch(PODS, resource_version="1")
        assert (await anext(events)).object.metadata.name == "a"
        with pytest.raises(Gone, match="too old"):
            await anext(events)


async def test_bind_sends_uid_and_takes_a_status_as_success() -> None:
    async def handler(request: web.Request) -> web.Response:
        return reply(STATUS_OK, status=201)

    async with scripted_server(handler) as server, ApiClient(server.config) as client:
        await client.bind("ns", "p", "uid-1", "node-1")
    seen = server.seen[0]
    assert (seen.method, seen.path) == ("POST", "/api/v1/namespaces/ns/pods/p/binding")
    assert seen.headers["Content-Type"] == "application/json"
    assert seen.body == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p", "namespace": "ns", "uid": "uid-1"},
        "target": {"kind": "Node", "name": "node-1"},
    }


async def test_amending_names_the_version_it_means_and_shows_the_result() -> None:
    async def handler(request: web.Request) -> web.Response:
        return reply(pod("a", spec={"nodeName": "n1"}))

    changes: dict[str, dict[str, Any]] = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"x": 1},
    }
    async with scripted_server(handler) as server, ApiClient(server.config) as client:
        found = await client.amend(PODS, "a", changes, namespace="ns", resource_version="7")
    assert found.spec.node_name == "n1"
    (seen,) = server.seen
    assert (seen.method, seen.path) == ("PATCH", "/api/v1/namespaces/ns/pods/a")
    assert seen.headers["Content-Type"] == PatchKind.MERGE.value
    metadata = {"labels": {"a": "b"}, "resourceVersion": "7"}
    assert seen.body == {"metadata": metadata, "spec": {"x": 1}}
    assert "resourceVersion" not in changes["metadata"]


async def test_create_replace_patch_delete() -> None:
    lease = Lease(metadata=ObjectMeta(name="l"), spec=LeaseSpec(holder_identity="me"))
    async with scripted_server(echo_empty) as server, ApiClient(server.config) as client:
        await client.create(LEASES, lease, namespace="ns")
        await client.create(NODES, {"metadata": {"name": "n"}})
        await client.create(PODS, b'{"raw":1}', namespace="ns", name="p", subresource="eviction")
        await client.replace(LEASES, "l", lease, namespace="ns")
        await client.patch(PODS, "p", {"status": {}}, namespace="ns", subresource="status")
        await client.patch(NODES, "n", [{"op": "test"}], kind=PatchKind.JSON)
        await client.patch(NODES, "n", b"{}", kind=PatchKind.APPLY, field_manager="me")
        await client.delete(PODS, "p", namespace="ns", uid="u1", grace_period_s=0)
        await client.delete(NODES, "n")
    expected_lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "l"},
        "spec": {"holderIdentity": "me"},
    }
    leases = "/apis/coordination.k8s.io/v1/namespaces/ns/leases"
    assert [(seen.method, seen.path, seen.body) for seen in server.seen] == [
        ("POST", leases, expected_lease),
        ("POST", "/api/v1/nodes", {"metadata": {"name": "n"}}),
        ("POST", "/api/v1/namespaces/ns/pods/p/eviction", {"raw": 1}),
        ("PUT", f"{leases}/l", expected_lease),
        ("PATCH", "/api/v1/namespaces/ns/pods/p/status", {"status": {}}),
        ("PATCH", "/api/v1/nodes/n", [{"op": "test"}]),
        ("PATCH", "/api/v1/nodes/n", {}),
        (
            "DELETE",
            "/api/v1/namespaces/ns/pods/p",
            {
                "apiVersion": "v1",
                "kind": "DeleteOptions",
                "preconditions": {"uid": "u1"},
                "gracePeriodSeconds": 0,
            },
        ),
        ("DELETE", "/api/v1/nodes/n", {"apiVersion": "v1", "kind": "DeleteOptions"}),
    ]
    patches = [seen for seen in server.seen if seen.method == "PATCH"]
    assert [seen.headers["Content-Type"] for seen in patches] == [
        "application/strategic-merge-patch+json",
        "application/json-patch+json",
        "application/apply-patch+yaml",
    ]
    assert patches[2].query == {"fieldManager": "me", "force": "true"}


async def test_version_and_can_i() -> None:
    async def handler(request: web.Request) -> web.Response:
        if request.path == "/version":
            return reply({"gitVersion": "v1.36.3"})
        body = await request.json()
        verb = body["spec"]["resourceAttributes"]["verb"]
        return reply({"status": {"allowed": verb == "list"}}, status=201)

    async with scripted_server(handler) as server, ApiClient(server.config) as client:
        assert (await client.version())["gitVersion"] == "v1.36.3"
        assert await client.can_i("list", "pods", namespace="ns")
        assert not await client.can_i("create", "pods", subresource="binding")
    assert server.seen[1].body["spec"]["resourceAttributes"] == {
        "verb": "list",
        "resource": "pods",
        "namespace": "ns",
    }


async def test_names_cannot_leave_their_place_in_the_path() -> None:
    async with scripted_server(echo_empty) as server, ApiClient(server.config) as client:
        await client.request("GET", "/api/v1/nodes/a?watch=1#x%2f")
    assert server.seen[0].path == "/api/v1/nodes/a?watch=1#x%2f"
    assert server.seen[0].query == {}
