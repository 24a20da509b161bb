"""What the small HTTP server makes of requests that are not what they should be."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.server import plain_http
from stowplan.server.plain_http import PlainServer, Query, Response


def echo(query: Query) -> Response:
    return Response(repr(dict(query)).encode())


def broken(_: Query) -> Response:
    raise RuntimeError("no")


@pytest.fixture
async def port() -> AsyncIterator[int]:
    server = PlainServer()
    server.routes.update({"/": echo, "/a b": echo, "/broken": broken})
    yield await server.start("127.0.0.1", 0)
    await server.stop()


async def answers(port: int, *sent: bytes) -> bytes:
    """Everything that comes until the server ends the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for piece in sent:
        writer.write(piece)
        await writer.drain()
        await asyncio.sleep(0)
    try:
        return await asyncio.wait_for(reader.read(), 10)
    finally:
        writer.close()


LAST = b"GET /?last HTTP/1.1\r\nConnection: close\r\n\r\n"


def statuses(text: bytes) -> list[int]:
    return [int(part[:3]) for part in text.split(b"HTTP/1.1 ")[1:]]


async def test_requests_follow_each_other_on_one_connection(port: int) -> None:
    text = await answers(
        port, b"GET /?one HTTP/1.1\r\n\r\nGET /?two=2 HTTP/1.1\r\nX: y\r\n\r\n", LAST
    )
    assert statuses(text) == [200, 200, 200]
    assert text.index(b"{'one': ['']}") < text.index(b"{'two': ['2']}") < text.index(b"{'last'")


async def test_a_request_may_come_in_pieces(port: int) -> None:
    assert statuses(await answers(port, LAST[:5], LAST[5:30], LAST[30:])) == [200]


@pytest.mark.parametrize(
    ("request_head", "status"),
    [
        (b"GET /zebra HTTP/1.1", 404),
        (b"POST / HTTP/1.1", 405),
        (b"GET /a%20b?x HTTP/1.1", 200),
        (b"GET /broken HTTP/1.1", 500),
        (b"GET / HTTP/1.0", 200),
        (b"GET http://elsewhere/ HTTP/1.1", 400),
        (b"GET / HTTP/2", 400),
        (b"\x16\x03\x01\x02\x00\x01", 400),
        (b"", 400),
        (b"GET /%ff?%ff=%ff HTTP/1.1", 404),
    ],
)
async def test_one_answer_to_one_request(port: int, request_head: bytes, status: int) -> None:
    text = await answers(port, request_head + b"\r\nConnection: close\r\n\r\n")
    assert statuses(text) == [status]


async def test_a_head_has_no_body(port: int) -> None:
    text = await answers(port, b"HEAD /?x HTTP/1.1\r\n\r\n", LAST)
    first, second = text.split(b"HTTP/1.1 ")[1:]
    assert first.endswith(b"\r\n\r\n")
    assert b"Content-Length: 11\r\n" in first
    assert second.endswith(b"{'last': ['']}")


async def test_other_methods_are_told_which_there_are(port: int) -> None:
    assert b"\r\nAllow: GET,HEAD\r\n" in await answers(
        port, b"DELETE / HTTP/1.1\r\nConnection: close\r\n\r\n"
    )


@pytest.mark.parametrize("header", [b"Content-Length: 5", b"Transfer-Encoding: chunked"])
async def test_a_body_is_not_taken_for_the_next_request(port: int, header: bytes) -> None:
    text = await answers(port, b"GET / HTTP/1.1\r\n" + header + b"\r\n\r\n" + LAST)
    assert statuses(text) == [200]


async def test_headers_without_an_end_are_not_kept_for_ever(port: int) -> None:
    assert statuses(await answers(port, b"GET / HTTP/1.1\r\nX: " + b"x" * 20_000)) == [431]


async def test_who_says_nothing_is_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch, port: int
) -> None:
    monkeypatch.setattr(plain_http, "_IDLE_S", 0.05)
    assert await answers(port) == b""


@given(st.binary(max_size=60))
def test_nothing_that_is_sent_raises(junk: bytes) -> None:
    server = PlainServer()
    server.routes["/"] = echo
    method, _, target = junk.decode("latin-1").partition(" ")
    assert server.answer(method, target).status in (200, 404, 405)
    assert server.answer("GET", f"/?{target}").status == 200


# Clients that are slow, or many


LARGE = b"x" * 4_000_000


@asynccontextmanager
async def counting() -> AsyncIterator[tuple[PlainServer, int, list[int]]]:
    """A server of large answers, its port, and a list that grows with each of them."""
    made: list[int] = []

    def large(_: Query) -> Response:
        made.append(1)
        return Response(LARGE)

    server = PlainServer()
    server.routes.update({"/": echo, "/large": large})
    try:
        yield server, await server.start("127.0.0.1", 0), made
    finally:
        await server.stop()


@asynccontextmanager
async def deaf(port: int) -> AsyncIterator[asyncio.StreamWriter]:
    """A client that asks, and does not read."""
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    try:
        yield writer
    finally:
        writer.transport.abort()


async def gone(server: PlainServer) -> None:
    while server.connections:  # noqa: ASYNC110 - the server's doing
        await asyncio.sleep(0.005)


@pytest.mark.parametrize("end", [b"", b"Connection: close\r\n"])
async def test_who_does_not_read_is_dropped(monkeypatch: pytest.MonkeyPatch, end: bytes) -> None:
    monkeypatch.setattr(plain_http, "_IDLE_S", 0.2)
    async with counting() as (server, port, made), deaf(port) as writer:
        writer.write(b"GET /large HTTP/1.1\r\n" + end + b"\r\n")
        await gone(server)
        assert made == [1]
        assert statuses(await answers(port, LAST)) == [200], "others are answered"


async def test_answers_that_nobody_reads_are_not_worked_out() -> None:
    async with counting() as (server, port, made), deaf(port) as writer:
        writer.write(b"GET /large HTTP/1.1\r\n\r\n" * 1000)
        while not made:  # noqa: ASYNC110 - the server's doing
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.1)
        assert len(made) < 10, "what the system's buffers take, and no more"
        assert len(server.connections) == 1


async def test_who_reads_late_gets_everything() -> None:
    async with counting() as (_, port, made):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /large HTTP/1.1\r\n\r\n" * 5 + LAST)
        await asyncio.sleep(0.1)
        text = await asyncio.wait_for(reader.read(), 60)
        writer.close()
        assert statuses(text) == [200] * 6
        assert text.count(LARGE) == 5
        assert len(made) == 5


async def test_who_trickles_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_http, "_IDLE_S", 0.3)
    async with counting() as (server, port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nX: ")
        await asyncio.sleep(0.01)
        while server.connections:
            writer.write(b"x")  # always something new, and never the end
            await asyncio.sleep(0.01)
        try:
            assert await asyncio.wait_for(reader.read(), 10) == b""
        except ConnectionResetError:
            """That is an end, too."""
        writer.close()


async def test_the_longest_silent_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_http, "_MAX_CONNECTIONS", 3)
    async with counting() as (server, port, _):
        opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        reader, writer = opened[0]
        writer.write(b"GET /?x HTTP/1.1\r\n\r\n")
        assert await reader.readuntil(b"{'x': ['']}")
        assert statuses(await answers(port, LAST)) == [200], "there is room for a probe"
        assert await asyncio.wait_for(opened[1][0].read(), 10) == b""
        writer.write(LAST)
        assert statuses(await reader.read()) == [200], "who was heard of lately stays"
        assert len(server.connections) <= 3
        for _, other in opened:
            other.close()


async def test_stopping_does_not_wait_for_who_does_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(plain_http, "_LINGER_S", 0.1)
    async with counting() as (server, port, made), deaf(port) as writer:
        writer.write(b"GET /large HTTP/1.1\r\n\r\n")
        while not made:  # noqa: ASYNC110 - the server's doing
            await asyncio.sleep(0.005)
        await asyncio.wait_for(server.stop(), 30)
        assert not server.connections


async def test_stopping_ends_open_connections() -> None:
    server = PlainServer()
    port = await server.start("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    await asyncio.sleep(0.01)
    await server.stop()
    assert await asyncio.wait_for(reader.read(), 10) == b""
    writer.close()
