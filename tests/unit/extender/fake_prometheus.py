"""A Prometheus for tests, on a loopback socket: it answers what it is told to, or does not."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from stowplan.extender.prometheus import Prometheus

Vector = list[tuple[Mapping[str, str], float | str]]


def by(label: str, **values: float) -> Vector:
    """A result with one label; `_` stands for `-`."""
    return [({label: name.replace("_", "-")}, value) for name, value in values.items()]


@dataclass
class FakePrometheus:
    """`results`: by query; what is not there is an empty vector."""

    results: dict[str, Vector] = field(default_factory=dict)
    #: By query; these are refused.
    errors: dict[str, str] = field(default_factory=dict)
    #: If not None, every query is answered with exactly this.
    raw: bytes | None = None
    status: int = 200
    #: While it is not set, no query is answered.
    open: asyncio.Event = field(default_factory=asyncio.Event)
    seen: list[dict[str, str]] = field(default_factory=list)
    port: int = 0

    def __post_init__(self) -> None:
        self.open.set()

    async def answer(self, request: web.Request) -> web.Response:
        self.seen.append(dict(request.query))
        await self.open.wait()
        if self.raw is not None:
            return web.Response(body=self.raw, status=self.status)
        if error := self.errors.get(request.query["query"]):
            refusal = {"status": "error", "errorType": "bad_data", "error": error}
            return web.Response(body=json.dumps(refusal).encode(), status=400)
        vector = [
            {"metric": dict(labels), "value": [1605400000.123, str(value)]}
            for labels, value in self.results.get(request.query["query"], [])
        ]
        data: dict[str, Any] = {"resultType": "vector", "result": vector}
        return web.Response(body=json.dumps({"status": "success", "data": data}).encode())


@asynccontextmanager
async def serving(
    fake: FakePrometheus, *, port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[FakePrometheus]:
    app = web.Application()
    app.router.add_get("/api/v1/query", fake.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, ssl_context=tls).start()
    fake.port = runner.addresses[0][1]
    try:
        yield fake
    finally:
        fake.open.set()
        await runner.cleanup()


@asynccontextmanager
async def started(prometheus: Prometheus) -> AsyncIterator[Prometheus]:
    await prometheus.start()
    try:
        yield prometheus
    finally:
        await prometheus.stop()
