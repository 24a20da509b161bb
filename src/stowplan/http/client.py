"""Requests over kept-alive connections, with responses read whole or piece by piece.

`api.lanes` sends the requests of schedulers through it, the benchmarks theirs. It supports what
those need: one request at a time on a connection, gzip, proxies; no redirects. Invariants:
a connection is used again only after a response that was complete and had nothing behind it; the
guard is called immediately before each write of a request; `NotConnected` means that nothing was
sent; an unread response takes no more than a few megabytes of memory, however well it is packed.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from typing import Final, TypeAlias, cast

from stowplan.http import response_body
from stowplan.http.connecting import Proxy, enable_keepalive, open_connection
from stowplan.http.parser import ProtocolError, ResponseHead, parse_response
from stowplan.http.response_body import ResponseBody

#: Called immediately before the bytes of a request are written; raises if they must not be.
Guard: TypeAlias = Callable[[], None]

_CONNECT_TIMEOUT_S: Final = 10.0
#: Below the API server's 90 s, so that idle connections are closed by the client.
_KEEPALIVE_S: Final = 60.0


class NotConnected(Exception):
    """There is no connection, so nothing was sent; the cause says why."""


class Disconnected(Exception):
    """The connection ended without a response, or with an error in the middle of one."""


class BrokenOff(ProtocolError):
    """The connection ended in the middle of a response."""

    def __init__(self) -> None:
        super().__init__("the response was cut off")


class TooLong(ProtocolError):
    """The response is longer than any response to such a request."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"the answer is longer than {limit // 1024 // 1024} MiB")


class Pool:
    """Connections to one server. The caller limits how many requests run at a time."""

    def __init__(
        self, host: str, port: int, *, server_hostname: str = "", proxy: Proxy | None = None
    ) -> None:
        self._host = host
        self._port = port
        self._server_hostname = server_hostname
        self._proxy = proxy
        self._idle: deque[ClientConnection] = deque()
        self._is_closed = False

    def close(self) -> None:
        self._is_closed = True
        while self._idle:
            self._idle.pop().close()

    async def ask(
        self,
        request: bytes,
        tls: ssl.SSLContext | None,
        *,
        is_repeatable: bool = False,
        guard: Guard | None = None,
        unpacks: bool = False,
    ) -> ClientResponse:
        """Send a request and return when its response begins. Read or close the response.

        The server may close an idle connection at the moment when it is used; a repeatable request
        is then sent again, on a new connection. With `unpacks`, gzip is decoded; without it, an
        encoded response is an error. A cancelled request closes its connection.
        """
        connection = self._take(tls)
        is_new = connection is None
        if connection is None:
            connection = await self.connect(tls)
        while True:
            try:
                head = await connection.ask(request, guard, unpacks)
            except BaseException as problem:
                connection.close()
                if is_new or not is_repeatable or not isinstance(problem, Disconnected):
                    raise
            else:
                return ClientResponse(self, connection, head)
            connection, is_new = await self.connect(tls), True

    def _take(self, tls: ssl.SSLContext | None) -> ClientConnection | None:
        """Return the connection that was used last, so that surplus ones grow old."""
        idle = self._idle
        if not idle:
            return None
        oldest = idle[0]
        if oldest.loop.time() - oldest.idle_since > _KEEPALIVE_S:
            idle.popleft().close()
        while idle:
            connection = idle.pop()
            if connection.is_reusable and connection.tls is tls:
                return connection
            connection.close()
        return None

    def release(self, connection: ClientConnection) -> None:
        """Keep a connection for the next request if it can be used again."""
        if connection.is_reusable and not self._is_closed:
            connection.idle_since = connection.loop.time()
            self._idle.append(connection)
        else:
            connection.close()

    async def connect(self, tls: ssl.SSLContext | None) -> ClientConnection:
        if self._is_closed:
            raise RuntimeError("the client is closed")
        connection = ClientConnection(asyncio.get_running_loop(), tls)
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                await open_connection(
                    connection,
                    self._host,
                    self._port,
                    tls=tls,
                    server_hostname=self._server_hostname,
                    proxy=self._proxy,
                )
        except (OSError, ssl.CertificateError) as problem:  # TimeoutError is an OSError
            raise NotConnected from problem
        return connection


class ClientResponse:
    """A response that has begun."""

    __slots__ = ("_connection", "_pool", "head", "status")

    def __init__(self, pool: Pool, connection: ClientConnection, head: ResponseHead) -> None:
        self.head = head
        self.status = head.status
        self._pool = pool
        self._connection: ClientConnection | None = connection

    async def piece(self) -> bytes:
        """Return what has come meanwhile; empty at the end."""
        assert self._connection is not None
        return await self._connection.piece()

    async def read(self, limit: int) -> bytes:
        """Return the rest of the body and close; TooLong above so many bytes."""
        connection = self._connection
        assert connection is not None
        pieces: list[bytes] = []
        size = 0
        try:
            while not connection.is_complete and size <= limit:
                pieces.append(await connection.piece())
                size += len(pieces[-1])
            last = connection.take_unread()
        finally:
            self.close()
        if size + len(last) > limit:
            raise TooLong(limit)
        return b"".join([*pieces, last]) if pieces else last

    def close(self) -> None:
        """Stop reading. The connection of a complete response returns to the pool."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.finish()
            self._pool.release(connection)


class ClientConnection(asyncio.Protocol):
    """A connection with one request at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, tls: ssl.SSLContext | None = None) -> None:
        self.loop = loop
        self.tls = tls
        self.idle_since = 0.0
        self.is_reusable = True
        self.head: ResponseHead | None = None
        self.failure: Exception | None = None
        self._body: ResponseBody | None = None
        self._unpacks = False
        self._transport: asyncio.Transport | None = None
        self._is_asked = False
        self._received = b""
        self._unread: list[bytes] = []
        self._unread_size = 0
        self._is_paused = False
        self._waiting: asyncio.Future[None] | None = None

    # Asking

    def send(self, request: bytes, guard: Guard | None = None, *, unpacks: bool = False) -> None:
        assert self._transport is not None
        self._is_asked = True
        self._unpacks = unpacks
        self.head = self._body = None
        if guard is not None:
            guard()
        self._transport.write(request)

    async def ask(self, request: bytes, guard: Guard | None, unpacks: bool) -> ResponseHead:
        self.send(request, guard, unpacks=unpacks)
        while self.head is None:
            if self.failure is not None:
                raise self.failure
            self._waiting = self.loop.create_future()
            await self._waiting
        return self.head

    async def piece(self) -> bytes:
        body = self._body
        assert body is not None
        while not self._unread:
            if body.has_more:
                self._take_more(body)
                continue
            if self.failure is not None:
                raise self.failure
            self._resume_reading()
            if body.is_complete:
                return b""
            self._waiting = self.loop.create_future()
            await self._waiting
        return self.take_unread()

    def take_unread(self) -> bytes:
        """Return what was received and not read yet."""
        unread = self._unread[0] if len(self._unread) == 1 else b"".join(self._unread)
        self._unread.clear()
        self._unread_size = 0
        if self._is_paused and self._body is not None and not self._body.has_more:
            self._resume_reading()
        return unread

    @property
    def is_complete(self) -> bool:
        """True if all of the response was received and unpacked."""
        body = self._body
        return body is not None and body.is_complete and not body.has_more and not self.failure

    def finish(self) -> None:
        """Stop reading the response."""
        self._is_asked = False
        body = self._body
        is_over = body is not None and body.is_complete and not (body.is_followed or body.has_more)
        if not is_over or self._unread or self.head is None or not self.head.keeps_alive:
            self.is_reusable = False

    def close(self) -> None:
        self.is_reusable = False
        self._is_asked = False
        if self._transport is not None:
            self._transport.abort()

    def _take_more(self, body: ResponseBody) -> None:
        try:
            self._unread.append(body.more())
        except ProtocolError as problem:
            self._fail(problem)
        else:
            self._unread_size += len(self._unread[-1])

    def _resume_reading(self) -> None:
        if self._is_paused:
            assert self._transport is not None
            self._is_paused = False
            self._transport.resume_reading()

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        enable_keepalive(transport.get_extra_info("socket"))

    def data_received(self, data: bytes) -> None:
        if not self._is_asked:
            self.is_reusable = False  # bytes that belong to no request
            return
        try:
            self._receive(data)
        except ProtocolError as problem:
            self._fail(problem)
        self.on_progress()

    def _receive(self, data: bytes) -> None:
        body = self._body
        if body is None:
            if self._received:
                data = self._received + data
            found = parse_response(data)
            if found is None:
                self._received = data
                return
            self._received = b""
            head, begin = found
            body = self._body = ResponseBody(head, self._unpacks)
            self.head = head
            data = data[begin:]
        content = body.feed(data)
        if content:
            self._unread.append(content)
            self._unread_size += len(content)
        is_enough = self._unread_size > response_body.MAX_UNREAD or body.has_more
        if is_enough and not self._is_paused:
            assert self._transport is not None
            self._is_paused = True
            self._transport.pause_reading()

    def connection_lost(self, problem: Exception | None) -> None:
        self.is_reusable = False
        body = self._body
        if not self._is_asked or (body is not None and body.is_complete):
            return
        if problem is None and body is not None:
            if body.ends_with_connection:
                body.is_complete = True
            else:
                self._fail(BrokenOff())
        else:
            self._fail(Disconnected(str(problem or "Server disconnected")))
        self.on_progress()

    def _fail(self, problem: Exception) -> None:
        self.is_reusable = False
        self.failure = self.failure or problem

    def on_progress(self) -> None:
        """Called when something was received or the connection failed."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)
