"""Long answers, piece by piece: lists and watches, in HTTP/1.1 spoken by hand as in `http1`.

`quick` asks for them. A general HTTP client would do, but loading one takes longer than to list a
cluster of a thousand nodes, and a scheduler that starts is in a hurry. What must stay true: while
nobody reads, no more than a few megabytes are kept, however much was packed into them; a connection
is used again only after an answer that was complete and alone.
"""

from __future__ import annotations

import asyncio
import ssl
import zlib
from collections.abc import Callable
from typing import cast

from stowplan.api.connections import Connections, find_out_that_the_other_side_is_gone
from stowplan.api.http1 import (
    BrokenOff,
    Disconnected,
    Garbled,
    header_of,
    is_chunked,
    is_kept,
    parse_head,
)

_MAX_UNREAD = 4 * 1024 * 1024
_MAX_LINE = 4096
_GZIP = 16 + zlib.MAX_WBITS


class Body:
    """What follows a head, in whatever pieces it comes; `feed` returns the bytes it stands for.

    A few bytes may stand for many: those that `feed` has left are `more`, as long as `has_more`.
    """

    def __init__(self, status: int, head: bytes) -> None:
        self.is_complete = status in (204, 304)
        #: There was something behind the end.
        self.is_followed = False
        self.has_more = False
        self.ends_with_connection = False
        self._is_chunked = is_chunked(head)
        self._left = 0
        length = header_of(head, b"content-length")
        if self._is_chunked or self.is_complete:
            pass
        elif length is None:
            self.ends_with_connection = True
        elif length.isdigit():
            self._left = int(length)
            self.is_complete = self._left == 0
        else:
            raise Garbled("a length that is no number")
        encoding = header_of(head, b"content-encoding") or b"identity"
        if encoding not in (b"identity", b"gzip"):
            raise Garbled("an encoding that was not asked for")
        self._gunzip = zlib.decompressobj(_GZIP) if encoding == b"gzip" else None
        # Of chunks:
        self._tail = b""
        self._is_behind_chunk = False
        self._is_in_trailers = False

    def feed(self, data: bytes) -> bytes:
        if self.is_complete:
            self.is_followed = self.is_followed or bool(data)
            return b""
        if self._is_chunked:
            data = self._dechunk(data)
        elif not self.ends_with_connection:
            self.is_followed = len(data) > self._left
            data = data[: self._left]
            self._left -= len(data)
            self.is_complete = self._left == 0
        return data if self._gunzip is None else self._unpack(data)

    def more(self) -> bytes:
        return self._unpack(b"")

    def _unpack(self, data: bytes) -> bytes:
        gunzip = self._gunzip
        assert gunzip is not None
        try:
            unpacked = gunzip.decompress(gunzip.unconsumed_tail + data, _MAX_UNREAD)
        except zlib.error:
            self.has_more = False
            raise Garbled("not what gzip makes") from None
        # All may have been taken in, and not all of it given out.
        self.has_more = len(unpacked) == _MAX_UNREAD or bool(gunzip.unconsumed_tail)
        if self.is_complete and not self.has_more and not gunzip.eof:
            raise Garbled("what gzip made broke off")
        return unpacked

    def _dechunk(self, data: bytes) -> bytes:
        if self._tail:
            data, self._tail = self._tail + data, b""
        pieces: list[bytes] = []
        at = 0
        while at < len(data):
            if self._left:
                piece = data[at : at + self._left]
                pieces.append(piece)
                at += len(piece)
                self._left -= len(piece)
                self._is_behind_chunk = self._left == 0
                continue
            end = data.find(b"\r\n", at, at + _MAX_LINE)
            if end < 0:
                if len(data) - at >= _MAX_LINE:
                    raise Garbled("a line without an end")
                self._tail = data[at:]
                break
            line = data[at:end]
            at = end + 2
            if self._is_behind_chunk:
                if line:
                    raise Garbled("a chunk longer than its size")
                self._is_behind_chunk = False
            elif not self._is_in_trailers:
                self._left = _chunk_size(line)
                self._is_in_trailers = self._left == 0
            elif not line:
                self.is_complete = True
                self.is_followed = at < len(data)
                break
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _chunk_size(line: bytes) -> int:
    digits = line.partition(b";")[0].strip()
    try:
        size = int(digits, 16) if digits.isalnum() else -1
    except ValueError:
        size = -1
    if size < 0:
        raise Garbled("a chunk without a size")
    return size


class Streams(Connections["_Connection"]):
    """Connections to one server, each for one long answer at a time."""

    def __init__(self, host: str, port: int, *, server_hostname: str = "") -> None:
        super().__init__(_Connection, host, port, server_hostname=server_hostname)

    async def ask(
        self,
        request: bytes,
        tls: ssl.SSLContext | None,
        *,
        is_repeatable: bool,
        guard: Callable[[], None] | None = None,
    ) -> LongAnswer:
        """Send a request as it is; returns when the answer begins. Close the answer in any case.

        The server may end an idle connection at the very moment when it is used; then a request
        that may be sent twice is. The guard is called immediately before each write.
        """
        connection = self.take(tls)
        if connection is not None:
            try:
                return await self._ask(connection, request, guard)
            except Disconnected:
                if not is_repeatable:
                    raise
        return await self._ask(await self.connect(tls), request, guard)

    async def _ask(
        self, connection: _Connection, request: bytes, guard: Callable[[], None] | None
    ) -> LongAnswer:
        try:
            status, head = await connection.ask(request, guard)
        except BaseException:
            connection.close()
            raise
        return LongAnswer(self, connection, status, head)


class LongAnswer:
    """An answer that has begun."""

    def __init__(self, streams: Streams, connection: _Connection, status: int, head: bytes) -> None:
        self.status = status
        self._head = head
        self._streams = streams
        self._connection: _Connection | None = connection

    def header(self, name: bytes) -> str | None:
        value = header_of(self._head, name)
        return None if value is None else value.decode("latin-1")

    async def piece(self) -> bytes:
        """What has come meanwhile; nothing at its end."""
        assert self._connection is not None
        return await self._connection.piece()

    def close(self) -> None:
        """No more of it; one that is complete leaves its connection to others."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.leave()
            self._streams.keep(connection)


class _Connection(asyncio.Protocol):
    """One request at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, tls: ssl.SSLContext | None) -> None:
        self.loop = loop
        self.tls = tls
        self.idle_since = 0.0
        self.is_reusable = True
        self._transport: asyncio.Transport | None = None
        self._is_asked = False
        self._received = b""
        self._head: tuple[int, bytes] | None = None
        self._body: Body | None = None
        self._unread: list[bytes] = []
        self._unread_size = 0
        self._is_paused = False
        self._failure: Exception | None = None
        self._waiting: asyncio.Future[None] | None = None

    # Whoever asks

    async def ask(self, request: bytes, guard: Callable[[], None] | None) -> tuple[int, bytes]:
        """Status and head."""
        assert self._transport is not None
        self._is_asked = True
        self._head = self._body = None
        if guard is not None:
            guard()
        self._transport.write(request)
        while (head := self._begun()) is None:
            await self._news()
        return head

    def _begun(self) -> tuple[int, bytes] | None:
        if self._failure is not None and self._head is None:
            raise self._failure
        return self._head

    async def piece(self) -> bytes:
        assert self._body is not None
        while not self._unread:
            if self._body.has_more:
                self._take_more(self._body)
                continue
            if self._failure is not None:
                raise self._failure
            self._resume_reading()
            if self._body.is_complete:
                return b""
            await self._news()
        unread = self._unread[0] if len(self._unread) == 1 else b"".join(self._unread)
        self._unread.clear()
        self._unread_size = 0
        if not self._body.has_more:
            self._resume_reading()
        return unread

    def leave(self) -> None:
        """The answer is not read any further."""
        self._is_asked = False
        body = self._body
        is_over = body is not None and body.is_complete and not (body.is_followed or body.has_more)
        if not is_over or self._unread or self._head is None or not is_kept(self._head[1]):
            self.is_reusable = False

    def close(self) -> None:
        self.is_reusable = False
        self._is_asked = False
        if self._transport is not None:
            self._transport.abort()

    def _take_more(self, body: Body) -> None:
        try:
            self._take(body.more())
        except Garbled as problem:
            self._fail(problem)

    def _resume_reading(self) -> None:
        if self._is_paused:
            assert self._transport is not None
            self._is_paused = False
            self._transport.resume_reading()

    async def _news(self) -> None:
        self._waiting = self.loop.create_future()
        try:
            await self._waiting
        finally:
            self._waiting = None

    # The event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        find_out_that_the_other_side_is_gone(transport.get_extra_info("socket"))

    def data_received(self, data: bytes) -> None:
        if not self._is_asked:
            self.is_reusable = False  # nobody asked
            return
        try:
            self._receive(data)
        except Garbled as problem:
            self._fail(problem)
        self._tell()

    def _receive(self, data: bytes) -> None:
        if self._body is None:
            data = self._received + data
            found = parse_head(data)
            if found is None:
                self._received = data
                return
            status, head, begin = found
            self._received = b""
            self._body = Body(status, head)
            self._head = status, head
            data = data[begin:]
        self._take(self._body.feed(data))
        is_enough = self._unread_size > _MAX_UNREAD or self._body.has_more
        if is_enough and not self._is_paused:
            assert self._transport is not None
            self._is_paused = True
            self._transport.pause_reading()

    def _take(self, clear: bytes) -> None:
        if clear:
            self._unread.append(clear)
            self._unread_size += len(clear)

    def connection_lost(self, problem: Exception | None) -> None:
        self.is_reusable = False
        body = self._body
        if not self._is_asked or (body is not None and body.is_complete):
            return
        if problem is None and body is not None and body.ends_with_connection:
            body.is_complete = True
        elif problem is None and body is not None:
            self._fail(BrokenOff())
        else:
            self._fail(Disconnected(str(problem or "Server disconnected")))
        self._tell()

    def _fail(self, problem: Exception) -> None:
        self.is_reusable = False
        self._failure = self._failure or problem

    def _tell(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)
