"""An engine whose binding cycles and reports reach a real (embedded) API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from stowplan.api.client import ApiClient
from stowplan.api.kubeconfig import ClusterConfig
from stowplan.api.objects import Condition, Node, Pod
from stowplan.api.recorder import EventRecorder
from stowplan.api.resources import PODS
from stowplan.apiserver.faults import Fault
from stowplan.apiserver.kubelet import KubeletOptions
from stowplan.apiserver.server import ApiServer
from stowplan.clock import SystemClock
from stowplan.framework.plugin import Plugin
from stowplan.scheduler.binding import Binder
from stowplan.scheduler.outcome import Placement
from stowplan.scheduler.reporter import Reporter
from stowplan.testing import as_manifest
from stowplan.testing import node as make_node
from tests.unit.scheduler.engine_bench import Bench

_EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"


class Live(Bench):
    """A bench on the clock of the machine, with the API server beside it."""

    def __init__(
        self, server: ApiServer, client: ApiClient, plugins: Iterable[Plugin], nodes: Iterable[Node]
    ) -> None:
        super().__init__(*plugins, nodes=nodes, clock=SystemClock())
        self.server = server
        self.client = client
        self.handle.client = client
        self.recorder = EventRecorder(client)
        self.reporter = Reporter(client, self.recorder, SystemClock(), self.store.get)
        self.binder = Binder(self.engine, client, self.reporter)

    def post(self, built: Pod) -> Pod:
        """Create a pod at the API server, and hear of it."""
        manifest = as_manifest(built)
        manifest["metadata"].pop("uid")
        created = self.server.create("", "v1", "pods", manifest, namespace="default")
        return self.create(msgspec.convert(created, Pod))

    def fault(self, path: str, **fault: Any) -> Fault:
        """Make the next matching request go wrong."""
        wrong = Fault(path, **fault)
        self.server.faults.append(wrong)
        return wrong

    async def get(self, pod: Pod) -> Pod:
        """The pod as the API server has it."""
        return await self.client.get(PODS, pod.metadata.name, namespace="default")

    async def node_of(self, pod: Pod) -> str:
        return (await self.get(pod)).spec.node_name

    async def condition(self, pod: Pod) -> Condition | None:
        conditions = (await self.get(pod)).status.conditions or ()
        return next((each for each in conditions if each.type == "PodScheduled"), None)

    async def bind_next(self) -> Placement:
        """Decide for the next pod and take it to its end."""
        placement = self.placed()
        await self.binder.run(placement)
        return placement

    async def events(self) -> list[tuple[str, str, str]]:
        """(pod, reason, note) of every event that was reported, once it is written."""
        assert await self.recorder.drain(10)
        body = await self.client.request("GET", _EVENTS)
        items: list[dict[str, Any]] = msgspec.json.decode(body)["items"]
        return [(e["regarding"]["name"], e["reason"], e["note"]) for e in items]

    async def told(self) -> None:
        """Wait until every condition is written."""
        await self.reporter.drain(10)


@asynccontextmanager
async def live(*plugins: Plugin, nodes: Iterable[Node] = ()) -> AsyncIterator[Live]:
    server = ApiServer(kubelet=KubeletOptions(enabled=False))
    await server.start()
    try:
        async with ApiClient(ClusterConfig(server=server.url, source="test")) as client:
            it = Live(server, client, plugins, nodes or [make_node("n1")])
            background = [
                asyncio.create_task(it.recorder.run()),
                asyncio.create_task(it.reporter.run()),
            ]
            try:
                yield it
            finally:
                for task in background:
                    task.cancel()
                await asyncio.wait(background)
    finally:
        await server.stop()
