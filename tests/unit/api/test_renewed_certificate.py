"""A client certificate is renewed while connections of the old one are idle, or about to be asked.

Who we are is said once, when a connection is made. So a connection of the old certificate must not
carry a request after the new one is there.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from stowplan.api.client import ApiClient, Lane
from stowplan.clock import VirtualClock, rfc3339
from tests.unit.api.api_kit import STATUS_OK, ScriptedServer, reply, scripted_server, until
from tests.unit.api.test_auth import Plugin
from tests.unit.api.tls_kit import Authority

_HOUR_S = 3600.0
#: Requests that are sent for every pod go by connections of their own kind, reads by another.
LANES = [Lane.BIND, Lane.EVENTS, Lane.LEASE, Lane.READ]


class Stage:
    """A server that notes who asks, and a plugin that prints certificates for an hour each."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority()
        self.tls = self.authority.server_context(folder, clients=self.authority)
        self.clock = VirtualClock()
        self.plugin = Plugin(folder)
        self.names: list[str] = []
        self.transports: list[asyncio.Transport] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    def issue(self, name: str) -> None:
        pair = self.authority.client(name)
        self.plugin.answer(
            {
                "clientCertificateData": pair.cert.decode(),
                "clientKeyData": pair.key.decode(),
                "expirationTimestamp": rfc3339(self.clock.time() + _HOUR_S),
            }
        )

    def renew(self, name: str) -> None:
        """The old one is over, and the plugin has another."""
        self.clock.advance(_HOUR_S + 1)
        self.issue(name)

    async def answer(self, request: web.Request) -> web.Response:
        assert isinstance(request.transport, asyncio.Transport)
        subject = request.transport.get_extra_info("peercert")["subject"]
        self.names.append(subject[0][0][1])
        self.transports.append(request.transport)
        await self.may_answer.wait()
        return reply(STATUS_OK)

    def client(self, server: ScriptedServer, bind_concurrency: int = 8) -> ApiClient:
        config = replace(server.config, ca_data=self.authority.cert, exec=self.plugin.config())
        return ApiClient(config, clock=self.clock, bind_concurrency=bind_concurrency)


@pytest.fixture
async def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


async def several(client: ApiClient, lane: Lane, number: int) -> None:
    await asyncio.gather(
        *(client.request("POST", f"/{n}", body=b"{}", lane=lane) for n in range(number))
    )


@pytest.mark.parametrize("lane", LANES)
async def test_idle_connections_of_the_old_one_carry_nothing_more(stage: Stage, lane: Lane) -> None:
    stage.issue("old")
    async with (
        scripted_server(stage.answer, tls=stage.tls) as server,
        stage.client(server) as client,
    ):
        await several(client, lane, 2)
        await several(client, lane, 1)
        assert stage.names == ["old"] * 3
        idle = stage.transports[:]
        assert idle[2] in idle[:2], "connections are kept"
        stage.renew("new")
        await several(client, lane, 2)
        assert stage.names[3:] == ["new"] * 2
        # Nor are they left open, to be found by somebody else.
        await until(lambda: all(transport.is_closing() for transport in idle))


async def test_who_waited_for_a_turn_goes_as_who_we_are_by_then(stage: Stage) -> None:
    stage.issue("old")
    stage.may_answer.clear()
    async with (
        scripted_server(stage.answer, tls=stage.tls) as server,
        stage.client(server, bind_concurrency=1) as client,
    ):
        first = asyncio.create_task(several(client, Lane.BIND, 1))
        await until(lambda: stage.names == ["old"])
        second = asyncio.create_task(several(client, Lane.BIND, 1))
        for _ in range(10):
            await asyncio.sleep(0)  # until it has its credential, and no turn
        stage.renew("new")
        reading = asyncio.create_task(several(client, Lane.READ, 1))
        await until(lambda: stage.names == ["old", "new"])
        stage.may_answer.set()
        await asyncio.gather(first, second, reading)
    # The connection of the first was free when the second's turn came.
    assert stage.names == ["old", "new", "new"]
    assert len(set(stage.transports)) == 3


async def test_a_request_under_way_ends_as_it_began(stage: Stage) -> None:
    stage.issue("old")
    stage.may_answer.clear()
    async with (
        scripted_server(stage.answer, tls=stage.tls) as server,
        stage.client(server) as client,
    ):
        first = asyncio.create_task(several(client, Lane.BIND, 1))
        await until(lambda: stage.names == ["old"])
        stage.renew("new")
        second = asyncio.create_task(several(client, Lane.BIND, 1))
        await until(lambda: stage.names == ["old", "new"])
        stage.may_answer.set()
        await asyncio.gather(first, second)
        # Both are idle now, the old one too.
        await several(client, Lane.BIND, 2)
    assert stage.names == ["old", "new", "new", "new"]
