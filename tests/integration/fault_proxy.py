"""A reverse proxy that lets a test spoil requests on their way to any API server.

The scheduler under test talks plain HTTP to the proxy, the proxy talks to the embedded or the real
API server; so the same bad day can be had on both. It runs in a thread of its own. A `Spoiler`
sees every request and may delay it, answer it itself, lose the answer of a request that was
carried out, or carry it out long after its connection broke.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from aiohttp import ClientConnectionResetError, ClientSession, ClientTimeout, TCPConnector, web

T = TypeVar("T")
_PATIENCE_S = 30.0
_HOP_HEADERS = {"transfer-encoding", "connection", "content-length", "content-encoding", "host"}


@dataclass
class Spoiler:
    """What is to happen to the next `times` requests that match."""

    method: str
    path: str
    times: int = 1
    #: Only requests that have this in their query.
    query: str = ""
    #: Answer with this status instead of forwarding.
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    #: Forward, then cut the connection instead of answering.
    lose_answer: bool = False
    #: Cut the connection without forwarding.
    refuse: bool = False
    delay_s: float = 0.0
    #: Cut the connection, and forward the request so much later.
    late_s: float = 0.0
    #: Called (in the proxy's thread) before forwarding.
    before: Callable[[str], object] | None = None
    seen: int = 0
    #: How many of them the API server has answered.
    answered: int = 0

    def matches(self, method: str, path: str, query: str) -> bool:
        return (
            self.seen < self.times
            and method == self.method
            and re.search(self.path, path) is not None
            and self.query in query
        )


class FaultProxy:
    """Start with `with`; `url` is where the scheduler goes."""

    def __init__(self, target: str, *, token: str = "", ca_file: str | None = None) -> None:
        self._target = target
        self._token = token
        self._tls = ssl.create_default_context(cafile=ca_file) if ca_file else None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault-proxy")
        self._spoilers: list[Spoiler] = []
        self._watches: set[asyncio.Task[Any]] = set()
        self._swallowed: set[asyncio.Task[Any]] = set()
        #: Requests of which the client has lost the connection.
        self._late: set[asyncio.Task[None]] = set()
        self._runner: web.ServerRunner | None = None
        self._server: web.Server | None = None
        self._is_away = False
        self._session: ClientSession | None = None
        self._port = 0
        #: Watches stay open and say nothing while this is set, as on a slow network.
        self.is_stalled = False
        #: (method, path) of everything that came through.
        self.requests: list[tuple[str, str]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def spoil(self, spoiler: Spoiler) -> Spoiler:
        self._spoilers.append(spoiler)
        return spoiler

    def clear(self) -> None:
        self._spoilers.clear()

    def cut_watches(self) -> None:
        """End every open watch stream."""

        async def cut() -> None:
            for task in list(self._watches):
                task.cancel()

        self._run(cut())

    def swallow_watches(self) -> None:
        """Every open watch stream stays open and says nothing more; new ones work."""

        async def swallow() -> None:
            self._swallowed |= self._watches

        self._run(swallow())

    def go_away(self) -> None:
        """The API server goes away: every connection is cut, old and new.

        The port stays open: closing it while clients connect makes Python 3.11 leak the sockets
        that it has accepted and not yet looked at.
        """
        self._run(self._cut_all())

    def come_back(self) -> None:
        self._is_away = False

    def listen_on(self, port: int) -> None:
        """Listen on a second port, too: a server that was not there when its client started."""
        self._run(self._listen(port))

    def __enter__(self) -> FaultProxy:
        self._thread.start()
        self._run(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_PATIENCE_S)
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_PATIENCE_S)

    async def _start(self) -> None:
        connector = TCPConnector(ssl=self._tls if self._tls is not None else True, limit=0)
        self._session = ClientSession(
            connector=connector, timeout=ClientTimeout(total=None), auto_decompress=False
        )
        self._server = web.Server(self._handle)
        self._runner = web.ServerRunner(self._server, shutdown_timeout=0.1)
        await self._runner.setup()
        self._port = await self._listen(0)

    async def _listen(self, port: int) -> int:
        assert self._runner is not None
        await web.TCPSite(self._runner, "127.0.0.1", port).start()
        bound: int = self._runner.addresses[-1][1]
        return bound

    async def _cut_all(self) -> None:
        assert self._server is not None
        self._is_away = True
        for connection in list(self._server.connections):
            if connection.transport is not None:
                connection.transport.abort()

    async def _end(self) -> None:
        await self._cut_all()
        assert self._runner is not None
        assert self._session is not None
        await self._runner.cleanup()
        await self._session.close()
        # Requests of a scheduler that was killed in the middle of them.
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        if self._tls is not None:
            # They say goodbye; a loop that stopped at once would leave their sockets open.
            await asyncio.sleep(0.1)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if self._is_away:
            return _cut(request)
        self.requests.append((request.method, request.path_qs))
        body = await request.read()
        asked = (request.method, request.path, request.query_string)
        spoiler = next((s for s in self._spoilers if s.matches(*asked)), None)
        if spoiler is not None:
            spoiler.seen += 1
            if spoiler.before is not None:
                before = spoiler.before
                await asyncio.get_running_loop().run_in_executor(None, before, request.path)
            if spoiler.delay_s:
                await asyncio.sleep(spoiler.delay_s)
            if spoiler.status:
                return _status(spoiler.status, spoiler.headers)
            if spoiler.late_s:
                task = asyncio.create_task(self._forward_late(spoiler, request, body))
                self._late.add(task)
                task.add_done_callback(self._late.discard)
                return _cut(request)
            if spoiler.refuse:
                return _cut(request)
        if "watch=" in request.query_string:
            return await self._stream(request)
        answer = await self._forward(request, body)
        if spoiler is not None:
            spoiler.answered += 1
            if spoiler.lose_answer:
                return _cut(request)
        return answer

    async def _forward_late(self, spoiler: Spoiler, request: web.BaseRequest, body: bytes) -> None:
        await asyncio.sleep(spoiler.late_s)
        await self._forward(request, body)
        spoiler.answered += 1

    async def _forward(self, request: web.BaseRequest, body: bytes) -> web.Response:
        assert self._session is not None
        async with self._session.request(
            request.method,
            self._target + request.path_qs,
            data=body,
            headers=self._headers(request),
            skip_auto_headers=["Content-Type"],  # a client that sends none
        ) as answer:
            headers = {k: v for k, v in answer.headers.items() if k.lower() not in _HOP_HEADERS}
            if "Content-Encoding" in answer.headers:
                headers["Content-Encoding"] = answer.headers["Content-Encoding"]
            return web.Response(status=answer.status, body=await answer.read(), headers=headers)

    async def _stream(self, request: web.BaseRequest) -> web.StreamResponse:
        assert self._session is not None
        task = asyncio.current_task()
        assert task is not None
        async with self._session.get(
            self._target + request.path_qs, headers=self._headers(request)
        ) as answer:
            response = web.StreamResponse(status=answer.status)
            response.content_type = "application/json"
            await response.prepare(request)
            self._watches.add(task)
            try:
                async for chunk in answer.content.iter_any():
                    while self.is_stalled:  # noqa: ASYNC110 - set from another thread
                        await asyncio.sleep(0.02)
                    if task not in self._swallowed:
                        await response.write(chunk)
            except ClientConnectionResetError:
                pass  # the scheduler hung up first
            finally:
                self._watches.discard(task)
                self._swallowed.discard(task)
            return response

    def _headers(self, request: web.BaseRequest) -> dict[str, str]:
        headers = {k: v for k, v in request.headers.items() if k.lower() not in _HOP_HEADERS}
        headers["Accept-Encoding"] = "identity"
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        return headers


def _status(code: int, headers: dict[str, str]) -> web.Response:
    return web.json_response(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "message": f"spoiled with {code}",
            "reason": {404: "NotFound", 409: "Conflict", 410: "Expired"}.get(code, ""),
            "code": code,
        },
        status=code,
        headers=headers,
    )


def _cut(request: web.BaseRequest) -> web.Response:
    transport = request.transport
    if transport is not None:
        transport.abort()
    return web.Response()
