"""Kept-alive connections to one server, of which the one used last is used first.

`http1` keeps those for short answers in it, `streams` those for long ones. What must stay true: a
connection is handed to one asker at a time, and only while it is reusable, young enough, and of the
TLS context asked for; whoever is told NotConnected knows that nothing was sent.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar, cast

from stowplan.api.tls_client import TlsClient

_CONNECT_TIMEOUT_S = 10.0
_KEEPALIVE_S = 60.0  # below the API server's own 90 s, so that it is we who close idle connections


class NotConnected(Exception):
    """There is no connection, so nothing was sent; why is the cause."""


class Connection(Protocol):
    """What is kept: an asyncio protocol that knows whether it can be used once more."""

    loop: asyncio.AbstractEventLoop
    tls: ssl.SSLContext | None
    idle_since: float
    is_reusable: bool

    def close(self) -> None: ...


C = TypeVar("C", bound=Connection)


class Connections(Generic[C]):
    """Opens and keeps; how many requests run at a time is the caller's affair."""

    def __init__(
        self,
        make: Callable[[asyncio.AbstractEventLoop, ssl.SSLContext | None], C],
        host: str,
        port: int,
        *,
        server_hostname: str = "",
    ) -> None:
        self._make = make
        self._host = host
        self._port = port
        self._server_hostname = server_hostname
        self._idle: deque[C] = deque()
        self._is_closed = False

    def close(self) -> None:
        self._is_closed = True
        while self._idle:
            self._idle.pop().close()

    def take(self, tls: ssl.SSLContext | None) -> C | None:
        """The connection that was used last, so that those which are not needed grow old."""
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

    def keep(self, connection: C) -> None:
        """For the next one who asks, if it can be used again."""
        if connection.is_reusable and not self._is_closed:
            connection.idle_since = connection.loop.time()
            self._idle.append(connection)
        else:
            connection.close()

    async def connect(self, tls: ssl.SSLContext | None) -> C:
        if self._is_closed:
            raise RuntimeError("the client is closed")
        loop = asyncio.get_running_loop()
        connection = self._make(loop, tls)
        protocol = cast(asyncio.Protocol, connection)
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                if tls is None:
                    await loop.create_connection(lambda: protocol, self._host, self._port)
                else:
                    name = self._server_hostname or self._host
                    await self._connect_layer(loop, TlsClient(loop, protocol, tls, name))
        except (OSError, ssl.CertificateError) as problem:  # TimeoutError is an OSError
            raise NotConnected from problem
        return connection

    async def _connect_layer(self, loop: asyncio.AbstractEventLoop, layer: TlsClient) -> None:
        await loop.create_connection(lambda: layer, self._host, self._port)
        try:
            await layer.settled
        except BaseException:
            layer.abort()
            raise
        if layer.problem is not None:
            raise layer.problem


def find_out_that_the_other_side_is_gone(connected: socket.socket) -> None:
    """Within a minute, even when idle."""
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 60_000)
