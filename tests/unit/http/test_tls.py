"""The TLS layer: data through it, how it ends, and that it leaves no garbage."""

from __future__ import annotations

import asyncio
import gc
import ssl
import weakref
from asyncio.sslproto import SSLProtocol
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.http.client import BrokenOff, Disconnected, Pool
from stowplan.http.tls import TlsClient
from tests.examples import examples
from tests.unit.api.tls_kit import Authority

#: Two records.
LONG = bytes(range(256)) * 80


class Above(asyncio.Protocol):
    """Notes what it is told."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.received = b""
        self.ends: list[Exception | None] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        assert self.transport is None
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        assert data
        self.received += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.ends.append(exc)


class Below(asyncio.Transport):
    """The event loop's side: keeps what is to be sent."""

    def __init__(self) -> None:
        super().__init__({"socket": "a socket"})
        self.sent = b""
        self.calls: list[str] = []

    def write(self, data: Any) -> None:
        self.sent += bytes(data)

    def close(self) -> None:
        self.calls.append("close")

    def abort(self) -> None:
        self.calls.append("abort")

    def pause_reading(self) -> None:
        self.calls.append("pause")

    def resume_reading(self) -> None:
        self.calls.append("resume")


@dataclass
class Wire:
    """A client and a server that speak to each other in memory."""

    client: TlsClient
    above: Above
    incoming: ssl.MemoryBIO
    outgoing: ssl.MemoryBIO
    server: ssl.SSLObject
    below: Below = field(default_factory=Below)

    def hand_over(self, cuts: list[int] | None = None) -> None:
        """What the server has to say, in pieces of these lengths, again and again."""
        data, at, turn = self.outgoing.read(), 0, 0
        while at < len(data):
            length = cuts[turn % len(cuts)] if cuts else len(data)
            self.client.data_received(data[at : at + length])
            at, turn = at + length, turn + 1
        self.take()

    def take(self) -> None:
        """What the client has sent reaches the server."""
        sent, self.below.sent = self.below.sent, b""
        self.incoming.write(sent)

    def handshake(self, cuts: list[int] | None = None) -> None:
        self.client.connection_made(self.below)
        for _ in range(10):
            self.take()
            try:
                self.server.do_handshake()
            except ssl.SSLWantReadError:
                self.hand_over(cuts)
            else:
                self.hand_over(cuts)  # what is left of it, such as tickets
                return
        raise AssertionError("no end of shaking hands")

    def heard(self) -> bytes:
        """What the server understands."""
        data = b""
        self.take()
        while True:
            try:
                data += self.server.read()
            except ssl.SSLWantReadError:
                return data


class Maker:
    """Contexts are made once: certificates take their time."""

    def __init__(self, folder: Path) -> None:
        authority = Authority()
        self.serving = authority.server_context(folder)
        self.trusting = ssl.create_default_context(cadata=authority.cert.decode())
        self.trusting.verify_flags &= ~ssl.VERIFY_X509_STRICT
        self.distrusting = ssl.create_default_context(cadata=Authority().cert.decode())
        self.distrusting.verify_flags &= ~ssl.VERIFY_X509_STRICT

    def wire(self, context: ssl.SSLContext | None = None, *, name: str = "127.0.0.1") -> Wire:
        loop = asyncio.new_event_loop()
        try:
            above = Above()
            client = TlsClient(loop, above, context or self.trusting, name)
        finally:
            loop.close()
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        server = self.serving.wrap_bio(incoming, outgoing, server_side=True)
        return Wire(client, above, incoming, outgoing, server)


@pytest.fixture(scope="module")
def maker(tmp_path_factory: pytest.TempPathFactory) -> Maker:
    return Maker(tmp_path_factory.mktemp("tls"))


@given(
    cuts=st.lists(st.integers(20, 2000), min_size=1, max_size=5),
    texts=st.lists(st.binary(min_size=1, max_size=200), min_size=1, max_size=4),
)
@examples(20)
def test_whatever_way_the_network_cuts_it(
    maker: Maker, cuts: list[int], texts: list[bytes]
) -> None:
    wire = maker.wire()
    wire.handshake(cuts)
    assert wire.client.settled.done()
    assert wire.client.problem is None
    assert wire.above.transport is wire.client
    for text in (*texts, LONG):
        wire.client.write(text)
        assert wire.heard() == text
    for text in (*texts, LONG):
        wire.server.write(text)
    wire.hand_over(cuts)
    assert wire.above.received == b"".join(texts) + LONG
    assert not wire.above.ends


def test_nobody_above_is_told_before_hands_are_shaken(maker: Maker) -> None:
    wire = maker.wire()
    wire.client.connection_made(wire.below)
    assert wire.below.sent, "the client speaks first"
    assert wire.above.transport is None
    assert not wire.client.settled.done()


def test_a_proper_end(maker: Maker) -> None:
    wire = maker.wire()
    wire.handshake()
    wire.server.write(b"the last words")
    with pytest.raises(ssl.SSLWantReadError):
        wire.server.unwrap()
    wire.hand_over()
    assert wire.above.received == b"the last words"
    assert wire.below.calls == ["close"]
    wire.client.connection_lost(None)
    assert wire.above.ends == [None]


@pytest.mark.parametrize("problem", [None, ConnectionResetError("by peer")])
def test_an_end_that_was_not_announced(maker: Maker, problem: Exception | None) -> None:
    """Somebody in between may have cut off the rest: it must not pass for a whole answer."""
    wire = maker.wire()
    wire.handshake()
    wire.client.connection_lost(problem)
    (end,) = wire.above.ends
    assert isinstance(end, ConnectionResetError)


def test_a_certificate_that_is_not_trusted(maker: Maker) -> None:
    for wire in (maker.wire(maker.distrusting), maker.wire(name="elsewhere")):
        wire.client.connection_made(wire.below)
        wire.take()
        with pytest.raises(ssl.SSLWantReadError):
            wire.server.do_handshake()
        wire.hand_over()
        with pytest.raises(ssl.SSLError, match=r"(?i)alert"):
            wire.server.do_handshake()
        assert isinstance(wire.client.problem, ssl.CertificateError)
        assert wire.below.calls == ["close"]
        wire.client.connection_lost(None)
        assert wire.client.settled.done()
        assert wire.above.transport is None
        assert not wire.above.ends


@pytest.mark.parametrize("is_open", [False, True])
def test_what_is_no_tls(maker: Maker, is_open: bool) -> None:
    wire = maker.wire()
    if is_open:
        wire.handshake()
    else:
        wire.client.connection_made(wire.below)
    wire.client.data_received(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    assert isinstance(wire.client.problem, ssl.SSLError)
    assert wire.below.calls == ["close"]
    wire.client.connection_lost(None)
    assert wire.client.settled.done()
    assert len(wire.above.ends) == is_open
    assert all(isinstance(end, ssl.SSLError) for end in wire.above.ends)


def test_a_connection_that_ends_while_hands_are_shaken(maker: Maker) -> None:
    wire = maker.wire()
    wire.client.connection_made(wire.below)
    wire.client.connection_lost(None)
    assert wire.client.settled.done()
    assert isinstance(wire.client.problem, ConnectionResetError)
    assert not wire.above.ends


def test_after_the_end_nothing_more_happens(maker: Maker) -> None:
    wire = maker.wire()
    wire.handshake()
    wire.client.connection_lost(None)
    wire.client.write(b"too late")
    wire.client.abort()
    wire.client.pause_reading()
    wire.client.resume_reading()
    assert wire.client.get_extra_info("socket", "none") == "none"
    assert wire.below.calls == []
    assert len(wire.above.ends) == 1


def test_what_is_passed_on(maker: Maker) -> None:
    wire = maker.wire()
    wire.handshake()
    wire.client.pause_reading()
    wire.client.resume_reading()
    wire.client.abort()
    assert wire.below.calls == ["pause", "resume", "abort"]
    assert wire.client.get_extra_info("socket") == "a socket"


def test_nothing_waits_for_the_garbage_collector(maker: Maker) -> None:
    wire = maker.wire()
    wire.handshake()
    gc.collect()
    gc.disable()
    try:
        left = weakref.ref(wire.above), weakref.ref(wire.client)
        wire.client.connection_lost(None)
        del wire
        assert [each() for each in left] == [None, None]
    finally:
        gc.enable()


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK", b"HTTP/1.1 200 OK\r\nContent-Length: 9"])
async def test_a_response_that_is_cut_off_is_an_error(maker: Maker, head: bytes) -> None:
    """Without TLS's own end the rest may have been cut off on the way."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head + b"\r\n\r\nhalf")
        await writer.drain()
        writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=maker.serving)
    pool = Pool("127.0.0.1", server.sockets[0].getsockname()[1])
    try:
        with pytest.raises((Disconnected, BrokenOff)):
            await (await pool.ask(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", maker.trusting)).read(100)
    finally:
        pool.close()
        server.close()
        await server.wait_closed()


async def test_connections_do_without_the_event_loops_tls(tmp_path: Path) -> None:
    """Its buffers of 256 KiB each were most of a scheduler's heap."""
    maker = Maker(tmp_path)
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    everybody = asyncio.Barrier(5)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await everybody.wait()
        writer.write(answer)

    def tls_of_the_loop() -> int:
        gc.collect()
        return sum(isinstance(each, SSLProtocol) for each in gc.get_objects())

    before = tls_of_the_loop()
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=maker.serving)
    pool = Pool("127.0.0.1", server.sockets[0].getsockname()[1])
    try:
        request = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"
        answers = await asyncio.gather(*(pool.ask(request, maker.trusting) for _ in range(5)))
        assert [await each.read(100) for each in answers] == [b"ok"] * 5
        assert tls_of_the_loop() - before == 5, "the server's, and none of ours"
    finally:
        pool.close()
        server.close()
        await server.wait_closed()
