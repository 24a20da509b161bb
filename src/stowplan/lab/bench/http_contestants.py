"""The contestants of `http_costs`: clients and servers with our HTTP and with aiohttp.

`http_costs` runs each as ``python -m stowplan.lab.bench.http_contestants``, in a process of its
own. Imports are inside the functions, because loading a library is part of what is measured.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import uvloop

from stowplan.loader.json_text import load_json

if TYPE_CHECKING:
    from aiohttp import web

_AT_A_TIME: Final = 32
_STATUS: Final = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}'


# Clients: each runs in its own process and prints microseconds of CPU time per bind.


async def _client_ours(url: str, ca: bytes, binds: int) -> float:
    from stowplan.api.client import ApiClient
    from stowplan.api.kubeconfig import ClusterConfig

    config = ClusterConfig(server=url, ca_data=ca, token="secret")
    async with ApiClient(config, bind_concurrency=_AT_A_TIME) as client:
        return await _timed(lambda: client.bind("ns", "p", "u", "n"), binds)


async def _client_aiohttp(url: str, ca: bytes, binds: int) -> float:
    import aiohttp

    context = ssl.create_default_context(cadata=ca.decode())
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p", "namespace": "ns", "uid": "u"},
        "target": {"kind": "Node", "name": "n"},
    }
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=_AT_A_TIME, ssl=context),
        headers={"Authorization": "Bearer secret", "Content-Type": "application/json"},
    )

    async def bind() -> None:
        path = "/api/v1/namespaces/ns/pods/p/binding"
        async with session.post(url + path, data=json.dumps(body)) as answer:
            await answer.read()
            assert answer.status == 201

    async with session:
        return await _timed(bind, binds)


async def _timed(bind: Callable[[], Coroutine[Any, Any, object]], binds: int) -> float:
    async def some(count: int) -> None:
        for _ in range(count):
            await bind()

    async def many(count: int) -> None:
        await asyncio.gather(*(some(count // _AT_A_TIME) for _ in range(_AT_A_TIME)))

    await many(10 * _AT_A_TIME)
    began = time.process_time()
    await many(binds)
    return (time.process_time() - began) / (binds // _AT_A_TIME * _AT_A_TIME) * 1e6


# Servers: each runs in its own process until it is stopped.


async def _api_server(port: int, cert: Path) -> None:
    """Answers binds over TLS; not measured."""
    from aiohttp import web

    async def handler(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(body=_STATUS, status=201, content_type="application/json")

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(cert)
    await _aiohttp_site(port, [web.route("*", "/{path:.*}", handler)], context)


async def _aiohttp_site(
    port: int, routes: Sequence[web.RouteDef], tls: ssl.SSLContext | None = None
) -> None:
    from aiohttp import web

    app = web.Application(client_max_size=128 * 1024 * 1024)
    app.add_routes(routes)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, ssl_context=tls).start()
    await asyncio.Event().wait()


async def _health_ours(port: int) -> None:
    from stowplan.scheduler.metrics import SchedulerMetrics
    from stowplan.server.health import HealthServer

    await HealthServer(SchedulerMetrics()).start("127.0.0.1", port)
    await asyncio.Event().wait()


async def _health_aiohttp(port: int) -> None:
    from aiohttp import web

    import stowplan.scheduler.metrics  # noqa: F401 - what a scheduler has loaded in any case

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok", headers={"Cache-Control": "no-cache, private"})

    await _aiohttp_site(port, [web.get("/healthz", healthz)])


def _filtered(body: bytes | bytearray) -> bytes:
    """What a filter that keeps all nodes does, without the extender's own shortcuts."""
    import msgspec

    args = load_json(body)
    return msgspec.json.encode({"NodeNames": args["NodeNames"], "FailedNodes": {}, "Error": ""})


async def _extender_ours(port: int) -> None:
    from stowplan.http.messages import (
        Limits,
        PeerCertificate,
        Request,
        Response,
        error_response,
    )
    from stowplan.http.parser import RequestHead
    from stowplan.http.server import HttpServer

    class Site:
        def refuse(self, head: RequestHead, certificate: PeerCertificate | None) -> Response | None:
            return None

        def answer(self, request: Request) -> Response:
            if request.head.path == "/healthz":
                return Response(b"ok")
            return Response(_filtered(request.body))

        def error(self, status: HTTPStatus, problem: str) -> Response:
            return error_response(status, problem)

        def refused(self, status: int) -> None:
            raise AssertionError(status)

    server = HttpServer(Site(), Limits(128 * 1024 * 1024, 30.0))
    loop = asyncio.get_running_loop()
    await server.listen(lambda make: loop.create_server(make, "127.0.0.1", port))
    await asyncio.Event().wait()


async def _extender_aiohttp(port: int) -> None:
    from aiohttp import web

    async def filter_(request: web.Request) -> web.Response:
        return web.Response(body=_filtered(await request.read()), content_type="application/json")

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    await _aiohttp_site(port, [web.post("/filter", filter_), web.get("/healthz", healthz)])


_SERVERS: Final[dict[str, Callable[..., Coroutine[Any, Any, None]]]] = {
    "api": _api_server,
    "health-ours": _health_ours,
    "health-aiohttp": _health_aiohttp,
    "extender-ours": _extender_ours,
    "extender-aiohttp": _extender_aiohttp,
}
_CLIENTS: Final = {"ours": _client_ours, "aiohttp": _client_aiohttp}


def main() -> None:
    role, name, *rest = sys.argv[1:]
    if role == "serve":
        port, *files = rest
        uvloop.run(_SERVERS[name](int(port), *map(Path, files)))
    else:
        url, cert, binds = rest
        print(uvloop.run(_CLIENTS[name](url, Path(cert).read_bytes(), int(binds))))


if __name__ == "__main__":
    main()
