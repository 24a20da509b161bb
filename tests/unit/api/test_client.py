"""The client's verbs, error mapping and retries, against a server that misbehaves on demand."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import time
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web

from stowplan.api.client import ApiClient, Lane, PatchKind
from stowplan.api.kubeconfig import ClusterConfig
from stowplan.api.objects import Lease, LeaseSpec, ObjectMeta
from stowplan.api.resources import LEASES, NODES, PODS
from stowplan.errors import (
    AlreadyExists,
    ApiError,
    ApiUnavailable,
    BadRequest,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    ServerError,
    Throttled,
    Unauthorized,
)
from tests.unit.api.api_kit import (
    bookmark,
    event_line,
    pod,
    pod_list,
    raw_server,
    reply,
    scripted_server,
    status_body,
    until,
)

STATUS_OK = {"kind": "Status", "apiVersion": "v1", "status": "Success"}


async def echo_empty(request: web.Request) -> web.Response:
    return reply(STATUS_OK)


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


# Errors


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (400, "BadRequest", BadRequest),
        (401, "Unauthorized", Unauthorized),
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (409, "Conflict", Conflict),
        (409, "AlreadyExists", AlreadyExists),
        (410, "Expired", Gone),
        (422, "Invalid", Invalid),
        (429, "TooManyRequests", Throttled),
        (500, "InternalError", ServerError),
        (503, "ServiceUnavailable", ServerError),
        (504, "Timeout", ServerError),
        (418, "", ApiError),
        (302, "", ApiError),
    ],
)
async def test_status_codes_become_types(code: int, reason: str, kind: type[ApiError]) -> None:
    async def handler(request: web.Request) -> web.Response:
        return reply(
            status_body(code, reason, "said the server"),
            status=code,
            headers={"Location": "/elsewhere"} if code == 302 else None,
        )

    async with scripted_server(handler) as server, ApiClient(server.config) as client:
        with pytest.raises(ApiError) as caught:
            await client.request("GET", "/x", retry_throttled=False)
    assert type(caught.value) is kind
    assert (caught.value.status, caught.value.reason) == (code, reason)
    assert str(caught.value) == "said the server"
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>\nBad   Gateway</html>",
        b"\xff\xfe\x00",
        b'{"kind":"Status","message":5}',
        b'{"kind":"Pod","message":"secret"',
        b"[" * 100_000,
        b"null",
    ],
)
async def test_answers_that_are_no_status(body: bytes) -> None:
    async def handler(request: web.Request) -> web.Response:
        return reply(body, status=502)

    async with scripted_server(handler) as server, ApiClient(server.config) as client:
        with pytest.raises(ServerError, match=r"^GET /x: HTTP 502") as caught:
            await client.request("GET", "/x")
    assert len(str(caught.value)) < 400
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("body", [b"", b"no json", b'{"metadata":', b"[]", b"[" * 100_000, b"\xff"])
async def test_good_answers_that_make_no_sense(body: bytes) -> None:
    async def handler(request: web.Request) -> web.Response:
        return reply(body)

    async with scripted_server(handler) as server, ApiClient(server.config) as client:
        with pytest.raises(ApiUnavailable, match="GET /api/v1/nodes/n: the answer is not a Node"):
            await client.get(NODES, "n")
        with pytest.raises(ApiUnavailable, match="GET /api/v1/pods: the answer is not a list"):
            await client.list_all(PODS)
        with pytest.raises(ApiUnavailable, match="the answer is not a version"):
            await client.version()
        with pytest.raises(ApiUnavailable, match="the answer is not a review"):
            await client.can_i("get", "pods")


async def test_refused_connections_were_not_done() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
    async with ApiClient(ClusterConfig(server=url)) as client:
        with pytest.raises(ApiUnavailable, match="cannot connect: Connection refused") as caught:
            await client.bind("ns", "p", "u", "n")
    assert not caught.value.maybe_done
    assert str(caught.value).startswith(f"API server {url}: POST /api/v1/namespaces/ns/pods/p/")


async def test_unknown_hosts_were_not_done() -> None:
    async with ApiClient(ClusterConfig(server="http://no-such-host.invalid")) as client:
        with pytest.raises(ApiUnavailable, match="cannot connect") as caught:
            await client.request("POST", "/x", body=b"{}")
    assert not caught.value.maybe_done


async def test_a_timeout_may_have_been_done() -> None:
    release = asyncio.Event()

    async def handler(request: web.Request) -> web.Response:
        await release.wait()
        return reply(STATUS_OK)

    async with scripted_server(handler) as server, ApiClient(server.config) as client:
        with pytest.raises(ApiUnavailable, match="no answer in time") as caught:
            await client.bind("ns", "p", "u", "n", timeout_s=0.1)
        release.set()
    assert caught.value.maybe_done
    assert len(server.seen) == 1


@pytest.mark.parametrize("outer_s", [0.019, 0.02, 0.021])
async def test_a_timeout_does_not_swallow_the_callers_own(outer_s: float) -> None:
    """Both due at the same moment, because the loop was busy: the caller's must still come."""
    release = asyncio.Event()

    async def handler(request: web.Request) -> web.Response:
        await release.wait()
        return reply(STATUS_OK)

    async with scripted_server(handler) as server, ApiClient(server.config) as client:

        async def ask() -> None:
            async with asyncio.timeout(outer_s):
                try:
                    await client.request("GET", "/x", timeout_s=0.02)
                except ApiUnavailable:
                    pass
                await asyncio.sleep(20)

        asking = asyncio.create_task(ask())
        await until(lambda: len(server.seen) == 1)
        time.sleep(0.05)  # noqa: ASYNC251 - so that the loop is late for both
        await asyncio.wait({asking}, timeout=5)
        release.set()
        assert asking.done()
        assert isinstance(asking.exception(), TimeoutError)


async def test_a_reset_after_sending_may_have_been_done() -> None:
    requests = 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal requests
        await reader.readuntil(b"\r\n\r\n")
        requests += 1
        linger = struct.pack("ii", 1, 0)  # close sends RST
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)

    async with raw_server(talk) as url, ApiClient(ClusterConfig(server=url)) as client:
        with pytest.raises(ApiUnavailable) as caught:
            await client.bind("ns", "p", "u", "n")
    assert caught.value.maybe_done
    assert requests == 1, "a bind is never repeated behind the caller's back"


@pytest.mark.parametrize(
    "answer",
    [
        b"junk\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\njunk",
        b"HTTP/1.1 200 OK\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
    ],
)
async def test_answers_that_are_no_http(answer: bytes) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()

    async with raw_server(talk) as url, ApiClient(ClusterConfig(server=url)) as client:
        with pytest.raises(ApiUnavailable) as caught:
            await client.request("POST", "/x", body=b"{}")
    assert caught.value.maybe_done
    assert "\n" not in str(caught.value)


async def test_a_closed_client_says_so() -> None:
    async with scripted_server(echo_empty) as server:
        client = ApiClient(server.config)
        await client.request("GET", "/x")
        await client.close()
        with pytest.raises(ApiUnavailable, match="client is closed") as caught:
            await client.request("GET", "/x")
    assert not caught.value.maybe_done


# 429


async def test_throttled_requests_wait_as_told_and_are_repeated() -> None:
    times: list[float] = []

    async def handler(request: web.Request) -> web.Response:
        times.append(asyncio.get_running_loop().time())
        if len(times) == 1:
            return reply(status_body(429), status=429, headers={"Retry-After": "1"})
        if len(times) == 2:
            return reply(status_body(429), status=429, headers={"Retry-After": "0"})
        return reply(STATUS_OK)

    async with scripted_server(handler) as server, ApiClient(server.config) as client:
        await client.bind("ns", "p", "u", "n")
    assert len(server.seen) == 3
    assert server.seen[0].body == server.seen[2].body
    assert times[1] - times[0] >= 0.99


async def test_throttling_is_not_waited_out_for_ever() -> None:
    async def handler(request: web.Request) -> web.Response:
        return reply(status_body(429, "TooManyRequests"), status=429, headers={"Retry-After": "0"})

    async with scripted_server(handler) as server, ApiClient(server.config) as client:
        with pytest.raises(Throttled):
            await client.request("GET", "/x")
    assert len(server.seen) == 11


@pytest.mark.parametrize(
    ("headers", "details", "expected"),
    [
        ({"Retry-After": "7"}, {}, 7.0),
        ({}, {"details": {"retryAfterSeconds": 3}}, 3.0),
        ({"Retry-After": "soon"}, {}, 1.0),
        ({"Retry-After": "²"}, {}, 1.0),
        ({}, {}, 1.0),
    ],
)
async def test_retry_after_is_told(
    headers: dict[str, str], details: dict[str, Any], expected: float
) -> None:
    async def handler(request: web.Request) -> web.Response:
        return reply({**status_body(429), **details}, status=429, headers=headers)

    async with scripted_server(handler) as server, ApiClient(server.config) as client:
        with pytest.raises(Throttled) as caught:
            await client.request("GET", "/x", retry_throttled=False)
    assert caught.value.retry_after_s == expected


# Lanes, limits, headers


async def test_a_blocked_lane_does_not_block_another() -> None:
    release = asyncio.Event()

    async def handler(request: web.Request) -> web.Response:
        if request.path == "/slow":
            await release.wait()
        return reply(STATUS_OK)

    async with (
        scripted_server(handler) as server,
        ApiClient(server.config, bind_concurrency=2) as client,
    ):
        slow = [
            asyncio.create_task(client.request("POST", "/slow", body=b"{}", lane=Lane.EVENTS))
            for _ in range(60)
        ]
        for lane in Lane:
            if lane is not Lane.EVENTS:
                await client.request("GET", "/quick", lane=lane, timeout_s=5)
        release.set()
        await asyncio.gather(*slow)


async def test_binds_in_flight_are_bounded() -> None:
    now, most = 0, 0

    async def handler(request: web.Request) -> web.Response:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.005)
        now -= 1
        return reply(STATUS_OK)

    async with (
        scripted_server(handler) as server,
        ApiClient(server.config, bind_concurrency=4) as client,
    ):
        await asyncio.gather(*(client.bind("ns", f"p{i}", "u", "n") for i in range(40)))
    assert most == 4
    assert len(server.seen) == 40


async def test_waiting_for_a_turn_is_not_a_timeout() -> None:
    async def handler(request: web.Request) -> web.Response:
        await asyncio.sleep(0.1)
        return reply(STATUS_OK)

    async with (
        scripted_server(handler) as server,
        ApiClient(server.config, bind_concurrency=1) as client,
    ):
        binds = [client.bind("ns", f"p{i}", "u", "n", timeout_s=0.4) for i in range(8)]
        await asyncio.gather(*binds)
    assert len(server.seen) == 8


async def test_the_rate_is_limited_for_each_lane_by_itself() -> None:
    async with (
        scripted_server(echo_empty) as server,
        ApiClient(server.config, qps=20, burst=5) as client,
    ):
        loop = asyncio.get_running_loop()
        started = loop.time()
        await asyncio.gather(*(client.bind("ns", f"p{i}", "u", "n") for i in range(9)))
        assert loop.time() - started >= 0.19, "four more than the burst, at 20 a second"


async def test_basic_auth_impersonation_and_compression_headers() -> None:
    async with scripted_server(echo_empty) as server:
        config = replace(
            server.config,
            username="jane",
            password="pw",
            impersonate=(("Impersonate-User", "joe"), ("Impersonate-Group", "g")),
        )
        async with ApiClient(config, user_agent="agent/1") as client:
            await client.request("GET", "/x")
    headers = server.seen[0].headers
    assert headers["Authorization"] == "Basic amFuZTpwdw=="
    assert headers["Impersonate-User"] == "joe"
    assert headers["User-Agent"] == "agent/1"
    assert headers["Accept-Encoding"] == "identity"


async def test_headers_that_cannot_be_sent_are_an_error_of_ours() -> None:
    async with scripted_server(echo_empty) as server:
        config = replace(server.config, token="two\nlines")
        async with ApiClient(config) as client:
            with pytest.raises(ApiUnavailable) as caught:
                await client.request("GET", "/x")
    assert not caught.value.maybe_done
    assert "two" not in str(caught.value)
