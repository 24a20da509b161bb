"""A port of HTTPS that tells clients of plain HTTP what they did wrong, as Go's server does.

`server.https` opens one. A connection is looked at before TLS begins, and passed to the server when
its handshake is complete. Invariants: a connection has `HANDSHAKE_S` to get there, and at most
`MAX_STARTING` are on their way; one more closes the one that has waited longest.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Final

from stowplan.http.server import HttpServer
from stowplan.http.server_tls import ServerTls
from stowplan.logs import get_logger, kv

log = get_logger(__name__)

HANDSHAKE_S: Final = 10.0
MAX_STARTING: Final = 256
_PAUSE_S: Final = 1.0
_PLAIN_HTTP: Final = (
    b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
)


class TlsListener:
    """Accepts connections from its creation until `close`."""

    def __init__(self, server: HttpServer, tls: ServerTls, listening: socket.socket) -> None:
        self._server = server
        self._tls = tls
        self._listening = listening
        listening.setblocking(False)
        #: In the order of their arrival.
        self._starting: dict[asyncio.Task[None], None] = {}
        self._accepting = asyncio.create_task(self._accept(), name="accept")

    @property
    def port(self) -> int:
        port: int = self._listening.getsockname()[1]
        return port

    def close(self) -> None:
        for task in (self._accepting, *self._starting):
            task.cancel()
        self._listening.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(self._listening)
            except OSError as error:
                # Such as too many open files: there is no use in asking again at once.
                log.error("Cannot accept a connection", extra=kv(err=error))
                await asyncio.sleep(_PAUSE_S)
                continue
            if len(self._starting) >= MAX_STARTING:
                oldest = next(iter(self._starting))
                del self._starting[oldest]
                oldest.cancel()
            task = asyncio.create_task(self._start(accepted), name="handshake")
            self._starting[task] = None
            task.add_done_callback(lambda done: self._starting.pop(done, None))

    async def _start(self, accepted: socket.socket) -> None:
        is_ours = True
        try:
            async with asyncio.timeout(HANDSHAKE_S):
                await _wait_readable(accepted)
                first = accepted.recv(1, socket.MSG_PEEK)
                # A method of HTTP is written in capital letters, and no record of TLS begins so.
                if first.isupper():
                    accepted.recv(64 * 1024)  # closing with unread bytes resets the connection
                    accepted.send(_PLAIN_HTTP)
                elif first:
                    is_ours = False
                    await self._server.serve_accepted(accepted, ssl=self._tls.context)
        except OSError as error:  # gone, or too slow
            log.debug("A connection was not made", extra=kv(err=error))
        finally:
            if is_ours:
                accepted.close()


async def _wait_readable(accepted: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    is_readable = asyncio.Event()
    loop.add_reader(accepted, is_readable.set)
    try:
        await is_readable.wait()
    finally:
        loop.remove_reader(accepted)
