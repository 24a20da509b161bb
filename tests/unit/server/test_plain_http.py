"""What the small HTTP server makes of requests that are not what they should be."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

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


async def test_stopping_ends_open_connections() -> None:
    server = PlainServer()
    port = await server.start("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    await asyncio.sleep(0.01)
    await server.stop()
    assert await asyncio.wait_for(reader.read(), 10) == b""
    writer.close()
