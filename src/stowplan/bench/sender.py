"""Requests as fast as the API server takes them, by as little code as possible.

Used by `raw` for its bindings and by `live` for everything a workload creates. What must stay true:
nothing here costs more than a scheduler's own client could. That is why HTTP is spoken by hand;
aiohttp takes twice the CPU time a request, and on a machine where the API server wants every core
that would slow what is measured.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self, TypeAlias, cast
from urllib.parse import urlsplit

from stowplan.api.kubeconfig import ClusterConfig
from stowplan.api.tls import build_context

CONNECTIONS = 64
JSON = "application/json"
_END_OF_HEAD = b"\r\n\r\n"
_LENGTH = b"\r\ncontent-length:"
_LAST_CHUNK = b"\r\n0\r\n\r\n"

Answer: TypeAlias = "asyncio.Future[Any]"


class SendError(Exception):
    """The API server refused a request, or the connection broke. `status` is HTTP's, or 0."""

    def __init__(self, problem: str, status: int = 0) -> None:
        super().__init__(problem)
        self.status = status


class Sender:
    """Keeps all its connections busy; use as an async context manager.

    Requests are taken from the iterators given to `submit` at the moment they are sent, so that
    an iterator can note the time. `tolerated` are statuses that are no failure of a submitted
    request, such as 404 for deleting what may be gone.
    """

    def __init__(
        self,
        config: ClusterConfig,
        connections: int = CONNECTIONS,
        tolerated: Collection[int] = (),
    ) -> None:
        self.tolerated = tolerated
        parts = urlsplit(config.server)
        self._host, self._port = parts.hostname or "", parts.port or 443
        self._head = (
            f" HTTP/1.1\r\nHost: {parts.netloc}\r\nAuthorization: Bearer {config.token}\r\n"
            f"User-Agent: stowplan-bench\r\nAccept: {JSON}\r\nContent-Type: "
        )
        self._tls = build_context(config) if parts.scheme == "https" else None
        self._size = connections
        self._connections: list[_Connection] = []
        self._idle: list[_Connection] = []
        self._calls: deque[tuple[bytes, Answer]] = deque()
        self._sources: deque[Iterator[bytes]] = deque()
        self._failure: SendError | None = None
        self._changed = asyncio.Event()

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        for _ in range(self._size):
            _, connection = await loop.create_connection(
                lambda: _Connection(self), self._host, self._port, ssl=self._tls
            )
            self._connections.append(connection)
        self._idle = list(self._connections)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for connection in self._connections:
            connection.close()

    def request(
        self,
        path: str,
        body: Mapping[str, Any] | None,
        method: str = "POST",
        content_type: str = JSON,
    ) -> bytes:
        """A request as it goes over the wire."""
        content = "" if body is None else json.dumps(body, separators=(",", ":"))
        head = f"{method} {path}{self._head}{content_type}\r\nContent-Length: {len(content)}"
        return f"{head}\r\n\r\n{content}".encode()

    def submit(self, requests: Iterable[bytes]) -> None:
        """Send these after all that were submitted before; `drain` tells how they went."""
        self._sources.append(iter(requests))
        self._wake()

    async def call(
        self,
        path: str,
        body: Mapping[str, Any] | None = None,
        method: str = "POST",
        content_type: str = JSON,
    ) -> Any:
        """Send one request ahead of what is submitted, and return the answer's JSON."""
        answer: Answer = asyncio.get_running_loop().create_future()
        self._calls.append((self.request(path, body, method, content_type), answer))
        self._wake()
        return await answer

    async def drain(self) -> None:
        """Wait until everything is answered; raises SendError if a submitted request failed."""
        while self._failure is None and (self._sources or len(self._idle) < self._size):
            self._changed.clear()
            await self._changed.wait()
        self.check()

    def check(self) -> None:
        """Raise SendError if a submitted request failed."""
        if self._failure is not None:
            raise self._failure

    def _wake(self) -> None:
        idle, self._idle = self._idle, []
        for connection in idle:
            self.answered(connection)

    # The connections call these.

    def answered(self, connection: _Connection) -> None:
        """A connection is free again."""
        if self._calls:
            connection.send(*self._calls.popleft())
            return
        while self._sources and self._failure is None:
            request = next(self._sources[0], None)
            if request is not None:
                connection.send(request, None)
                return
            self._sources.popleft()
        self._idle.append(connection)
        self._changed.set()

    def failed(self, problem: SendError) -> None:
        self._failure = self._failure or problem
        self._changed.set()


class _Connection(asyncio.Protocol):
    """HTTP/1.1, one request at a time, as much of it as kube-apiserver's answers need."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self._received = b""
        self._transport: asyncio.Transport | None = None
        self._answer: Answer | None = None
        self._closing = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        if not self._closing:
            problem = SendError(f"the API server closed a connection: {error}")
            self._fail(problem)
            self._sender.failed(problem)

    def send(self, request: bytes, answer: Answer | None) -> None:
        assert self._transport is not None
        self._answer = answer
        self._transport.write(request)

    def close(self) -> None:
        self._closing = True
        if self._answer is not None and not self._answer.done():
            self._answer.cancel()
        if self._transport is not None:
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        received = self._received = self._received + data
        end = received.find(_END_OF_HEAD)
        if end < 0:
            return
        head = received[: end + 2].lower()
        begin = end + len(_END_OF_HEAD)
        at = head.find(_LENGTH)
        if at >= 0:
            length = int(head[at + len(_LENGTH) : head.index(b"\r\n", at + 2)])
            if len(received) < begin + length:
                return
        elif not received.endswith(_LAST_CHUNK):
            return
        self._received = b""
        if received[9:10] != b"2":
            problem = SendError(received.decode(errors="replace"), int(received[9:12]))
            if self._answer is not None or problem.status not in self._sender.tolerated:
                self._fail(problem)
        elif self._answer is not None and not self._answer.done():
            content = received[begin:] if at >= 0 else _joined(received[begin:])
            self._answer.set_result(json.loads(content) if content else None)
        self._answer = None
        self._sender.answered(self)

    def _fail(self, problem: SendError) -> None:
        """Whoever waits for this answer is told; a flood in which one request fails is over."""
        if self._answer is None:
            self._sender.failed(problem)
        elif not self._answer.done():
            self._answer.set_exception(problem)


def _joined(chunked: bytes) -> bytes:
    """The content of a chunked answer."""
    content, at = [], 0
    while True:
        line_end = chunked.index(b"\r\n", at)
        size = int(chunked[at:line_end], 16)
        if size == 0:
            return b"".join(content)
        content.append(chunked[line_end + 2 : line_end + 2 + size])
        at = line_end + 2 + size + 2
