"""A Lease on a scripted API server, and electors that compete for it."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from stowplan.api.client import ApiClient
from stowplan.api.lease import LeaderElector
from stowplan.clock import Clock, SystemClock, rfc3339_micro
from tests.unit.api.api_kit import ScriptedServer, reply, scripted_server, status_body

PATH = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


@dataclass
class LeaseServer:
    """One Lease with optimistic concurrency, and switches to break it."""

    lease: dict[str, Any] | None = None
    version: int = 0
    fails_with: int = 0
    is_stuck: bool = False
    writes: int = 0
    release: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle(self, request: web.Request) -> web.Response:
        if self.is_stuck:
            await self.release.wait()
        if self.fails_with:
            return reply(status_body(self.fails_with, "", "broken"), status=self.fails_with)
        if request.method == "GET":
            if self.lease is None:
                return reply(status_body(404, "NotFound", "no lease"), status=404)
            return reply(self.lease)
        body = await request.json()
        if request.method == "POST":
            if self.lease is not None:
                return reply(status_body(409, "AlreadyExists", "it is there"), status=409)
            return self._store(body, 201)
        assert self.lease is not None
        if body["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
            return reply(status_body(409, "Conflict", "it has changed"), status=409)
        return self._store(body, 200)

    def _store(self, body: dict[str, Any], code: int) -> web.Response:
        self.writes += 1
        self.put(body)
        return reply(self.lease, status=code)

    def put(self, body: dict[str, Any]) -> None:
        self.version += 1
        self.lease = copy.deepcopy(body)
        self.lease["metadata"]["resourceVersion"] = str(self.version)

    def held_by(self, holder: str, *, renewed: float = 0.0, duration: int = 15) -> None:
        """Another candidate writes the lease."""
        self.put(
            {
                "metadata": {"name": "stowplan", "annotations": {"kept": "yes"}},
                "spec": {
                    "holderIdentity": holder,
                    "leaseDurationSeconds": duration,
                    "acquireTime": rfc3339_micro(0),
                    "renewTime": rfc3339_micro(renewed),
                    "leaseTransitions": 3,
                    "strategy": "OldestEmulationVersion",
                },
            }
        )

    @property
    def spec(self) -> dict[str, Any]:
        assert self.lease is not None
        spec: dict[str, Any] = self.lease["spec"]
        return spec


@dataclass
class Stage:
    server: ScriptedServer
    leases: LeaseServer
    client: ApiClient

    def elector(self, identity: str, clock: Clock | None = None, **timing: Any) -> LeaderElector:
        return LeaderElector(
            self.client,
            "stowplan",
            "kube-system",
            identity,
            clock=clock or SystemClock(),
            **timing,
        )


QUICK: dict[str, Any] = {"lease_duration_s": 1, "renew_deadline_s": 0.5, "retry_period_s": 0.05}
#: No stall of the machine ends leadership.
PATIENT: dict[str, Any] = {"lease_duration_s": 60, "renew_deadline_s": 50, "retry_period_s": 0.05}


@asynccontextmanager
async def lease_stage() -> AsyncIterator[Stage]:
    leases = LeaseServer()
    async with scripted_server(leases.handle) as server, ApiClient(server.config) as client:
        yield Stage(server, leases, client)
        leases.release.set()
