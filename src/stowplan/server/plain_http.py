"""A very small HTTP/1.1 server: GET of known paths, answered at once from memory.

`http` says what is served. A general web framework would do, but loading one takes a good part of
the time in which a scheduler is to have bound its first pod. What must stay true: nothing that a
client sends raises, or is kept beyond a few kilobytes; an answer never waits for anything; nobody
who is slow, or does not read what was asked for, stays longer than the limits below, keeps more
than one answer in memory, or keeps others out.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final, TypeAlias, cast
from urllib.parse import parse_qs, unquote

from stowplan.logs import get_logger

log = get_logger(__name__)

TEXT: Final = "text/plain; charset=utf-8"
#: A query's values by name; a name alone has one empty value.
Query: TypeAlias = Mapping[str, list[str]]

_END_OF_HEAD: Final = b"\r\n\r\n"
_MAX_HEAD: Final = 16 * 1024
#: For a request from the end of the last one, and for its answer to be read.
_IDLE_S: Final = 75.0
#: What is under way when the server stops has so long to arrive.
_LINGER_S: Final = 1.0
#: Probes and scrapers are few. Of more the one that was heard of least lately has to go, so that
#: a crowd of idle ones cannot make a process look dead.
_MAX_CONNECTIONS: Final = 256


@dataclass(frozen=True, slots=True)
class Response:
    body: bytes
    status: int = 200
    content_type: str = TEXT
    headers: Mapping[str, str] = field(default_factory=dict)


Route: TypeAlias = Callable[[Query], Response]


class PlainServer:
    """Serves `routes` (by path) until `stop`; they may be added to while it runs."""

    def __init__(self) -> None:
        self.routes: dict[str, Route] = {}
        #: The one that was heard of last is last.
        self.connections: dict[_Connection, None] = {}
        self.is_stopping = False
        self._all_gone = asyncio.Event()
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen, and say on which port; OSError if that is not possible."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Connection(self), host, port)
        taken: int = self._server.sockets[0].getsockname()[1]
        return taken

    async def stop(self) -> None:
        server, self._server = self._server, None
        if server is None:
            return
        self.is_stopping = True
        server.close()
        for connection in list(self.connections):
            connection.close(within_s=_LINGER_S)
        while self.connections:
            self._all_gone.clear()
            await self._all_gone.wait()
        await server.wait_closed()

    def heard_of(self, connection: _Connection) -> None:
        self.connections.pop(connection, None)
        self.connections[connection] = None
        if len(self.connections) > _MAX_CONNECTIONS:
            longest_silent = next(iter(self.connections))
            self.forget(longest_silent)
            longest_silent.abort()

    def forget(self, connection: _Connection) -> None:
        self.connections.pop(connection, None)
        if not self.connections:
            self._all_gone.set()

    def answer(self, method: str, target: str) -> Response:
        path, _, query = target.partition("?")
        route = self.routes.get(unquote(path))
        if route is None:
            return _status(HTTPStatus.NOT_FOUND)
        if method not in ("GET", "HEAD"):
            return _status(HTTPStatus.METHOD_NOT_ALLOWED, {"Allow": "GET,HEAD"})
        try:
            return route(parse_qs(query, keep_blank_values=True))
        except Exception:
            log.exception("A request could not be answered")
            return _status(HTTPStatus.INTERNAL_SERVER_ERROR)


def _status(status: HTTPStatus, headers: Mapping[str, str] | None = None) -> Response:
    return Response(f"{status.value}: {status.phrase}".encode(), status.value, TEXT, headers or {})


class _Connection(asyncio.Protocol):
    def __init__(self, server: PlainServer) -> None:
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport = cast(asyncio.Transport, None)
        self._received = b""
        self._is_full = False
        self._patience: asyncio.TimerHandle | None = None

    def close(self, within_s: float) -> None:
        """When what was answered has been sent, and in any case soon."""
        self._transport.close()
        self._be_patient_for(within_s)

    def abort(self) -> None:
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._server.is_stopping:
            self.abort()
        else:
            self._wait_for_next()

    def connection_lost(self, problem: Exception | None) -> None:
        self._server.forget(self)
        if self._patience is not None:
            self._patience.cancel()

    def data_received(self, data: bytes) -> None:
        self._received += data
        self._advance()

    def pause_writing(self) -> None:
        """The client does not read as fast as it asks: it is heard again when it has read."""
        self._is_full = True
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._is_full = False
        if self._transport.is_closing():
            return
        self._wait_for_next()
        self._transport.resume_reading()
        self._advance()

    def _advance(self) -> None:
        while not self._is_full and not self._transport.is_closing():
            head, separator, rest = self._received.partition(_END_OF_HEAD)
            if not separator:
                if len(head) > _MAX_HEAD:
                    self._send(_status(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE), is_last=True)
                return
            self._received = rest
            self._handle(head.decode("latin-1"))
            self._wait_for_next()

    def _handle(self, head: str) -> None:
        request, *lines = head.split("\r\n")
        words = request.split(" ")
        if len(words) != 3 or not words[1].startswith("/") or not words[2].startswith("HTTP/1."):
            self._send(_status(HTTPStatus.BAD_REQUEST), is_last=True)
            return
        method, target, version = words
        headers = {
            name.strip().lower(): value.strip().lower()
            for name, _, value in (line.partition(":") for line in lines)
        }
        # What a request carries is not read, so that nothing can follow it on this connection.
        carries = "transfer-encoding" in headers or headers.get("content-length", "0") != "0"
        wanted = headers.get("connection", "close" if version == "HTTP/1.0" else "")
        self._send(
            self._server.answer(method, target),
            is_last=carries or wanted == "close",
            is_shown=method != "HEAD",
        )

    def _send(self, answer: Response, *, is_last: bool, is_shown: bool = True) -> None:
        headers = {
            "Content-Type": answer.content_type,
            "Content-Length": str(len(answer.body)),
            "Date": time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime()),
            **answer.headers,
            **({"Connection": "close"} if is_last else {}),
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        head = f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}\r\n{lines}\r\n"
        self._transport.write(head.encode("latin-1") + (answer.body if is_shown else b""))
        if is_last:
            self._transport.close()

    def _wait_for_next(self) -> None:
        self._server.heard_of(self)
        self._be_patient_for(_IDLE_S)

    def _be_patient_for(self, seconds: float) -> None:
        if self._patience is not None:
            self._patience.cancel()
        # To close would be to wait until all is sent, which may be never.
        self._patience = self._loop.call_later(seconds, self.abort)
