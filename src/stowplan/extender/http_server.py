"""An HTTP/1.1 server for requests with bodies: limits on all that a client may send, or be slow at.

`service` says what is served, `serving` where. It is our own because an extender is asked twice a
pod: what a general framework spends on a request is more than most algorithms do. What must stay
true: no client, however slow, keeps others waiting, or keeps memory for longer than the timeouts
say; requests under way are answered also while the server is being stopped.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from typing import Any, Final, TypeAlias

from stowplan.extender.http_connection import LINGER_S, Connection
from stowplan.extender.http_messages import Limits, Site
from stowplan.logs import get_logger, kv

log = get_logger(__name__)

Listen: TypeAlias = Callable[[Callable[[], asyncio.BaseProtocol]], Awaitable[asyncio.Server]]


#: A question about thousands of nodes by name, and its headers.
_ARRIVING: Final = 256 * 1024


class HttpServer:
    """Serves a site on whatever it is told to listen on, until `stop`."""

    def __init__(self, site: Site, limits: Limits) -> None:
        self.site = site
        self.limits = limits
        self.connections: set[Connection] = set()
        self.one_gone = asyncio.Event()
        self.is_stopping = False
        #: What a client sends is first seen here, whoever it is: nobody keeps it for longer.
        self.arrived = bytearray(_ARRIVING)
        self.arrivals = memoryview(self.arrived)
        #: Of large bodies under way.
        self.body_bytes = 0
        #: For the header of answers; written anew when slow clients are looked for.
        self.date = formatdate(usegmt=True)
        self._servers: list[asyncio.Server] = []
        self._sweeper: asyncio.Task[None] | None = None
        self._adopting: set[asyncio.Task[None]] = set()

    async def listen(self, listen: Listen) -> asyncio.Server:
        """`listen` gets the maker of protocols; OSError if it fails."""
        server = await listen(lambda: Connection(self))
        self._servers.append(server)
        self._begin_sweeping()
        return server

    def adopt(self, accepted: socket.socket, **tls: Any) -> None:
        """Serve a client whom somebody else has accepted."""
        self._begin_sweeping()
        task = asyncio.create_task(self._adopt(accepted, tls), name="adopting")
        self._adopting.add(task)
        task.add_done_callback(self._adopting.discard)

    async def _adopt(self, accepted: socket.socket, tls: dict[str, Any]) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(lambda: Connection(self), accepted, **tls)
        except OSError as error:  # a handshake that failed, or a client that is gone
            log.debug("A connection was not made", extra=kv(err=error))

    async def stop(self, grace_s: float) -> int:
        """Take no more connections, let requests under way end; how many had to be cut off."""
        self.is_stopping = True
        for server in self._servers:
            server.close()
        for connection in list(self.connections):
            connection.close_if_idle()
        cut_off = 0
        if not await self._all_gone(grace_s):
            cut_off = len(self.connections)
            for connection in list(self.connections):
                connection.abort()
            await self._all_gone(LINGER_S)
        if self._sweeper is not None:
            self._sweeper.cancel()
        return cut_off

    async def _all_gone(self, patience_s: float) -> bool:
        try:
            async with asyncio.timeout(patience_s):
                while self.connections:
                    self.one_gone.clear()
                    await self.one_gone.wait()
        except TimeoutError:
            return False
        return True

    def _begin_sweeping(self) -> None:
        if self._sweeper is None:
            self._sweeper = asyncio.create_task(self._sweep(), name="slow clients")

    async def _sweep(self) -> None:
        """One look at all connections is cheaper than a timer for every request."""
        shortest = min(self.limits.request_timeout_s, self.limits.idle_timeout_s)
        while True:
            await asyncio.sleep(min(0.5, shortest / 4))
            self.date = formatdate(usegmt=True)
            now = time.monotonic()
            for connection in list(self.connections):
                if connection.deadline < now:
                    connection.on_deadline()
