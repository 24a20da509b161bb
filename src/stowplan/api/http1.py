"""Short requests over kept-alive connections: HTTP/1.1 spoken by hand, because it is done so often.

`transport` sends binds, status patches, events and the lease through it, two or three for every pod
that is scheduled; a general HTTP client takes four times the CPU time. It knows what those need and
nothing more: one request at a time on a connection, answers with a length, in chunks, or ending
with the connection; no redirects, no proxies, no compression. What must stay true: a connection is
used again only after an answer that was complete and alone, and whoever asks learns whether a
request without an answer can have been sent.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import NamedTuple, cast

from stowplan.api.connections import Connections, find_out_that_the_other_side_is_gone

_MAX_HEAD = 64 * 1024
#: The longest are objects, of which etcd takes 1.5 MiB.
_MAX_ANSWER = 16 * 1024 * 1024
_END_OF_HEAD = b"\r\n\r\n"


class Answer(NamedTuple):
    """`head` is in lower case: the status line and the headers, each ending a line."""

    status: int
    head: bytes
    body: bytes

    def header(self, name: bytes) -> str | None:
        value = header_of(self.head, name)
        return None if value is None else value.decode("latin-1")


class Disconnected(Exception):
    """The connection ended before the answer did."""


class Garbled(Exception):
    """What came is not an answer."""


class BrokenOff(Garbled):
    """The connection ended in the middle of an answer."""

    def __init__(self) -> None:
        super().__init__("the answer broke off")


class TooLong(Garbled):
    """More came than any answer to such a request has."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"the answer is longer than {limit // 1024 // 1024} MiB")


class Pool(Connections["_Connection"]):
    """Connections to one server; how many requests run at a time is the caller's affair."""

    def __init__(self, host: str, port: int, *, server_hostname: str = "") -> None:
        super().__init__(_Connection, host, port, server_hostname=server_hostname)

    async def ask(
        self,
        request: bytes,
        tls: ssl.SSLContext | None,
        guard: Callable[[], None] | None = None,
    ) -> Answer:
        """Send a request as it is, and wait for its answer; a cancelled one ends its connection.

        The guard is called once there is a connection, immediately before the request is written.
        """
        connection = self.take(tls) or await self.connect(tls)
        try:
            answer = await connection.ask(request, guard)
        except BaseException:
            connection.close()
            raise
        self.keep(connection)
        return answer


class _Connection(asyncio.Protocol):
    """One request at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, tls: ssl.SSLContext | None) -> None:
        self.loop = loop
        self.tls = tls
        self.idle_since = 0.0
        self.is_reusable = True
        self._transport: asyncio.Transport | None = None
        self._received = b""
        self._waiting: asyncio.Future[Answer] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        find_out_that_the_other_side_is_gone(transport.get_extra_info("socket"))

    async def ask(self, request: bytes, guard: Callable[[], None] | None) -> Answer:
        assert self._transport is not None
        self._waiting = self.loop.create_future()
        if guard is not None:
            guard()
        self._transport.write(request)
        return await self._waiting

    def close(self) -> None:
        self.is_reusable = False
        self._waiting = None
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        received = self._received + data if self._received else data
        try:
            found = parse(received)
        except Garbled as problem:
            self._fail(problem)
            return
        if found is None:
            self._received = received
            if len(received) > _MAX_ANSWER:
                self._fail(TooLong(_MAX_ANSWER))
            return
        answer, used = found
        self._received = b""
        if used != len(received) or not is_kept(answer.head):
            self.is_reusable = False
        self._answer(answer)

    def connection_lost(self, problem: Exception | None) -> None:
        self.is_reusable = False
        if self._waiting is None:
            return
        answer = None if problem is not None else parse_to_end(self._received)
        if answer is not None:
            self._answer(answer)
        else:
            self._fail(Disconnected(str(problem or "Server disconnected")))

    def _answer(self, answer: Answer) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is None:
            self.is_reusable = False  # nobody asked
        elif not waiting.done():
            waiting.set_result(answer)

    def _fail(self, problem: Exception) -> None:
        self.is_reusable = False
        waiting, self._waiting = self._waiting, None
        if waiting is not None and not waiting.done():
            waiting.set_exception(problem)


# Answers


def parse_head(received: bytes) -> tuple[int, bytes, int] | None:
    """Status, head in lower case, and where the body begins; None while that is not clear."""
    start = 0
    while True:
        end = received.find(_END_OF_HEAD, start)
        if (end if end >= 0 else len(received)) - start > _MAX_HEAD:
            raise Garbled("headers without an end")
        if end < 0:
            return None
        head = received[start : end + 2].lower()
        status = _status(head)
        begin = end + len(_END_OF_HEAD)
        if status >= 200:
            return status, head, begin
        start = begin  # an interim answer; the real one follows


def parse(received: bytes) -> tuple[Answer, int] | None:
    """The answer at the beginning and how long it is; None while it is not complete."""
    found = parse_head(received)
    if found is None:
        return None
    status, head, begin = found
    if header_of(head, b"content-encoding") not in (None, b"identity"):
        raise Garbled("an encoding that was not asked for")
    if status in (204, 304):
        return Answer(status, head, b""), begin
    if is_chunked(head):
        return _chunked(status, head, received, begin)
    length = header_of(head, b"content-length")
    if length is None:
        return None
    if not length.isdigit():
        raise Garbled("a length that is no number")
    end = begin + int(length)
    return (Answer(status, head, received[begin:end]), end) if len(received) >= end else None


def parse_to_end(received: bytes) -> Answer | None:
    """An answer that ends with its connection; None where it says that it should be longer."""
    end = received.find(_END_OF_HEAD)
    head = received[: end + 2].lower()
    if end < 0 or header_of(head, b"content-length") is not None or is_chunked(head):
        return None
    try:
        return Answer(_status(head), head, received[end + len(_END_OF_HEAD) :])
    except Garbled:
        return None


def _status(head: bytes) -> int:
    if not head.startswith(b"http/1.") or not head[9:12].isdigit():
        raise Garbled("not HTTP/1.1")
    return int(head[9:12])


def header_of(head: bytes, name: bytes) -> bytes | None:
    at = head.find(b"\r\n" + name + b":")
    if at < 0:
        return None
    at += len(name) + 3
    return head[at : head.index(b"\r\n", at)].strip()


def is_chunked(head: bytes) -> bool:
    return (header_of(head, b"transfer-encoding") or b"").endswith(b"chunked")


def is_kept(head: bytes) -> bool:
    return head.startswith(b"http/1.1") and header_of(head, b"connection") != b"close"


def _chunked(status: int, head: bytes, received: bytes, at: int) -> tuple[Answer, int] | None:
    parts: list[bytes] = []
    while True:
        line_end = received.find(b"\r\n", at)
        if line_end < 0:
            return None
        try:
            size = int(received[at:line_end].partition(b";")[0], 16)
        except ValueError:
            raise Garbled("a chunk without a size") from None
        at = line_end + 2
        if size == 0:
            return _after_last_chunk(Answer(status, head, b"".join(parts)), received, at)
        if len(received) < at + size + 2:
            return None
        if received[at + size : at + size + 2] != b"\r\n":
            raise Garbled("a chunk longer than its size")
        parts.append(received[at : at + size])
        at += size + 2


def _after_last_chunk(answer: Answer, received: bytes, at: int) -> tuple[Answer, int] | None:
    """Trailers are skipped; an empty line ends them."""
    while True:
        line_end = received.find(b"\r\n", at)
        if line_end < 0:
            return None
        if line_end == at:
            return answer, at + 2
        at = line_end + 2
