"""Answers in whatever pieces they come; connections are used again only when that is safe."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.api import http1
from stowplan.api.connections import NotConnected
from stowplan.api.http1 import Answer, Disconnected, Garbled, Pool, TooLong, parse

PLAIN = b"HTTP/1.1 201 Created\r\nContent-Length: 5\r\nRetry-After: 7\r\n\r\nhello"
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"3\r\nhel\r\n2;why=not\r\nlo\r\n0\r\nTrailer: x\r\n\r\n"
)
INTERIM = b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n" + PLAIN
EMPTY = b"HTTP/1.1 204 No Content\r\n\r\n"
REQUEST = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def pool_of(serve: Serve) -> AsyncIterator[Pool]:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    pool = Pool("127.0.0.1", server.sockets[0].getsockname()[1])
    try:
        yield pool
    finally:
        pool.close()
        server.close()


class Script:
    """Gives the answers in turn, to whichever connection asks; counts connections."""

    def __init__(self, *answers: bytes) -> None:
        self._answers = iter(answers)
        self.connections = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while True:
            await reader.readuntil(b"\r\n\r\n")
            answer = next(self._answers)
            writer.write(answer)
            await writer.drain()


def whole(answer: bytes) -> tuple[int, bytes]:
    found = parse(answer)
    assert found is not None
    assert found[1] == len(answer)
    return found[0].status, found[0].body


@pytest.mark.parametrize(
    ("answer", "status", "body"),
    [
        (PLAIN, 201, b"hello"),
        (CHUNKED, 200, b"hello"),
        (INTERIM, 201, b"hello"),
        (EMPTY, 204, b""),
    ],
    ids=["length", "chunks", "interim", "empty"],
)
def test_whole_answers(answer: bytes, status: int, body: bytes) -> None:
    assert whole(answer) == (status, body)


@given(st.sampled_from([PLAIN, CHUNKED, INTERIM, EMPTY]), st.data())
def test_a_part_of_an_answer_is_no_answer(answer: bytes, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(answer) - 1))
    assert parse(answer[:cut]) is None


@given(st.binary(max_size=200))
def test_junk_is_refused_or_waited_for(junk: bytes) -> None:
    for received in (junk, b"HTTP/1.1 200 OK\r\n" + junk, CHUNKED[:48] + junk):
        try:
            found = parse(received)
        except Garbled:
            continue
        assert found is None or isinstance(found[0], Answer)


def test_headers_are_found_in_any_case() -> None:
    found = parse(PLAIN)
    assert found is not None
    assert found[0].header(b"retry-after") == "7"
    assert found[0].header(b"x-none") is None


def test_headers_without_an_end_are_not_kept_for_ever() -> None:
    with pytest.raises(Garbled):
        parse(b"HTTP/1.1 200 OK\r\n" + b"x" * 100_000)


async def test_a_connection_is_used_again() -> None:
    script = Script(PLAIN, CHUNKED, EMPTY)
    async with pool_of(script) as pool:
        answers = [await pool.ask(REQUEST, None) for _ in range(3)]
    assert [answer.status for answer in answers] == [201, 200, 204]
    assert script.connections == 1


@pytest.mark.parametrize(
    "answer",
    [
        PLAIN.replace(b"201 Created", b"201 Created\r\nConnection: close"),
        PLAIN.replace(b"HTTP/1.1", b"HTTP/1.0"),
        PLAIN + b"HTTP/1.1 200 OK\r\n\r\n",
    ],
    ids=["close", "old", "more than was asked for"],
)
async def test_a_connection_that_may_not_be_used_again(answer: bytes) -> None:
    script = Script(answer, EMPTY)
    async with pool_of(script) as pool:
        assert (await pool.ask(REQUEST, None)).body == b"hello"
        assert (await pool.ask(REQUEST, None)).status == 204
    assert script.connections == 2


async def test_an_answer_may_end_with_its_connection() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nall of it")
        await writer.drain()

    async with pool_of(serve) as pool:
        assert (await pool.ask(REQUEST, None)).body == b"all of it"


@pytest.mark.parametrize("part", [b"", PLAIN[:30], PLAIN[:-2], CHUNKED[:-4]])
async def test_a_connection_that_ends_too_soon(part: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(part)
        await writer.drain()

    async with pool_of(serve) as pool:
        with pytest.raises(Disconnected):
            await pool.ask(REQUEST, None)


@pytest.mark.parametrize(
    "head", [b"Content-Length: 99999999999", b"Transfer-Encoding: chunked\r\n\r\nffffffff", b"X: y"]
)
async def test_an_answer_without_an_end_is_not_kept_for_ever(
    monkeypatch: pytest.MonkeyPatch, head: bytes
) -> None:
    monkeypatch.setattr(http1, "_MAX_ANSWER", 2 * 1024 * 1024)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n\r\n")
        while True:
            writer.write(b"x" * 100_000)
            await writer.drain()

    async with pool_of(serve) as pool:
        with pytest.raises(TooLong, match="the answer is longer than 2 MiB"):
            await pool.ask(REQUEST, None)


async def test_junk_on_the_wire() -> None:
    async with pool_of(Script(b"SSH-2.0-OpenSSH_9.9\r\n\r\n")) as pool:
        with pytest.raises(Garbled):
            await pool.ask(REQUEST, None)


async def test_the_answer_to_a_cancelled_request_is_not_taken_for_that_of_another() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        if b"slow" in request:
            await asyncio.sleep(0.1)
        writer.write(EMPTY if b"slow" in request else PLAIN)
        await writer.drain()
        await reader.read()

    async with pool_of(serve) as pool:
        slow = asyncio.create_task(pool.ask(REQUEST.replace(b"/ ", b"/slow "), None))
        await asyncio.sleep(0.03)
        slow.cancel()
        with pytest.raises(asyncio.CancelledError):
            await slow
        assert (await pool.ask(REQUEST, None)).body == b"hello"


async def test_a_connection_that_the_server_closed_while_idle_is_not_used() -> None:
    script = Script(PLAIN)
    closing = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        script.connections += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.write(PLAIN)
        await writer.drain()
        writer.close()
        closing.set()

    async with pool_of(serve) as pool:
        await pool.ask(REQUEST, None)
        await closing.wait()
        await asyncio.sleep(0.05)
        assert (await pool.ask(REQUEST, None)).status == 201
    assert script.connections == 2


async def test_nobody_listens() -> None:
    async with pool_of(Script()) as pool:
        pass
    with pytest.raises(RuntimeError, match="closed"):
        await pool.ask(REQUEST, None)
    with pytest.raises(NotConnected) as caught:
        await Pool("127.0.0.1", 1).ask(REQUEST, None)
    assert isinstance(caught.value.__cause__, ConnectionRefusedError)
