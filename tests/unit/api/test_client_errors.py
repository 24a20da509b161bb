"""What the client makes of refusals, junk, resets and timeouts."""

from __future__ import annotations

import asyncio
import socket
import struct
import time

import pytest
from aiohttp import web

from stowplan.api.client import ApiClient, Lane
from stowplan.api.kubeconfig import ClusterConfig
from stowplan.api.no_answer import unavailable
from stowplan.api.resources import NODES, PODS
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
from stowplan.http.client import NotConnected
from tests.unit.api.api_kit import (
    STATUS_OK,
    echo_empty,
    raw_server,
    reply,
    scripted_server,
    status_body,
    until,
)

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


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "Multiple exceptions: [Errno 111] Connect call failed ('::1', 1, 0, 0), "
            "[Errno 111] Connect call failed ('127.0.0.1', 1)",
            "cannot connect: Connection refused",
        ),
        (
            "Multiple exceptions: [Errno 101] Connect call failed ('::1', 1, 0, 0), "
            "[Errno 111] Connect call failed ('127.0.0.1', 1)",
            "cannot connect: Multiple exceptions: [Errno 101] Connect call failed ('::1', 1, 0, 0)",
        ),
    ],
)
def test_a_name_with_several_addresses(text: str, problem: str) -> None:
    error = NotConnected()
    error.__cause__ = OSError(text)
    said = unavailable("https://api", "GET /x", error)
    assert str(said).startswith(f"API server https://api: GET /x: {problem}")
    assert not said.maybe_done


@pytest.mark.parametrize("lane", [Lane.READ, Lane.BIND])
async def test_unknown_hosts_were_not_done(lane: Lane) -> None:
    async with ApiClient(ClusterConfig(server="http://no-such-host.invalid")) as client:
        with pytest.raises(ApiUnavailable, match="cannot connect") as caught:
            await client.request("POST", "/x", body=b"{}", lane=lane)
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


@pytest.mark.parametrize("outer_s", [0.499, 0.5, 0.501])
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
                    await client.request("GET", "/x", timeout_s=0.5)
                except ApiUnavailable:
                    pass
                await asyncio.sleep(20)

        asking = asyncio.create_task(ask())
        await until(lambda: len(server.seen) == 1)
        time.sleep(0.6)  # noqa: ASYNC251 - so that the loop is late for both
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
@pytest.mark.parametrize("lane", [Lane.READ, Lane.BIND])
async def test_answers_that_are_no_http(answer: bytes, lane: Lane) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()

    async with raw_server(talk) as url, ApiClient(ClusterConfig(server=url)) as client:
        with pytest.raises(ApiUnavailable) as caught:
            await client.request("POST", "/x", body=b"{}", lane=lane)
    assert caught.value.maybe_done
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("lane", [Lane.READ, Lane.BIND])
async def test_a_closed_client_says_so(lane: Lane) -> None:
    async with scripted_server(echo_empty) as server:
        client = ApiClient(server.config)
        await client.request("GET", "/x", lane=lane)
        await client.close()
        with pytest.raises(ApiUnavailable, match="client is closed") as caught:
            await client.request("GET", "/x", lane=lane)
    assert not caught.value.maybe_done
