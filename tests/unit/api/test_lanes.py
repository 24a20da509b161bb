"""Requests as bytes: no text in them can become a header of its own."""

from __future__ import annotations

import pytest
from aiohttp import web

from stowplan.api.client import ApiClient, Lane
from stowplan.api.kubeconfig import ClusterConfig
from stowplan.errors import ApiUnavailable
from stowplan.http import client as http_client
from tests.unit.api.api_kit import echo_empty, scripted_server


@pytest.mark.parametrize("token", ["a\r\nX-Evil: 1", "a\nb", "\x00", "→"])
async def test_a_token_that_cannot_be_sent(token: str) -> None:
    async with scripted_server(echo_empty) as server:
        async with ApiClient(ClusterConfig(server=server.url, token=token)) as client:
            with pytest.raises(ApiUnavailable) as caught:
                await client.request("POST", "/x", body=b"{}", lane=Lane.BIND)
        assert not caught.value.maybe_done
        assert server.seen == []


async def test_a_path_and_a_query_that_try() -> None:
    async with scripted_server(echo_empty) as server, ApiClient(server.config) as client:
        await client.request(
            "GET", "/x HTTP/1.1 X-Evil: 1", params={"a": "b\r\nX-Evil: 1"}, lane=Lane.BIND
        )
    (seen,) = server.seen
    assert "X-Evil" not in seen.headers
    assert seen.path == "/x HTTP/1.1 X-Evil: 1"
    assert seen.query == {"a": "b\r\nX-Evil: 1"}


async def test_a_server_below_a_path() -> None:
    async with scripted_server(echo_empty) as server:
        config = ClusterConfig(server=f"{server.url}/clusters/one/")
        async with ApiClient(config) as client:
            await client.bind("ns", "p", "u", "n")
    assert server.seen[0].path == "/clusters/one/api/v1/namespaces/ns/pods/p/binding"


async def test_connections_that_were_idle_for_long_are_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ports: list[str] = []
    async with scripted_server(echo_empty) as server, ApiClient(server.config) as client:
        answer = server.handler

        async def handler(request: web.Request) -> web.StreamResponse:
            assert request.transport is not None
            ports.append(str(request.transport.get_extra_info("peername")))
            return await answer(request)

        server.handler = handler
        await client.bind("ns", "p", "u", "n")
        await client.bind("ns", "p", "u", "n")
        monkeypatch.setattr(http_client, "_KEEPALIVE_S", -1.0)
        await client.bind("ns", "p", "u", "n")
    assert ports[0] == ports[1] != ports[2]
