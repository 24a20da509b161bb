"""The server on a site of its own: framing, slow clients, many clients, an orderly end.

The parser's cases are in test_parser; bodies and limits of large requests are tested on the
extender's service (tests/unit/extender/test_http_*).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from http import HTTPStatus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.http.messages import Limits, Outlet, Request, Response, Stream
from stowplan.http.parser import MAX_HEAD, ProtocolError, parse_request
from stowplan.http.server import HttpServer
from stowplan.server.health import LIMITS, Site, query_of
from tests.unread import open_unread

Stage = tuple[HttpServer, int]


def echo(request: Request) -> Response:
    return Response(repr(dict(query_of(request))).encode())


def broken(_: Request) -> Response:
    raise RuntimeError("no")


@asynccontextmanager
async def serving(site: Site, limits: Limits = LIMITS) -> AsyncIterator[Stage]:
    server = HttpServer(site, limits)
    loop = asyncio.get_running_loop()
    listener = await server.listen(lambda make: loop.create_server(make, "127.0.0.1", 0))
    try:
        yield server, listener.sockets[0].getsockname()[1]
    finally:
        await server.stop(1.0)


@pytest.fixture
async def port() -> AsyncIterator[int]:
    site = Site()
    site.routes.update({"/": echo, "/a b": echo, "/broken": broken})
    async with serving(site) as (_, taken):
        yield taken


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


LAST = b"GET /?last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


def statuses(text: bytes) -> list[int]:
    return [int(part[:3]) for part in text.split(b"HTTP/1.1 ")[1:]]


async def test_requests_follow_each_other_on_one_connection(port: int) -> None:
    text = await answers(
        port,
        b"GET /?one HTTP/1.1\r\nHost: x\r\n\r\nGET /?two=2 HTTP/1.1\r\nHost: x\r\nX: y\r\n\r\n",
        LAST,
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
    text = await answers(port, request_head + b"\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert statuses(text) == [status]


async def test_a_head_has_no_body(port: int) -> None:
    text = await answers(port, b"HEAD /?x HTTP/1.1\r\nHost: x\r\n\r\n", LAST)
    first, second = text.split(b"HTTP/1.1 ")[1:]
    assert first.endswith(b"\r\n\r\n")
    assert b"Content-Length: 11\r\n" in first
    assert second.endswith(b"{'last': ['']}")


async def test_other_methods_get_the_allowed_ones(port: int) -> None:
    assert b"\r\nAllow: GET,HEAD\r\n" in await answers(
        port, b"DELETE / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    )


@pytest.mark.parametrize(
    ("header", "body"),
    [
        (b"Content-Length: 17", b"GET / HTTP/1.1\r\n\r"),
        (b"Transfer-Encoding: chunked", b"11\r\nGET / HTTP/1.1\r\n\r\r\n0\r\n\r\n"),
    ],
)
async def test_a_body_is_not_taken_for_the_next_request(
    port: int, header: bytes, body: bytes
) -> None:
    text = await answers(
        port, b"GET / HTTP/1.1\r\nHost: x\r\n" + header + b"\r\n\r\n" + body + LAST
    )
    assert statuses(text) == [200, 200]


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nA: x\r\n folded\r\n\r\n",
        b"GET / HTTP/1.1\nContent-Length: 5\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffff\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
    ],
)
async def test_nothing_is_answered_behind_a_refused_request(
    port: int, request_bytes: bytes
) -> None:
    """What follows could be a smuggled request."""
    text = await answers(port, request_bytes + LAST)
    assert statuses(text) == [400]
    assert b"\r\nConnection: close\r\n" in text


async def test_headers_without_an_end_are_not_kept_for_ever(port: int) -> None:
    assert statuses(await answers(port, b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"x" * MAX_HEAD)) == [
        431
    ]


async def test_a_body_beyond_the_limit_is_not_read(port: int) -> None:
    head = b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (LIMITS.max_body + 1)
    assert statuses(await answers(port, head)) == [413]


async def test_idle_connections_are_closed() -> None:
    limits = replace(LIMITS, request_timeout_s=0.05, idle_timeout_s=0.05)
    async with serving(Site(), limits) as (_, port):
        assert await answers(port) == b""


async def test_there_is_no_sweep_without_connections() -> None:
    site = Site()
    site.routes["/"] = echo
    async with serving(site, replace(LIMITS, idle_timeout_s=0.01)) as (server, port):
        sweeps = [server._sweeper]
        for _ in range(2):
            assert statuses(await answers(port, LAST)) == [200]
            sweeps.append(server._sweeper)
            assert server._sweeper is not None
            await server._sweeper
        assert sweeps[0] is None
        assert sweeps[1] is not sweeps[2]


@given(st.binary(max_size=60))
def test_no_query_raises(junk: bytes) -> None:
    site = Site()
    site.routes["/"] = echo
    for target in (b"/" + junk, b"/?" + junk):
        try:
            head = parse_request(b"GET %b HTTP/1.1" % target)
        except ProtocolError:
            continue
        refusal = site.refuse(head, None)
        response = site.answer(Request(head, b"")) if refusal is None else refusal
        assert isinstance(response, Response)
        assert response.status in (HTTPStatus.OK, HTTPStatus.NOT_FOUND)


# Clients that are slow, or many


#: More than the send buffer of a connection takes, usually at most 4 MiB.
LARGE = b"x" * 8_000_000


@asynccontextmanager
async def counting(limits: Limits = LIMITS) -> AsyncIterator[tuple[HttpServer, int, list[int]]]:
    """A server of large answers, its port, and a list that grows with each of them."""
    made: list[int] = []

    def large(_: Request) -> Response:
        made.append(1)
        return Response(LARGE)

    site = Site()
    site.routes.update({"/": echo, "/large": large})
    async with serving(site, limits) as (server, port):
        yield server, port, made


@asynccontextmanager
async def deaf(port: int) -> AsyncIterator[asyncio.StreamWriter]:
    """A client that asks, and does not read."""
    _, writer = await open_unread(port)
    try:
        yield writer
    finally:
        writer.transport.abort()


async def gone(server: HttpServer) -> None:
    while server.connections:  # noqa: ASYNC110 - the server's doing
        await asyncio.sleep(0.005)


@pytest.mark.parametrize("end", [b"", b"Connection: close\r\n"])
async def test_a_client_that_does_not_read_is_dropped(end: bytes) -> None:
    limits = replace(LIMITS, request_timeout_s=0.2)
    async with counting(limits) as (server, port, made), deaf(port) as writer:
        writer.write(b"GET /large HTTP/1.1\r\nHost: x\r\n" + end + b"\r\n")
        await gone(server)
        assert made == [1]
        assert statuses(await answers(port, LAST)) == [200], "others are answered"


async def test_answers_that_are_not_read_are_not_computed() -> None:
    async with counting() as (server, port, made), deaf(port) as writer:
        writer.write(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n" * 1000)
        while not made:  # noqa: ASYNC110 - the server's doing
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.1)
        assert len(made) < 10, "what the system's buffers take, and no more"
        assert len(server.connections) == 1


async def test_a_client_that_reads_late_gets_everything() -> None:
    async with counting() as (_, port, made):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n" * 5 + LAST)
        await asyncio.sleep(0.1)
        text = await asyncio.wait_for(reader.read(), 60)
        writer.close()
        assert statuses(text) == [200] * 6
        assert text.count(LARGE) == 5
        assert len(made) == 5


async def test_a_client_that_trickles_is_dropped() -> None:
    async with counting(replace(LIMITS, request_timeout_s=0.3)) as (server, port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nX: ")

        async def trickle() -> None:
            while True:
                writer.write(b"x")  # always something new, and never the end
                await asyncio.sleep(0.01)

        trickling = asyncio.create_task(trickle())
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
        trickling.cancel()
        assert statuses(head) == [408]
        writer.close()
        await gone(server)


async def test_connections_without_a_request_for_longest_make_room() -> None:
    async with counting(replace(LIMITS, max_connections=3)) as (server, port, _):
        opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        reader, writer = opened[0]
        writer.write(b"GET /?x HTTP/1.1\r\nHost: x\r\n\r\n")
        assert await reader.readuntil(b"{'x': ['']}")
        assert statuses(await answers(port, LAST)) == [200], "there is room for a probe"
        assert await asyncio.wait_for(opened[1][0].read(), 10) == b""
        writer.write(LAST)
        assert statuses(await reader.read()) == [200], "a connection with a recent request stays"
        assert len(server.connections) <= 3
        for _, other in opened:
            other.close()


async def test_idle_connections_do_not_reset_a_client_that_asked_before() -> None:
    async with counting(replace(LIMITS, max_connections=10)) as (_, port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /?x HTTP/1.1\r\nHost: x\r\n\r\n")
        assert await reader.readuntil(b"{'x': ['']}")
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(30)]
        writer.write(LAST)
        assert statuses(await reader.read()) == [200]
        for _, other in [*idle, (reader, writer)]:
            other.close()


async def test_the_client_with_most_connections_makes_room() -> None:
    async with counting(replace(LIMITS, max_connections=10)) as (_, port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /?x HTTP/1.1\r\nHost: x\r\n\r\n")
        assert await reader.readuntil(b"{'x': ['']}")
        greedy = []
        for _ in range(30):
            opened = await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.2", 0))
            opened[1].write(b"GET /?y HTTP/1.1\r\nHost: x\r\n\r\n")
            assert await opened[0].readuntil(b"{'y': ['']}")
            greedy.append(opened)
        writer.write(LAST)
        assert statuses(await reader.read()) == [200]
        for _, other in [*greedy, (reader, writer)]:
            other.close()


async def test_stopping_does_not_wait_for_a_client_that_does_not_read() -> None:
    async with counting() as (server, port, made), deaf(port) as writer:
        writer.write(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        while not made:  # noqa: ASYNC110 - the server's doing
            await asyncio.sleep(0.005)
        assert await asyncio.wait_for(server.stop(0.1), 30) == 1
        assert not server.connections


async def test_stopping_ends_open_connections() -> None:
    async with serving(Site()) as (server, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.sleep(0.01)
        assert await server.stop(5.0) == 0
        assert await asyncio.wait_for(reader.read(), 10) == b""
        writer.close()


# Streams


class Streamed:
    """A site with one stream; `outlet` is that of the last client."""

    def __init__(self) -> None:
        self.site = Site()
        self.site.routes["/"] = lambda _: Stream(
            b"", 200, "text/plain", {}, self._opened, self._gone.set
        )
        self.outlet: Outlet | None = None
        self._gone = asyncio.Event()

    def _opened(self, outlet: Outlet) -> None:
        self.outlet = outlet
        outlet.send(b"hello ")

    async def gone(self) -> None:
        async with asyncio.timeout(10):
            await self._gone.wait()


async def opened(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    head = await reader.readuntil(b"\r\n\r\n")
    assert b"Connection: close" in head
    assert b"Content-Length" not in head
    return reader, writer


async def test_a_stream_is_sent_in_pieces_until_it_ends() -> None:
    stage = Streamed()
    async with serving(stage.site) as (_, port):
        reader, writer = await opened(port)
        assert await reader.readexactly(6) == b"hello "
        assert stage.outlet is not None
        assert stage.outlet.send(b"world")
        assert await reader.readexactly(5) == b"world"
        stage.outlet.end()
        assert await reader.read() == b""
        writer.close()
        await stage.gone()
        assert not stage.outlet.send(b"more")


async def test_a_client_that_leaves_a_stream_is_noticed() -> None:
    stage = Streamed()
    async with serving(stage.site) as (server, port):
        _, writer = await opened(port)
        writer.close()
        await stage.gone()
        assert not server.connections


async def test_a_client_that_does_not_read_a_stream_is_cut_off() -> None:
    stage = Streamed()
    async with serving(stage.site) as (_, port):
        _, writer = await opened(port)
        assert stage.outlet is not None
        pieces = 0
        while stage.outlet.send(bytes(256 * 1024)):
            pieces += 1
            assert pieces < 1000, "nothing limits what is buffered"
            await asyncio.sleep(0)
        await stage.gone()
        writer.close()


async def test_head_of_a_stream_has_no_body() -> None:
    stage = Streamed()
    async with serving(stage.site) as (_, port):
        answer = await answers(port, b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert answer.endswith(b"\r\n\r\n")
        assert stage.outlet is None
