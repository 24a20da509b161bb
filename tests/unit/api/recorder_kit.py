"""A recorder of events with the API server that it writes to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from stowplan.api.client import ApiClient
from stowplan.api.objects import ObjectMeta, Pod
from stowplan.api.recorder import EventRecorder
from stowplan.clock import VirtualClock
from tests.unit.api.api_kit import ScriptedServer, Seen, reply, scripted_server, status_body

EVENTS = "/apis/events.k8s.io/v1/namespaces"


@dataclass
class EventServer:
    """Keeps events by name; may be told to fail."""

    events: dict[str, dict[str, Any]] = field(default_factory=dict)
    fails_with: tuple[int, str] | None = None
    #: Only events about this object fail; empty: all.
    fails_for: str = ""
    hold: asyncio.Event | None = None

    async def handle(self, request: web.Request) -> web.Response:
        if self.hold is not None:
            await self.hold.wait()
        body = await request.json()
        about = body.get("regarding", {}).get("name", "")
        if self.fails_with and self.fails_for in ("", about):
            code, message = self.fails_with
            return reply(status_body(code, "", message), status=code)
        if request.method == "POST":
            name = body["metadata"]["name"]
            if name in self.events:
                return reply(status_body(409, "AlreadyExists", "it is there"), status=409)
            self.events[name] = body
            return reply(body, status=201)
        name = request.path.rpartition("/")[2]
        if name not in self.events:
            return reply(status_body(404, "NotFound", f'events "{name}" not found'), status=404)
        self.events[name].update(body)
        return reply(self.events[name])


@dataclass
class Stage:
    server: ScriptedServer
    events: EventServer
    recorder: EventRecorder
    clock: VirtualClock

    def report(self, pod: Pod, reason: str = "FailedScheduling", **changes: Any) -> None:
        defaults: dict[str, Any] = {
            "type": "Warning",
            "reason": reason,
            "action": "Scheduling",
            "note": "0/3 nodes are available",
            "reporting_controller": "my-scheduler",
        }
        self.recorder.event(pod, **(defaults | changes))

    async def settled(self) -> list[Seen]:
        """The requests made since the last call."""
        assert await self.recorder.drain(20)
        seen = list(self.server.seen)
        self.server.seen.clear()
        return seen


@asynccontextmanager
async def stage(**options: Any) -> AsyncIterator[Stage]:
    events = EventServer()
    clock = VirtualClock()
    async with scripted_server(events.handle) as server, ApiClient(server.config) as client:
        recorder = EventRecorder(client, clock=clock, **{"retry_initial_s": 0.01, **options})
        task = asyncio.create_task(recorder.run())
        try:
            yield Stage(server, events, recorder, clock)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def pod(name: str = "web-0", *, namespace: str = "team", version: str = "7") -> Pod:
    return Pod(
        metadata=ObjectMeta(
            name=name, namespace=namespace, uid=f"uid-{name}", resource_version=version
        )
    )
