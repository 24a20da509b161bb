"""Responses in pieces of any size; connections are used again only when that is safe."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.http import response_body
from stowplan.http.client import (
    BrokenOff,
    ClientResponse,
    Disconnected,
    NotConnected,
    Pool,
    TooLong,
)
from stowplan.http.parser import ProtocolError, parse_response
from stowplan.http.response_body import ResponseBody

REQUEST = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"
EMPTY = b"HTTP/1.1 204 No Content\r\n\r\n"


def with_length(content: bytes, *headers: bytes) -> bytes:
    lines = [b"HTTP/1.1 200 OK", b"Content-Length: %d" % len(content), *headers]
    return b"\r\n".join([*lines, b"", content])


def in_chunks(content: bytes, sizes: list[int], *headers: bytes) -> bytes:
    out = [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"]
    out += [b"%s\r\n" % header for header in headers] + [b"\r\n"]
    at = 0
    for size in sizes:
        piece = content[at : at + size]
        at += size
        if piece:
            out.append(b"%X;why=not\r\n%s\r\n" % (len(piece), piece))
    if rest := content[at:]:
        out.append(b"%x\r\n%s\r\n" % (len(rest), rest))
    return b"".join([*out, b"0\r\nTrailer: x\r\n\r\n"])


def body_of(answer: bytes) -> tuple[ResponseBody, bytes]:
    found = parse_response(answer)
    assert found is not None
    head, begin = found
    return ResponseBody(head, unpacks=True), answer[begin:]


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[a:b] for a, b in pairwise(edges)]


@given(
    st.binary(max_size=300),
    st.lists(st.integers(1, 40), max_size=8),
    st.lists(st.integers(0, 1000), max_size=12),
    st.booleans(),
    st.sampled_from(["length", "chunks"]),
)
def test_however_it_is_cut(
    content: bytes, sizes: list[int], places: list[int], packed: bool, form: str
) -> None:
    sent = gzip.compress(content) if packed else content
    headers = [b"Content-Encoding: gzip"] if packed else []
    answer = with_length(sent, *headers) if form == "length" else in_chunks(sent, sizes, *headers)
    body, rest = body_of(answer)
    got = b"".join(body.feed(piece) for piece in cut(rest, places))
    assert got == content
    assert body.is_complete
    assert not body.is_followed


@given(st.binary(min_size=1, max_size=60), st.sampled_from(["length", "chunks"]), st.booleans())
def test_what_follows_is_noticed_and_not_taken_for_a_part(
    extra: bytes, form: str, at_once: bool
) -> None:
    answer = with_length(b"hello") if form == "length" else in_chunks(b"hello", [2])
    body, rest = body_of(answer)
    got = body.feed(rest + extra) if at_once else body.feed(rest) + body.feed(extra)
    assert got == b"hello"
    assert body.is_followed


@given(st.binary(max_size=200))
def test_junk_in_bodies_is_refused_or_waited_for(junk: bytes) -> None:
    for head in (b"Transfer-Encoding: chunked", b"Content-Encoding: gzip\r\nContent-Length: 50"):
        body, _ = body_of(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n\r\n")
        try:
            body.feed(junk)
        except ProtocolError:
            pass


@pytest.mark.parametrize("header", [b"Content-Length: many", b"Content-Encoding: br"])
def test_heads_that_cannot_be_followed(header: bytes) -> None:
    with pytest.raises(ProtocolError):
        body_of(b"HTTP/1.1 200 OK\r\n" + header + b"\r\n\r\n")


# Over a connection


class Server:
    """Answers in turn on whichever connection asks; None ends the connection instead."""

    def __init__(self, *answers: bytes | None) -> None:
        self._answers = iter(answers)
        self.connections = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while True:
            await reader.readuntil(b"\r\n\r\n")
            answer = next(self._answers)
            if answer is None:
                return
            writer.write(answer)
            await writer.drain()


Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def pool_to(server: Serve) -> AsyncIterator[Pool]:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await server(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    listening = await asyncio.start_server(handle, "127.0.0.1", 0)
    opened = Pool("127.0.0.1", listening.sockets[0].getsockname()[1])
    try:
        yield opened
    finally:
        opened.close()
        listening.close()


async def ask(opened: Pool, *, is_repeatable: bool = True) -> ClientResponse:
    return await opened.ask(REQUEST, None, is_repeatable=is_repeatable, unpacks=True)


async def read(answer: ClientResponse) -> bytes:
    return await answer.read(1 << 30)


async def test_a_complete_answer_leaves_its_connection_to_the_next() -> None:
    server = Server(with_length(b"one"), in_chunks(b"two", [1]), EMPTY)
    async with pool_to(server) as opened:
        assert [await read(await ask(opened)) for _ in range(3)] == [b"one", b"two", b""]
    assert server.connections == 1


@pytest.mark.parametrize(
    "first",
    [
        with_length(b"one", b"Connection: close"),
        with_length(b"one").replace(b"HTTP/1.1", b"HTTP/1.0"),
        with_length(b"one") + b"HTTP/1.1 200 OK\r\n\r\n",
    ],
    ids=["close", "old", "more than was asked for"],
)
async def test_a_connection_that_may_not_be_used_again(first: bytes) -> None:
    server = Server(first, EMPTY)
    async with pool_to(server) as opened:
        assert await read(await ask(opened)) == b"one"
        assert (await ask(opened)).status == 204
    assert server.connections == 2


async def test_an_answer_that_is_not_read_to_its_end_takes_its_connection_along() -> None:
    server = Server(in_chunks(b"x" * 1000, [10]), EMPTY)
    async with pool_to(server) as opened:
        (await ask(opened)).close()
        assert (await ask(opened)).status == 204
    assert server.connections == 2


async def test_a_repeatable_request_on_a_connection_that_just_ended_is_sent_again() -> None:
    server = Server(EMPTY, None, with_length(b"again"))
    async with pool_to(server) as opened:
        await read(await ask(opened))
        assert await read(await ask(opened)) == b"again"
    assert server.connections == 2


async def test_another_request_is_not() -> None:
    async with pool_to(Server(EMPTY, None, with_length(b"again"))) as opened:
        await read(await ask(opened))
        with pytest.raises(Disconnected):
            await ask(opened, is_repeatable=False)


async def test_nothing_is_sent_again_on_a_new_connection() -> None:
    server = Server(None, with_length(b"again"))
    async with pool_to(server) as opened:
        with pytest.raises(Disconnected):
            await ask(opened)
    assert server.connections == 1


async def test_what_came_before_the_end_is_handed_out_first() -> None:
    broken = in_chunks(b"some of it", [4])[:-20]
    server = Server(broken, None)
    async with pool_to(server) as opened:
        answer = await ask(opened)
        assert (await answer.piece()).startswith(b"some")
        # The server waits for a second request, which only ends the connection.
        assert answer._connection is not None
        assert answer._connection._transport is not None
        answer._connection._transport.write(REQUEST)
        with pytest.raises(BrokenOff):
            await read(answer)


async def test_an_answer_may_end_with_its_connection() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nall of it")
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    opened = Pool("127.0.0.1", listening.sockets[0].getsockname()[1])
    assert await read(await ask(opened)) == b"all of it"
    opened.close()
    listening.close()


@given(st.binary(max_size=60), st.integers(0, 30), st.lists(st.integers(0, 1000), max_size=5))
def test_what_was_packed_tight_comes_in_parts(
    pattern: bytes, times: int, places: list[int]
) -> None:
    content = pattern * times
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(response_body, "MAX_UNREAD", 16)
        body, rest = body_of(with_length(gzip.compress(content), b"Content-Encoding: gzip"))
        parts: list[bytes] = []
        for piece in cut(rest, places):
            parts.append(body.feed(piece))
            while body.has_more:
                parts.append(body.more())
    assert b"".join(parts) == content
    assert max(map(len, parts)) <= 16
    assert body.is_complete


#: Ten megabytes of nothing are ten kilobytes packed; and what ends with a part, or behind one.
@pytest.mark.parametrize("size", [10_000_000, 64_000, 64_001])
@pytest.mark.parametrize("form", ["length", "chunks"])
async def test_little_is_kept_of_what_was_packed_tight(
    monkeypatch: pytest.MonkeyPatch, size: int, form: str
) -> None:
    monkeypatch.setattr(response_body, "MAX_UNREAD", 1000)
    packed, header = gzip.compress(bytes(size)), b"Content-Encoding: gzip"
    answers = {
        "length": with_length(packed, header),
        "chunks": in_chunks(packed, [100] * 200, header),
    }
    server = Server(answers[form], EMPTY)
    async with pool_to(server) as opened:
        assert await longest_piece(await ask(opened), size) <= 2000, "the unread, and one part more"
        assert (await ask(opened)).status == 204
    assert server.connections == 1


async def longest_piece(answer: ClientResponse, size: int) -> int:
    """Of an answer of zeros."""
    connection = answer._connection
    assert connection is not None
    longest, got = 0, bytearray()
    while piece := await answer.piece():
        got += piece
        longest = max(longest, len(piece), connection._unread_size)
    assert got == bytes(size)
    answer.close()
    return longest


async def test_what_was_packed_tight_may_end_with_its_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(response_body, "MAX_UNREAD", 1000)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n")
        writer.write(gzip.compress(bytes(100_000)))
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    opened = Pool("127.0.0.1", listening.sockets[0].getsockname()[1])
    assert await longest_piece(await ask(opened), 100_000) <= 2000
    opened.close()
    listening.close()


async def test_what_was_packed_and_breaks_later_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response_body, "MAX_UNREAD", 1000)
    packed = gzip.compress(bytes(100_000))
    answer = with_length(packed[:-6] + b"\0\0\0\0\0\0", b"Content-Encoding: gzip")
    async with pool_to(Server(answer)) as opened:
        with pytest.raises(ProtocolError):
            await read(await ask(opened))


async def test_little_is_kept_while_nobody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response_body, "MAX_UNREAD", 1000)
    content = bytes(range(256)) * 40_000
    async with pool_to(Server(with_length(content))) as opened:
        answer = await ask(opened)
        connection = answer._connection
        assert connection is not None
        while not connection._is_paused:  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0)
        kept = connection._unread_size
        await asyncio.sleep(0.05)
        assert connection._unread_size == kept < len(content)
        assert await read(answer) == content


# Responses that are read whole

PLAIN = b"HTTP/1.1 201 Created\r\nContent-Length: 5\r\nRetry-After: 7\r\n\r\nhello"
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"3\r\nhel\r\n2;why=not\r\nlo\r\n0\r\nTrailer: x\r\n\r\n"
)
INTERIM = b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n" + PLAIN


@pytest.mark.parametrize(
    ("answer", "status", "body"),
    [
        (PLAIN, 201, b"hello"),
        (CHUNKED, 200, b"hello"),
        (INTERIM, 201, b"hello"),
        (EMPTY, 204, b""),
        (b"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", 200, b""),
    ],
    ids=["length", "chunks", "interim", "empty", "no phrase"],
)
async def test_whole_answers(answer: bytes, status: int, body: bytes) -> None:
    server = Server(answer, EMPTY)
    async with pool_to(server) as opened:
        response = await ask(opened)
        assert (response.status, await read(response)) == (status, body)
        assert (await ask(opened)).status == 204
    assert server.connections == 1


@given(st.sampled_from([PLAIN, CHUNKED, INTERIM, EMPTY]), st.data())
def test_a_part_of_an_answer_is_no_answer(answer: bytes, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(answer) - 1))
    found = parse_response(answer[:place])
    if found is not None:
        head, begin = found
        body = ResponseBody(head, unpacks=True)
        body.feed(answer[begin:place])
        assert not body.is_complete


def test_headers_are_found_in_any_case() -> None:
    found = parse_response(PLAIN)
    assert found is not None
    assert found[0].headers.get("retry-after") == "7"
    assert found[0].headers.find(b"x-none") is None


async def test_encodings_that_were_not_requested_are_refused() -> None:
    packed = with_length(gzip.compress(b"one"), b"Content-Encoding: gzip")
    async with pool_to(Server(packed)) as opened:
        with pytest.raises(ProtocolError, match="not requested"):
            await opened.ask(REQUEST, None)


@pytest.mark.parametrize(
    ("part", "problem"),
    [
        (b"", Disconnected),
        (PLAIN[:30], Disconnected),
        (PLAIN[:-2], BrokenOff),
        (CHUNKED[:-4], BrokenOff),
    ],
)
async def test_a_connection_that_ends_too_soon(part: bytes, problem: type[Exception]) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(part)
        await writer.drain()
        writer.close()

    async with pool_to(serve) as opened:
        with pytest.raises(problem):
            await read(await ask(opened))


@pytest.mark.parametrize(
    "head", [b"Content-Length: 99999999999", b"Transfer-Encoding: chunked\r\n\r\nffffffff", b"X: y"]
)
async def test_an_answer_without_an_end_is_not_kept_for_ever(head: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n\r\n")
        try:
            while True:
                writer.write(b"x" * 100_000)
                await writer.drain()
        except ConnectionError:
            writer.close()

    async with pool_to(serve) as opened:
        with pytest.raises(TooLong, match="the answer is longer than 2 MiB"):
            await (await ask(opened)).read(2 * 1024 * 1024)


async def test_the_answer_to_a_cancelled_request_is_not_taken_for_that_of_another() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        if b"slow" in request:
            await asyncio.sleep(0.1)
        writer.write(EMPTY if b"slow" in request else PLAIN)
        await reader.read()
        writer.close()

    async with pool_to(serve) as opened:
        slow = asyncio.create_task(opened.ask(REQUEST.replace(b"/ ", b"/slow "), None))
        await asyncio.sleep(0.03)
        slow.cancel()
        with pytest.raises(asyncio.CancelledError):
            await slow
        assert await read(await ask(opened)) == b"hello"


async def test_a_connection_that_the_server_closed_while_idle_is_not_used() -> None:
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.write(PLAIN)
        writer.close()

    async with pool_to(serve) as opened:
        await read(await ask(opened))
        await asyncio.sleep(0.05)
        assert (await ask(opened, is_repeatable=False)).status == 201
    assert connections == 2


async def test_no_server() -> None:
    async with pool_to(Server()) as opened:
        pass
    with pytest.raises(RuntimeError, match="closed"):
        await ask(opened)
    with pytest.raises(NotConnected) as caught:
        await Pool("127.0.0.1", 1).ask(REQUEST, None)
    assert isinstance(caught.value.__cause__, ConnectionRefusedError)
