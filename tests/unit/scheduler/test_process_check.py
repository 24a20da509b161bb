"""The check beside the lists: nothing is bound before it, no lease is asked for before it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from stowplan.api.client import ApiClient
from stowplan.api.kubeconfig import ClusterConfig
from stowplan.apiserver.faults import Fault
from stowplan.apiserver.kubelet import KubeletOptions
from stowplan.apiserver.server import ApiServer
from stowplan.config.load import default_config
from stowplan.errors import Forbidden
from stowplan.scheduler.assembly import build_engine
from stowplan.scheduler.process import Election, SchedulerProcess
from stowplan.scheduler.served_kinds import is_optional
from stowplan.testing import as_manifest
from stowplan.testing import node as make_node
from stowplan.testing import pod as make_pod

ELECTION = Election(name="stowplan", namespace="default", identity="me")


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    """An API server with a node and a pod that fits."""
    running = ApiServer(kubelet=KubeletOptions(enabled=False))
    await running.start()
    running.create("", "v1", "nodes", as_manifest(make_node("n1")))
    manifest = as_manifest(make_pod("p1"))
    manifest["metadata"].pop("uid", None)
    running.create("", "v1", "pods", manifest, namespace="default")
    yield running
    await running.stop()


@pytest.fixture
async def client(server: ApiServer) -> AsyncIterator[ApiClient]:
    async with ApiClient(ClusterConfig(server=server.url, source="test")) as opened:
        yield opened


def process_of(client: ApiClient, election: Election | None = None) -> SchedulerProcess:
    return SchedulerProcess(build_engine(default_config()), client, election=election)


async def complain() -> None:
    raise Forbidden("all that is missing")


async def test_lists_do_not_wait_for_the_check_but_binds_do(client: ApiClient) -> None:
    process, stop, may_end = process_of(client), asyncio.Event(), asyncio.Event()

    async def check() -> None:
        await may_end.wait()

    async def watch() -> None:
        for informer in process.informers.values():
            await informer.synced.wait()
        for _ in range(5):  # whoever could go on now has gone on
            await asyncio.sleep(0)
        assert not process.scheduling.is_set()
        may_end.set()
        await process.scheduling.wait()
        stop.set()

    await asyncio.gather(process.run(stop, check=check()), watch())


async def test_the_requests_of_the_lists_go_first(server: ApiServer) -> None:
    order: list[str] = []

    class Noting(ApiClient):
        async def list_all(self, resource: Any, **options: Any) -> Any:
            order.append("list")
            return await super().list_all(resource, **options)

    async def check() -> None:
        order.append("check")
        stop.set()

    stop = asyncio.Event()
    async with Noting(ClusterConfig(server=server.url, source="test")) as client:
        process = process_of(client)
        await process.run(stop, check=check())
    # Kinds that an API server may lack are listed once it is known to have them.
    optional = sum(is_optional(kind) for kind in process.engine.looked_up())
    first = [*["list"] * (len(process.informers) - optional), "check"]
    assert optional
    assert order == [*first, *["list"] * optional]


async def test_no_lease_is_asked_for_before_the_check(client: ApiClient) -> None:
    with pytest.raises(Forbidden, match="all that is missing"):
        await process_of(client, ELECTION).run(asyncio.Event(), check=complain())
    body = await client.request("GET", "/apis/coordination.k8s.io/v1/leases")
    assert json.loads(body)["items"] == []


async def test_what_the_check_says_ends_everything(client: ApiClient) -> None:
    process = process_of(client)
    with pytest.raises(Forbidden, match="all that is missing"):
        await process.run(asyncio.Event(), check=complain())
    assert not process.scheduling.is_set()


async def test_of_a_refused_list_and_the_check_the_check_is_heard(
    server: ApiServer, client: ApiClient
) -> None:
    refused = asyncio.Event()
    server.faults.append(Fault("/api/v1/nodes", status=403, reason="Forbidden", message="no nodes"))

    async def check() -> None:
        await refused.wait()
        await complain()

    process = process_of(client)
    running = asyncio.create_task(process.run(asyncio.Event(), check=check()))
    while not server.faults[0].hits:  # noqa: ASYNC110 - a counter of the server's
        await asyncio.sleep(0.01)
    refused.set()
    with pytest.raises(Forbidden, match="all that is missing"):
        await running


async def test_a_check_that_finds_nothing_leaves_the_refusal_of_a_list(
    server: ApiServer, client: ApiClient
) -> None:
    server.faults.append(Fault("/api/v1/nodes", status=403, reason="Forbidden", message="no nodes"))
    with pytest.raises(Forbidden, match="no nodes"):
        await process_of(client).run(asyncio.Event())


async def test_stopping_does_not_wait_for_the_check(client: ApiClient) -> None:
    process, stop = process_of(client), asyncio.Event()

    async def check() -> None:
        stop.set()
        await asyncio.Event().wait()

    await process.run(stop, check=check())
    assert not process.scheduling.is_set()
