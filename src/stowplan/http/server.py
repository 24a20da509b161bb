"""An HTTP/1.1 server with limits on everything that a client sends or delays.

The extender service and the health port run on it. It is our own because an extender is asked twice
for every pod, and a scheduler that starts must not wait for a framework to load; docs/http.md has
the figures. Invariants: no client, however slow, delays others or occupies memory for longer than
the timeouts; requests under way are answered while the server stops.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from typing import Any, Final, TypeAlias

from stowplan.http.messages import Limits, Site
from stowplan.http.server_connection import LINGER_S, ServerConnection
from stowplan.logs import get_logger, kv

log = get_logger(__name__)

Listen: TypeAlias = Callable[[Callable[[], asyncio.BaseProtocol]], Awaitable[asyncio.Server]]


#: Enough for the names of thousands of nodes.
_ARRIVING: Final = 256 * 1024


class HttpServer:
    """Serves a site until `stop`."""

    def __init__(self, site: Site, limits: Limits) -> None:
        self.site = site
        self.limits = limits
        #: In the order of their last requests.
        self.connections: dict[ServerConnection, None] = {}
        self.one_gone = asyncio.Event()
        self.is_stopping = False
        #: All clients' bytes are received here first, and copied or used at once.
        self.arrived = bytearray(_ARRIVING)
        self.arrivals = memoryview(self.arrived)
        #: Bytes of large bodies under way, and of responses that clients are slow to read.
        self.body_bytes = 0
        #: For the header of responses; renewed by the sweep.
        self.date = ""
        self._servers: list[asyncio.Server] = []
        self._sweeper: asyncio.Task[None] | None = None
        self._adopting: set[asyncio.Task[None]] = set()

    async def listen(self, listen: Listen) -> asyncio.Server:
        """Call `listen` with a factory of connections; OSError if it fails."""
        server = await listen(lambda: ServerConnection(self))
        self._servers.append(server)
        return server

    def adopt(self, accepted: socket.socket, **tls: Any) -> None:
        """Serve a connection that was accepted elsewhere."""
        task = asyncio.create_task(self.serve_accepted(accepted, **tls), name="adopting")
        self._adopting.add(task)
        task.add_done_callback(self._adopting.discard)

    async def serve_accepted(self, accepted: socket.socket, **tls: Any) -> None:
        """Return when the handshake of such a connection has succeeded or failed."""
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(lambda: ServerConnection(self), accepted, **tls)
        except OSError as error:  # a handshake that failed, or a client that is gone
            log.debug("A connection was not made", extra=kv(err=error))

    async def stop(self, grace_s: float) -> int:
        """Stop listening and let requests under way end; return how many were cut off."""
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

    def add(self, connection: ServerConnection) -> bool:
        """Register a new connection; False if there is no room for it."""
        if self.is_stopping:
            return False
        if len(self.connections) >= self.limits.max_connections:
            evicted = self._least_wanted()
            if evicted is None:
                return False
            self.remove(evicted)
            evicted.abort()
        self.connections[connection] = None
        if self._sweeper is None or self._sweeper.done():
            self.date = formatdate(usegmt=True)
            self._sweeper = asyncio.create_task(self._sweep(), name="slow clients")
        return True

    def _least_wanted(self) -> ServerConnection | None:
        """Which connection makes room for a new one.

        Oldest first: one that never completed a request, then one of the client with most
        connections, so that many idle ones cost no other client its own.
        """
        idle = [each for each in self.connections if each.may_be_evicted]
        unknown = next((each for each in idle if not each.is_known), None)
        if unknown is not None or not idle:
            return unknown
        counts = Counter(each.address for each in idle)
        most = max(counts, key=lambda address: counts[address])
        return next(each for each in idle if each.address == most)

    def refuse_slowest_body(self, asking: ServerConnection) -> bool:
        """Refuse the large body that has been without news for longest; False if there is no other.

        A client that sends slowly, or stops, then costs no other client its request.
        """
        others = [each for each in self.connections if each is not asking and each.body_bytes]
        if not others:
            return False
        min(others, key=lambda each: each.last_piece_at).give_up_body()
        return True

    def used(self, connection: ServerConnection) -> None:
        """Note that a connection has completed a request."""
        connection.is_known = True
        if connection in self.connections:
            del self.connections[connection]
            self.connections[connection] = None

    def remove(self, connection: ServerConnection) -> None:
        self.connections.pop(connection, None)
        self.one_gone.set()

    async def _sweep(self) -> None:
        """End connections past their deadlines, which is cheaper than a timer for every request."""
        shortest = min(self.limits.request_timeout_s, self.limits.idle_timeout_s)
        while self.connections:
            await asyncio.sleep(min(0.5, shortest / 4))
            self.date = formatdate(usegmt=True)
            now = time.monotonic()
            for connection in list(self.connections):
                if connection.deadline < now:
                    connection.on_deadline()
