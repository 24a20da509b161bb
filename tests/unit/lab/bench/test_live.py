"""The real API server as a workload's cluster: what goes over the wire, and what is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from stowplan.api.kubeconfig import ClusterConfig
from stowplan.api.resources import NODES, PODS
from stowplan.lab.bench import live
from stowplan.lab.bench.follow import Metadata, session
from stowplan.lab.bench.live import BenchError, LiveCluster
from stowplan.lab.bench.observe import BindObserver
from stowplan.lab.bench.sender import JSON, Sender
from stowplan.workloads.model import Stage
from stowplan.workloads.play import Write


class Server:
    """Remembers requests, and answers a path with a status or a body where it is told to."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.statuses: dict[str, int] = {}
        self.pods: Sequence[dict[str, Any]] = ()

    async def answer(self, request: web.Request) -> web.Response:
        self.requests.append((request.method, request.path, dict(request.query)))
        status = self.statuses.get(request.path, 200)
        return web.json_response({"kind": "PodList", "items": list(self.pods)}, status=status)


@asynccontextmanager
async def a_cluster(
    server: Server, observer: BindObserver | None = None
) -> AsyncIterator[LiveCluster]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    config = ClusterConfig(server=f"http://{host}:{port}", token="secret")
    try:
        async with Sender(config, 2) as sender, session(config, JSON) as client:
            yield LiveCluster(sender, client, observer or BindObserver(), lambda: None, "raw")
    finally:
        await runner.cleanup()


def pod(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "a"}}


async def test_writes_go_where_they_belong() -> None:
    server = Server()
    async with a_cluster(server) as cluster:
        await cluster.write(
            [
                [
                    Write("create", NODES, {"metadata": {"name": "n"}}),
                    Write("update", NODES, {"metadata": {"name": "n"}}, "status"),
                ]
            ]
        )
        await cluster.write([[Write("create", PODS, pod("p"))]])
        await cluster.write([[Write("delete", PODS, pod("p"))]])
        assert list(cluster.sent_at) == ["a/p"]
    assert [request[:2] for request in server.requests] == [
        ("POST", "/api/v1/nodes"),
        ("PUT", "/api/v1/nodes/n/status"),
        ("POST", "/api/v1/namespaces/a/pods"),
        ("DELETE", "/api/v1/namespaces/a/pods/p"),
    ]


async def test_what_is_there_or_gone_already_is_fine_where_it_may_be() -> None:
    server = Server()
    server.statuses = {"/api/v1/nodes": 409, "/api/v1/namespaces/a/pods/p": 404}
    async with a_cluster(server) as cluster:
        await cluster.write([[Write("delete", PODS, pod("p"))]])
        node = {"metadata": {"name": "n"}}
        await cluster.write([[Write("create", NODES, node, may_exist=True)]])
        with pytest.raises(BenchError, match=r"a write of the workload failed: .* 409"):
            await cluster.write([[Write("create", NODES, node)]])


async def test_pods_are_deleted_and_listed_by_label() -> None:
    server = Server()
    server.pods = [pod("p") | {"spec": {}}]
    async with a_cluster(server) as cluster:
        await cluster.delete_pods("a", {"type": "x", "size": "y"}, grace_period_s=0)
        assert await cluster.pod_names("a", {}) == ["p"]
    deletion, listing = server.requests
    assert deletion == (
        "DELETE",
        "/api/v1/namespaces/a/pods",
        {"labelSelector": "type=x,size=y", "gracePeriodSeconds": "0"},
    )
    assert listing[:2] == ("GET", "/api/v1/namespaces/a/pods")


async def test_waits_until_each_of_the_pods_was_bound() -> None:
    observer = BindObserver()
    observer.note_pod(Metadata(name="other", namespace="a"), 0.0)
    async with a_cluster(Server(), observer) as cluster, asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(cluster.wait_for_pods("a", ["p", "q"], Stage.SCHEDULED))
        for name in ("p", "q"):
            await asyncio.sleep(0.05)
            assert not waiting.done()
            observer.note_pod(Metadata(name=name, namespace="a"), 1.0)


async def test_a_condition_is_enough_where_an_attempt_is() -> None:
    server = Server()
    condition = {"type": "PodScheduled", "status": "False"}
    server.pods = [
        pod("p") | {"spec": {}, "status": {"conditions": [condition]}},
        pod("q") | {"spec": {"nodeName": "n"}},
    ]
    async with a_cluster(server) as cluster:
        await cluster.wait_for_pods("a", ["p", "q"], Stage.ATTEMPTED)


async def test_nothing_is_waited_for_in_vain_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "PATIENCE_S", 0.05)
    observer = BindObserver()
    observer.note_pod(Metadata(name="o", namespace="a"), 1.0)
    told = r"raw has done nothing for 0 s: 2 of 3 pods in a are not scheduled, among them a/p"
    async with a_cluster(Server(), observer) as cluster:
        with pytest.raises(BenchError, match=told):
            await cluster.wait_for_pods("a", ["o", "p", "q"], Stage.SCHEDULED)
