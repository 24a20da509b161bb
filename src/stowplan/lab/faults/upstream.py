"""The proxy's connection to the API server, one for each client connection.

Made by the proxy for every client. What must stay true: when the API server closes an idle
connection, as it does when it is killed, the client's connection is closed, too.
"""

from __future__ import annotations

import asyncio
import ssl
from urllib.parse import SplitResult

from stowplan.lab.faults.wire import LIMIT, Head, read_head, write_head

#: The body is passed on whole, so that faults can be aimed at JSON.
_DROPPED = ("host", "accept-encoding", "connection", "transfer-encoding", "content-length")


class UpstreamLost(Exception):
    """The API server cannot be reached, or has closed the connection."""


class Upstream:
    """Opened by the first request."""

    def __init__(
        self,
        target: SplitResult,
        tls: ssl.SSLContext | None,
        token: str,
        client: asyncio.StreamWriter | None,
    ) -> None:
        self._target = target
        self._tls = tls
        self._token = token
        self._client = client
        self._writer: asyncio.StreamWriter | None = None
        self.reader = asyncio.StreamReader(LIMIT)
        #: A response is being read; then its reader notices the end of the connection.
        self.is_busy = False

    async def ask(self, head: Head, body: bytes) -> Head:
        """Send a request; the head of its response. The body is left to the caller."""
        self.is_busy = True
        try:
            if self._writer is None:
                await self._open()
            assert self._writer is not None
            self._writer.write(write_head(head.words, self._fields(head, body)) + body)
            await self._writer.drain()
            answer = await read_head(self.reader)
        except OSError as problem:
            raise UpstreamLost(str(problem)) from None
        if answer is None:
            raise UpstreamLost("the API server closed the connection")
        return answer

    def lost(self) -> None:
        """The API server has closed the connection."""
        if not self.is_busy and self._client is not None:
            self._client.close()

    def close(self) -> None:
        self.is_busy = True
        if self._writer is not None:
            self._writer.transport.abort()
            self._writer = None

    async def _open(self) -> None:
        loop = asyncio.get_running_loop()
        self.reader = asyncio.StreamReader(LIMIT)
        transport, protocol = await loop.create_connection(
            lambda: _Protocol(self.reader, self),
            self._target.hostname or "",
            self._target.port or 0,
            ssl=self._tls,
        )
        self._writer = asyncio.StreamWriter(transport, protocol, self.reader, loop)

    def _fields(self, head: Head, body: bytes) -> list[tuple[str, str]]:
        fields = [("Host", self._target.netloc), *head.without(*_DROPPED)]
        if self._token:
            fields = [pair for pair in fields if pair[0].lower() != "authorization"]
            fields.append(("Authorization", f"Bearer {self._token}"))
        fields.append(("Accept-Encoding", "identity"))
        if body or head.words[0] not in ("GET", "DELETE"):
            fields.append(("Content-Length", str(len(body))))
        return fields


class _Protocol(asyncio.StreamReaderProtocol):
    def __init__(self, reader: asyncio.StreamReader, upstream: Upstream) -> None:
        super().__init__(reader)
        self._upstream = upstream

    def eof_received(self) -> bool:
        super().eof_received()
        return False  # close our side, too

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._upstream.lost()
