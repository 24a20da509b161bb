"""TLS between the event loop's transport and a protocol, with little memory per connection.

`client` puts one below each connection that needs it. The event loops have TLS of their own, but it
keeps 256 KiB for every connection and allocates as much again with every read. With a hundred
connections that come and go this fragments the heap, and a scheduler grows for hours. Here a
connection costs what OpenSSL needs. Invariants: the protocol above sees what it would see of any
transport, and an end of the connection without TLS's close_notify is reported as an error.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Any, cast

#: The longest record.
_RECORD_BYTES = 16 * 1024
_NO_PROTOCOL = asyncio.Protocol()


class TlsClient(asyncio.Protocol, asyncio.Transport):
    """A protocol to the transport below it, a transport to the protocol above it.

    Await `settled` before using it.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        above: asyncio.Protocol,
        context: ssl.SSLContext,
        server_hostname: str,
    ) -> None:
        super().__init__()
        self._above = above
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming, self._outgoing, server_hostname=server_hostname
        )
        self._below: asyncio.Transport | None = None
        self._is_open = False
        self._has_ended = False
        self._problem: Exception | None = None
        #: Done when the handshake is complete or has failed (see `problem`).
        self.settled: asyncio.Future[None] = loop.create_future()

    @property
    def problem(self) -> Exception | None:
        """The error that ended the connection; None while it works."""
        return self._problem

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._below = cast(asyncio.Transport, transport)
        self._handshake()

    def data_received(self, data: bytes) -> None:
        self._incoming.write(data)
        if self._is_open:
            self._read()
            return
        if self._handshake() and self._incoming.pending:
            self._read()

    def connection_lost(self, problem: Exception | None) -> None:
        if self._problem is None and not self._has_ended:
            self._problem = problem or ConnectionResetError("Server disconnected")
        self._settle()
        # Break the reference cycle, which would wait for the garbage collector.
        above, self._above, self._below = self._above, _NO_PROTOCOL, None
        if self._is_open:
            self._is_open = False
            above.connection_lost(None if self._has_ended else self._problem)

    # Called by the protocol above

    def write(self, data: Any) -> None:
        try:
            sent = self._tls.write(data)
            while sent < len(data):
                sent += self._tls.write(memoryview(data)[sent:])
        except ssl.SSLError as problem:
            self._fail(problem)
        else:
            self._flush()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._above = cast(asyncio.Protocol, protocol)

    def close(self) -> None:
        if self._below is not None:
            self._below.close()

    def abort(self) -> None:
        if self._below is not None:
            self._below.abort()

    def pause_reading(self) -> None:
        if self._below is not None:
            self._below.pause_reading()

    def resume_reading(self) -> None:
        if self._below is not None:
            self._below.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default if self._below is None else self._below.get_extra_info(name, default)

    def _handshake(self) -> bool:
        """Return True when the handshake is complete."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
        except (ssl.SSLError, ssl.CertificateError) as problem:
            self._flush()  # sends the alert that says why
            self._fail(problem)
        else:
            self._flush()
            self._is_open = True
            self._above.connection_made(self)
            self._settle()
        return self._is_open

    def _read(self) -> None:
        incoming, read = self._incoming, self._tls.read
        chunks: list[bytes] = []
        try:
            chunks.append(read(_RECORD_BYTES))
            while incoming.pending and chunks[-1]:
                chunks.append(read(_RECORD_BYTES))
            self._has_ended = not chunks[-1]
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as problem:
            self._fail(problem)
        if self._outgoing.pending:
            self._flush()
        data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        if data:
            self._above.data_received(data)
        if self._has_ended and self._below is not None:
            self._below.close()

    def _flush(self) -> None:
        if self._below is not None and self._outgoing.pending:
            self._below.write(self._outgoing.read())

    def _fail(self, problem: Exception) -> None:
        """Close; `connection_lost` does the rest."""
        self._problem = self._problem or problem
        if self._below is not None:
            self._below.close()

    def _settle(self) -> None:
        if not self.settled.done():
            self.settled.set_result(None)
