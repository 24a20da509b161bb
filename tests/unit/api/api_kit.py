"""A small API server that does exactly what a test tells it, on a loopback socket."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from stowplan.api.kubeconfig import ClusterConfig

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Seen:
    """One request, as the server got it."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


@dataclass
class ScriptedServer:
    """Answers with `handler`, which a test may replace at any time."""

    handler: Handler
    url: str = ""
    seen: list[Seen] = field(default_factory=list)

    @property
    def config(self) -> ClusterConfig:
        return ClusterConfig(server=self.url, source="test")

    async def answer(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        try:
            body = json.loads(raw) if raw else None
        except ValueError:
            body = raw
        self.seen.append(
            Seen(request.method, request.path, dict(request.query), dict(request.headers), body)
        )
        return await self.handler(request)


@asynccontextmanager
async def scripted_server(
    handler: Handler, *, tls: ssl.SSLContext | None = None, port: int = 0
) -> AsyncIterator[ScriptedServer]:
    server = ScriptedServer(handler)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port, ssl_context=tls)
    await site.start()
    bound = runner.addresses[0][1]
    server.url = f"{'https' if tls else 'http'}://127.0.0.1:{bound}"
    try:
        yield server
    finally:
        await runner.cleanup()


@asynccontextmanager
async def raw_server(
    talk: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
    *,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[str]:
    """For what no proper HTTP server would do; yields its address."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await talk(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    try:
        port = server.sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.close()
        await server.wait_closed()


def reply(body: Any, *, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(
        status=status,
        body=body if isinstance(body, bytes) else json.dumps(body).encode(),
        content_type="application/json",
        headers=headers,
    )


def status_body(code: int, reason: str = "", message: str = "") -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }


def pod(
    name: str, *, version: int = 1, uid: str = "", namespace: str = "ns", **fields: Any
) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid or f"uid-{name}",
            "resourceVersion": str(version),
        },
        **fields,
    }


def pod_list(*items: Any, version: int = 1, continue_token: str = "") -> dict[str, Any]:
    metadata = {"resourceVersion": str(version)}
    if continue_token:
        metadata["continue"] = continue_token
    return {"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": list(items)}


def event_line(kind: str, obj: Any) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


def bookmark(version: int) -> bytes:
    return event_line("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": str(version)}})


async def until(condition: Callable[[], bool], timeout_s: float = 20.0) -> None:
    """Wait for something that other tasks bring about."""
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 - conditions are plain reads of state
            await asyncio.sleep(0.002)


STATUS_OK = {"kind": "Status", "apiVersion": "v1", "status": "Success"}


async def echo_empty(request: web.Request) -> web.Response:
    return reply(STATUS_OK)
