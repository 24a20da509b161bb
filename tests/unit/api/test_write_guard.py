"""The guard of writes: asked at the last moment, again for each retry, on every way to a server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from stowplan.api.client import ApiClient
from stowplan.api.guarded import WriteGuard
from stowplan.api.kubeconfig import ClusterConfig
from stowplan.api.objects import Pod
from stowplan.api.resources import PODS
from stowplan.apiserver.cluster import EmbeddedCluster
from stowplan.apiserver.faults import Fault
from stowplan.apiserver.in_process import SERVER, InProcess
from stowplan.apiserver.kubelet import KubeletOptions
from stowplan.errors import ApiUnavailable, LeadershipLost, NotFound
from stowplan.http import client as http_client
from tests.unit.api.api_kit import (
    STATUS_OK,
    ScriptedServer,
    echo_empty,
    reply,
    scripted_server,
    status_body,
)


class Lease:
    """A guard that refuses from when it is told to, and counts how often it was asked."""

    def __init__(self) -> None:
        self.is_held = True
        self.asked = 0

    def check(self) -> None:
        self.asked += 1
        if not self.is_held:
            raise LeadershipLost("the lease ran out")


def guarded(client: ApiClient, lease: Lease, *, timeout_s: float = 5.0) -> ApiClient:
    return client.guarded_by(WriteGuard(lease.check, timeout_s))


async def answer_pod(request: web.Request) -> web.Response:
    return reply({"metadata": {"name": "p", "uid": "u"}})


async def bind(client: ApiClient) -> None:
    await client.bind("ns", "p", "u", "n")


async def evict(client: ApiClient) -> None:
    await client.delete(PODS, "p", namespace="ns", uid="u")


async def patch_status(client: ApiClient) -> None:
    await client.patch(PODS, "p", {"status": {}}, namespace="ns", subresource="status")


async def create(client: ApiClient) -> None:
    await client.create(PODS, {"metadata": {"name": "p"}}, namespace="ns")


async def amend(client: ApiClient) -> None:
    await client.amend(PODS, "p", {"metadata": {}}, namespace="ns", resource_version="1")


async def no_body(client: ApiClient) -> None:
    await client.request("DELETE", "/api/v1/namespaces/ns/pods/p")


WRITES = [bind, evict, patch_status, create, amend, no_body]
Write = Callable[[ApiClient], Any]


@asynccontextmanager
async def by_way_of(
    way: str, handler: Any = answer_pod
) -> AsyncIterator[tuple[ScriptedServer, ApiClient]]:
    async with scripted_server(handler) as server:
        config = server.config
        if way == "proxy":
            config = ClusterConfig(server="http://api.internal", proxy_url=server.url)
        async with ApiClient(config) as client:
            yield server, client


@pytest.mark.parametrize("way", ["straight", "proxy"])
@pytest.mark.parametrize("write", WRITES)
async def test_what_is_refused_never_reaches_the_server(way: str, write: Write) -> None:
    lease = Lease()
    async with by_way_of(way) as (server, client):
        await write(guarded(client, lease))
        assert (lease.asked, len(server.seen)) == (1, 1)
        lease.is_held = False
        with pytest.raises(LeadershipLost, match="ran out"):
            await write(guarded(client, lease))
        assert (lease.asked, len(server.seen)) == (2, 1)
        await write(client)
        assert (lease.asked, len(server.seen)) == (2, 2), "the client itself is as it was"


@pytest.mark.parametrize("way", ["straight", "proxy"])
async def test_reading_is_always_allowed(way: str) -> None:
    lease = Lease()
    lease.is_held = False
    async with by_way_of(way) as (_, client):
        found: Pod = await guarded(client, lease).get(PODS, "p", namespace="ns")
    assert (found.uid, lease.asked) == ("u", 0)


@pytest.mark.parametrize("way", ["straight", "proxy"])
async def test_it_is_asked_again_after_the_pause_that_a_429_asks_for(way: str) -> None:
    lease = Lease()

    async def handler(request: web.Request) -> web.Response:
        lease.is_held = False
        return reply(status_body(429), status=429, headers={"Retry-After": "0"})

    async with by_way_of(way, handler) as (server, client):
        with pytest.raises(LeadershipLost):
            await bind(guarded(client, lease))
    assert len(server.seen) == 1


async def test_it_is_asked_after_the_wait_for_a_turn() -> None:
    lease, may_end = Lease(), asyncio.Event()

    async def handler(request: web.Request) -> web.Response:
        await may_end.wait()
        return reply(STATUS_OK)

    async with (
        scripted_server(handler) as server,
        ApiClient(server.config, bind_concurrency=1) as client,
    ):
        both = [asyncio.create_task(bind(guarded(client, lease))) for _ in range(2)]
        while not server.seen:  # noqa: ASYNC110 - a server without news
            await asyncio.sleep(0.001)
        lease.is_held = False
        may_end.set()
        first, second = await asyncio.gather(*both, return_exceptions=True)
    assert first is None
    assert isinstance(second, LeadershipLost)
    assert len(server.seen) == 1


async def test_it_is_asked_after_the_rate_limit() -> None:
    lease = Lease()
    async with (
        scripted_server(echo_empty) as server,
        ApiClient(server.config, qps=5, burst=1) as client,
    ):
        await bind(guarded(client, lease))
        waiting = asyncio.create_task(bind(guarded(client, lease)))
        await asyncio.sleep(0)
        lease.is_held = False
        with pytest.raises(LeadershipLost):
            await waiting
    assert len(server.seen) == 1


async def test_it_is_asked_after_connecting(monkeypatch: pytest.MonkeyPatch) -> None:
    lease = Lease()
    connect = http_client.Pool.connect

    async def slowly(self: Any, tls: Any) -> Any:
        connection = await connect(self, tls)
        lease.is_held = False
        return connection

    monkeypatch.setattr(http_client.Pool, "connect", slowly)
    async with scripted_server(echo_empty) as server, ApiClient(server.config) as client:
        with pytest.raises(LeadershipLost):
            await bind(guarded(client, lease))
    assert server.seen == []


@pytest.mark.parametrize("way", ["straight", "proxy"])
async def test_a_write_ends_while_no_other_can_lead(way: str) -> None:
    """However long the caller would wait: binds wait for 30 s otherwise."""
    may_end = asyncio.Event()

    async def handler(request: web.Request) -> web.Response:
        await may_end.wait()
        return reply(STATUS_OK)

    async with by_way_of(way, handler) as (_, client):
        with pytest.raises(ApiUnavailable, match="no answer in time") as caught:
            await bind(guarded(client, Lease(), timeout_s=0.05))
        assert caught.value.maybe_done
        may_end.set()


async def test_in_process_it_is_asked_when_the_request_arrives() -> None:
    """After whatever delays it."""
    lease = Lease()
    cluster = EmbeddedCluster(kubelet=KubeletOptions(enabled=False))
    client = ApiClient(ClusterConfig(server=SERVER), transport=InProcess(cluster))
    with pytest.raises(NotFound):
        await bind(guarded(client, lease))
    cluster.faults.append(Fault("/binding", action="delay", delay_s=0.01))
    late = asyncio.create_task(bind(guarded(client, lease)))
    await asyncio.sleep(0)
    lease.is_held = False
    with pytest.raises(LeadershipLost):
        await late
