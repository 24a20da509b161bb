"""Throttling, lanes, limits and headers of the client."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web

from stowplan.api import transport
from stowplan.api.client import ApiClient, Lane
from stowplan.api.resources import PODS
from stowplan.errors import (
    ApiUnavailable,
    Throttled,
)
from tests.unit.api.api_kit import (
    STATUS_OK,
    echo_empty,
    pod,
    pod_list,
    reply,
    scripted_server,
    status_body,
)

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
        await asyncio.sleep(0.3)
        return reply(STATUS_OK)

    async with (
        scripted_server(handler) as server,
        ApiClient(server.config, bind_concurrency=1) as client,
    ):
        binds = [client.bind("ns", f"p{i}", "u", "n", timeout_s=2.0) for i in range(8)]
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


async def test_lists_from_afar_come_packed_and_watches_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        answer = reply(pod_list(*(pod(f"p{i}") for i in range(100)), version=7))
        if "watch" in request.query:
            return reply(b"")
        answer.enable_compression(web.ContentCoding.gzip)
        return answer

    monkeypatch.setattr(transport, "_is_loopback", lambda server: False)
    async with scripted_server(handler) as server, ApiClient(server.config) as client:
        assert len((await client.list_all(PODS)).items) == 100
        async with client.open_watch(PODS, resource_version="7") as stream:
            assert [batch async for batch in stream.batches()] == []
    assert [seen.headers["Accept-Encoding"] for seen in server.seen] == ["gzip", "identity"]


async def test_a_watch_takes_over_the_connection_of_its_list() -> None:
    peers: list[object] = []

    async def handler(request: web.Request) -> web.Response:
        assert request.transport is not None
        peers.append(request.transport.get_extra_info("peername"))
        return reply(b"") if "watch" in request.query else reply(pod_list(version=7))

    async with scripted_server(handler) as server, ApiClient(server.config) as client:
        await client.list_all(PODS)
        async with client.open_watch(PODS, resource_version="7") as stream:
            assert [batch async for batch in stream.batches()] == []
        await client.bind("ns", "p", "u", "n")
    assert peers[0] == peers[1] != peers[2]


async def test_headers_that_cannot_be_sent_are_an_error_of_ours() -> None:
    async with scripted_server(echo_empty) as server:
        config = replace(server.config, token="two\nlines")
        async with ApiClient(config) as client:
            with pytest.raises(ApiUnavailable) as caught:
                await client.request("GET", "/x")
    assert not caught.value.maybe_done
    assert "two" not in str(caught.value)
