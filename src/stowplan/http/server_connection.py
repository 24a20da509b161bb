"""One client of a server: bytes become requests, responses become bytes.

`server` creates one for every connection and checks its deadline. Invariants: nothing that a client
sends raises here, and every request that was read completely is answered.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable
from enum import Enum, auto
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, cast

from stowplan.http.messages import PeerCertificate, Request, Response, Stream
from stowplan.http.parser import (
    CHUNKED,
    END_OF_HEAD,
    MAX_HEAD,
    ChunkedDecoder,
    ProtocolError,
    RequestHead,
    find_head,
    parse_request,
)
from stowplan.http.server_tls import peer_certificate
from stowplan.logs import get_logger

if TYPE_CHECKING:
    from stowplan.http.server import HttpServer

log = get_logger(__name__)

#: Bodies under way and unread responses of all clients together, in multiples of the largest body.
_BODIES_AT_A_TIME: Final = 2
_TOO_MANY: Final = "too many large requests at a time; try again"
LINGER_S: Final = 5.0
_MAX_UNREAD: Final = 64 * 1024
#: A client of a stream that leaves more than this unread is cut off.
_MAX_STREAM_UNREAD: Final = 1024 * 1024
_PHRASES: Final = {status.value: status.phrase for status in HTTPStatus}
#: How every TLS connection begins.
_HANDSHAKE: Final = b"\x16"
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


class _State(Enum):
    HEAD = auto()
    BODY = auto()
    ANSWERING = auto()
    #: Answered before all was read. The rest is discarded, so that the response arrives.
    LINGERING = auto()


class _GoneTransport(asyncio.Transport):
    """Of a connection that is closed."""

    def is_closing(self) -> bool:
        return True

    def can_write_eof(self) -> bool:
        return False

    def write(self, data: object) -> None:
        """Send nothing."""

    def _ignore(self) -> None:
        """Do nothing."""

    close = abort = pause_reading = resume_reading = _ignore


_GONE: Final = _GoneTransport()


class ServerConnection(asyncio.BufferedProtocol):
    """One client."""

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._limits = server.limits
        self._transport: asyncio.Transport = cast(asyncio.Transport, None)
        self._received = bytearray()
        self._state = _State.HEAD
        self._head: RequestHead | None = None
        self._chunks: ChunkedDecoder | None = None
        #: A body in chunks.
        self._content = bytearray()
        #: A large body, which is received in place, and how much of it has come.
        self._large: bytearray | None = None
        self._filled = 0
        self._counted = 0
        #: The size of the last response, and of it the part that counts while it is unread.
        self._answered = self._unread = 0
        self._certificate: PeerCertificate | None = None
        self._source = ""
        self._is_full = False
        self._is_tls = False
        self._is_ended = False
        self._task: asyncio.Task[None] | None = None
        self._stream: Stream | None = None
        self.deadline = math.inf
        #: Whether it has completed a request.
        self.is_known = False
        #: When the latest bytes of a large body came.
        self.last_piece_at = 0.0

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if not self._server.add(self):
            self._transport.abort()
            return
        tls = transport.get_extra_info("ssl_object")
        self._is_tls = tls is not None
        if tls is not None:
            self._certificate = peer_certificate(tls)
            host, port, *_ = transport.get_extra_info("peername") or ("", 0)
            self._source = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self.deadline = time.monotonic() + self._limits.request_timeout_s

    def connection_lost(self, problem: Exception | None) -> None:
        # TLS refers to this object, which must not refer to TLS any more: a cycle of 50 KiB for
        # every connection would wait for the garbage collector, which runs rarely on a standby.
        self._transport = _GONE
        self._server.remove(self)
        self._count(0)
        self._keep_unread(0)
        self._received, self._content = bytearray(), bytearray()
        self._large = None
        if self._task is not None:
            self._task.cancel()
        if self._stream is not None:
            self._stream.closed()

    def get_buffer(self, hint: int) -> memoryview:
        if self._large is not None:
            return memoryview(self._large)[self._filled :]
        return self._server.arrivals

    def buffer_updated(self, count: int) -> None:
        if self._state is _State.LINGERING:
            return
        if self._large is not None:
            self._filled += count
            self.last_piece_at = time.monotonic()
            if self._is_counted(self._filled) and self._filled == len(self._large):
                self._advance()
            return
        is_first = not self._received and self._state is _State.HEAD
        if is_first:
            self.deadline = time.monotonic() + self._limits.request_timeout_s
            if not self._is_full and self._take_whole(count):
                return
        self._received += self._server.arrivals[:count]
        if self._state is _State.ANSWERING or self._is_full:
            if len(self._received) > _MAX_UNREAD:
                self._transport.pause_reading()
            return
        self._advance()

    def eof_received(self) -> bool:
        self._is_ended = True
        if self._state is _State.BODY or self._received:
            self._refuse(HTTPStatus.BAD_REQUEST, "the request ended early")
        # A client that has closed only its own direction still gets its response. TLS has no such
        # thing.
        is_awaited = self._state is _State.ANSWERING and self._stream is None
        return is_awaited and not self._is_tls

    def pause_writing(self) -> None:
        self._is_full = True
        self._keep_unread(self._answered)
        self.deadline = time.monotonic() + self._limits.request_timeout_s

    def resume_writing(self) -> None:
        self._is_full = False
        self._keep_unread(0)
        if self._state is _State.HEAD:
            self._wait_for_next()
            self._transport.resume_reading()
            self._advance()

    # Called by the server

    def close_if_idle(self) -> None:
        if self._state is _State.HEAD and not self._received and not self._is_full:
            self._transport.close()

    @property
    def address(self) -> str:
        """The client's address, without its port."""
        return str((self._transport.get_extra_info("peername") or ("",))[0])

    @property
    def body_bytes(self) -> int:
        """Bytes of a large body that has not come completely."""
        return self._counted if self._state is _State.BODY else 0

    def give_up_body(self) -> None:
        self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, _TOO_MANY)

    @property
    def may_be_evicted(self) -> bool:
        return self._state is not _State.ANSWERING

    def abort(self) -> None:
        self._transport.abort()

    def on_deadline(self) -> None:
        is_done = self._state is _State.LINGERING or self._transport.is_closing()
        if is_done or self._is_full:
            self._transport.abort()
        elif self._state is _State.HEAD and not self._received:
            self._transport.close()
        elif self._state is not _State.ANSWERING:
            limit = self._limits.request_timeout_s
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, f"the request took more than {limit:g} s")

    # A request, from its first byte to its response

    def _advance(self) -> None:
        """Process what was received; a client may send several requests at once."""
        try:
            while not self._is_full and not self._transport.is_closing():
                if self._state is _State.HEAD and not self._read_head():
                    return
                if self._state is _State.BODY:
                    body = self._read_body()
                    if body is None:
                        return
                    self._answer(body)
                if self._state in (_State.ANSWERING, _State.LINGERING):
                    return
        except ProtocolError as refused:
            self._refuse(refused.status, str(refused))

    def _take_whole(self, count: int) -> bool:
        """Answer the received bytes at once if they are exactly one request, as most are."""
        arrived = self._server.arrived
        end = arrived.find(END_OF_HEAD, 0, min(count, MAX_HEAD))
        if end < 0:
            return False
        start = end + len(END_OF_HEAD)
        try:
            head = parse_request(bytes(arrived[:end]))
            if head.length != count - start:
                return False
            if self._begin(head) and self._state is _State.BODY:
                self._answer(bytes(self._server.arrivals[start:count]))
        except ProtocolError as refused:
            self._refuse(refused.status, str(refused))
        return True

    def _read_head(self) -> bool:
        end = find_head(self._received)
        if end < 0:
            if self._received.startswith(_HANDSHAKE):
                raise ProtocolError("the client speaks TLS, and this port is plain HTTP")
            return False
        head = parse_request(bytes(self._received[:end]))
        del self._received[: end + len(END_OF_HEAD)]
        return self._begin(head)

    def _begin(self, head: RequestHead) -> bool:
        """Start a request; return True if there is more to process."""
        self._head = head
        refusal = self._server.site.refuse(head, self._certificate)
        if refusal is not None:
            self._server.site.refused(refusal.status)
            if head.length == 0 and head.keeps_alive:
                self._send(refusal, is_last=False)
                return bool(self._received)
            self._send_and_linger(refusal)
            return True
        self._state = _State.BODY
        self._content = bytearray()
        self._chunks = ChunkedDecoder() if head.length == CHUNKED else None
        self._check_length(head.length)
        if head.length > self._limits.small_body:
            # Received in place. The system gives it memory as bytes come, and so they are counted:
            # a client that only declares a length takes nothing from others.
            self._large = bytearray(head.length)
            self.last_piece_at = time.monotonic()
            self._filled = min(len(self._received), head.length)
            self._large[: self._filled] = self._received[: self._filled]
            del self._received[: self._filled]
        if head.waits_for_consent and head.length != 0:
            self._transport.write(_CONTINUE)
        return True

    def _read_body(self) -> bytes | bytearray | None:
        assert self._head is not None
        received, length = self._received, self._head.length
        if self._large is not None:
            return self._large if self._filled == len(self._large) else None
        if self._chunks is not None:
            self._content += self._chunks.feed(bytes(received))
            self._received = bytearray(self._chunks.rest)
            self._count(len(self._content))
            return self._content if self._chunks.is_complete else None
        if len(received) < length:
            return None
        if len(received) == length:
            self._received = bytearray()
            return received
        body = bytes(received[:length])
        del received[:length]
        return body

    def _check_length(self, length: int) -> None:
        if length > self._limits.max_body:
            raise ProtocolError(
                f"the body is longer than {self._limits.max_body} bytes",
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            )

    def _is_counted(self, length: int) -> bool:
        """Count the bytes of a body, or refuse it."""
        try:
            self._count(length)
        except ProtocolError as refused:
            self._refuse(refused.status, str(refused))
            return False
        return True

    def _count(self, length: int) -> None:
        """Check the limits of one body and of all large ones together, in bytes that have come."""
        self._check_length(length)
        counted = length if length > self._limits.small_body else 0
        server = self._server
        has_grown = counted > self._counted
        server.body_bytes += counted - self._counted
        self._counted = counted
        most = _BODIES_AT_A_TIME * self._limits.max_body
        while has_grown and server.body_bytes > most:
            if not server.refuse_slowest_body(self):
                raise ProtocolError(_TOO_MANY, HTTPStatus.SERVICE_UNAVAILABLE)

    def _keep_unread(self, length: int) -> None:
        self._server.body_bytes += length - self._unread
        self._unread = length

    def _answer(self, body: bytes | bytearray) -> None:
        assert self._head is not None
        self._state = _State.ANSWERING
        self.deadline = math.inf
        self._chunks = self._large = None
        self._content = bytearray()
        try:
            request = Request(self._head, body, self._certificate, source=self._source)
            answer = self._server.site.answer(request)
        except Exception as error:
            answer = self._broken(error)
        if isinstance(answer, Response):
            self._send(answer, is_last=not self._head.keeps_alive)
        else:
            self._task = asyncio.ensure_future(self._answer_later(answer))

    async def _answer_later(self, coming: Awaitable[Response]) -> None:
        assert self._head is not None
        try:
            answer = await coming
        except Exception as error:
            answer = self._broken(error)
        self._task = None
        self._send(answer, is_last=not self._head.keeps_alive)
        self._transport.resume_reading()
        self._advance()

    # Responses

    def _refuse(self, status: HTTPStatus, problem: str) -> None:
        self._server.site.refused(status.value)
        self._send_and_linger(self._server.site.error(status, problem))

    def _send_and_linger(self, response: Response) -> None:
        """Send the last response. Closing with unread bytes could reset the connection first."""
        self._state = _State.LINGERING
        self._received, self._content = bytearray(), bytearray()
        self._chunks = self._large = None
        self._count(0)
        self._write(response, is_last=True)
        if self._transport.can_write_eof() and not self._transport.is_closing():
            self._transport.write_eof()
        self.deadline = time.monotonic() + LINGER_S

    def _send(self, response: Response, *, is_last: bool) -> None:
        if self._transport.is_closing():
            return
        if isinstance(response, Stream):
            self._open(response)
            return
        is_last = is_last or self._is_ended or self._server.is_stopping
        self._count(0)
        self._state = _State.HEAD
        self._server.used(self)
        self._wait_for_next()
        self._write(response, is_last=is_last)
        if is_last:
            self._transport.close()

    def _open(self, stream: Stream) -> None:
        """Begin a stream; the connection is busy with it until it ends."""
        self._count(0)
        self._state = _State.ANSWERING
        self._write(stream, is_last=True)
        assert self._head is not None
        if self._head.method == "HEAD":
            self._transport.close()
            return
        self._stream = stream
        stream.opened(self)

    def send(self, data: bytes) -> bool:
        """Send a piece of a stream."""
        if self._transport.is_closing():
            return False
        self._transport.write(data)
        if self._transport.get_write_buffer_size() > _MAX_STREAM_UNREAD:
            self._transport.abort()
            return False
        return True

    def end(self) -> None:
        """End a stream."""
        self._transport.close()

    def _write(self, response: Response, *, is_last: bool) -> None:
        body = response.body
        self._answered = len(body)
        more = "".join([f"{name}: {value}\r\n" for name, value in response.headers.items()])
        if not isinstance(response, Stream):
            more = f"Content-Length: {len(body)}\r\n{more}"
        end = "Connection: close\r\n\r\n" if is_last else "\r\n"
        head = (
            f"HTTP/1.1 {response.status} {_PHRASES[response.status]}\r\n"
            f"Content-Type: {response.content_type}\r\n"
            f"Date: {self._server.date}\r\n{more}{end}"
        ).encode("latin-1")
        if self._head is not None and self._head.method == "HEAD":
            body = b""
        if len(body) < _MAX_UNREAD:
            self._transport.write(head + body)
        else:
            self._transport.write(head)
            self._transport.write(body)

    def _wait_for_next(self) -> None:
        if not self._is_full:
            patience = self._limits
            waits = patience.request_timeout_s if self._received else patience.idle_timeout_s
            self.deadline = time.monotonic() + waits

    def _broken(self, error: Exception) -> Response:
        log.error("A request could not be answered", exc_info=error)
        problem = "an internal error; see the log"
        return self._server.site.error(HTTPStatus.INTERNAL_SERVER_ERROR, problem)
