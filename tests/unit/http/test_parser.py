"""Hostile and broken peers against the one parser, as a client and as a server sees them.

Each case is a head or a chunked body that two readers could understand differently, or that never
ends. The connections that use the parser are tested in test_client and test_server.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.http.parser import (
    CHUNKED,
    MAX_HEAD,
    ChunkedDecoder,
    Headers,
    ProtocolError,
    RequestHead,
    ResponseHead,
    _parse_cached,
    find_head,
    parse_request,
    parse_response,
)


@dataclass(frozen=True)
class Role:
    """One side of a connection: the first line that it reads, and how."""

    name: str
    line: bytes

    def parse(self, *fields: bytes) -> RequestHead | ResponseHead:
        if self.name == "server":
            return parse_request(b"\r\n".join([self.line, b"Host: a", *fields]))
        head = b"\r\n".join([self.line, *fields])
        found = parse_response(head + b"\r\n\r\n")
        assert found is not None
        assert found[1] == len(head) + 4
        return found[0]


ROLES = [Role("client", b"HTTP/1.1 200 OK"), Role("server", b"POST /filter HTTP/1.1")]
both_roles = pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)


LENGTH = "Content-Length is not a number"
CODING = "Transfer-Encoding can only be chunked, and without Content-Length"
FIELD = "a header line is malformed"


@both_roles
@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        pytest.param([b"Content-Length: 3", b"Content-Length: 4"], LENGTH, id="two lengths"),
        pytest.param([b"Content-Length: 3", b"Content-Length: 3"], LENGTH, id="a length twice"),
        pytest.param([b"Content-Length: 3, 3"], LENGTH, id="a list of lengths"),
        pytest.param([b"Content-Length: -1"], LENGTH, id="negative"),
        pytest.param([b"Content-Length: +3"], LENGTH, id="signed"),
        pytest.param([b"Content-Length: 0x3"], LENGTH, id="hexadecimal"),
        pytest.param([b"Content-Length: 3_0"], LENGTH, id="underscore"),
        pytest.param([b"Content-Length: \xb2"], LENGTH, id="superscript"),
        pytest.param([b"Content-Length: many"], LENGTH, id="a word"),
        pytest.param([b"Content-Length:"], LENGTH, id="empty"),
        pytest.param([b"Content-Length: " + b"9" * 20], LENGTH, id="overflow"),
        pytest.param([b"Transfer-Encoding: chunked", b"Content-Length: 3"], CODING, id="CL and TE"),
        pytest.param([b"Content-Length: 3", b"Transfer-Encoding: chunked"], CODING, id="TE and CL"),
        pytest.param([b"Transfer-Encoding: gzip"], CODING, id="gzip"),
        pytest.param([b"Transfer-Encoding: gzip, chunked"], CODING, id="gzip and chunked"),
        pytest.param([b"Transfer-Encoding: chunked, chunked"], CODING, id="chunked twice"),
        pytest.param([b"Transfer-Encoding: xchunked"], CODING, id="nearly chunked"),
        pytest.param(
            [b"Transfer-Encoding: chunked", b"Transfer-Encoding: identity"], CODING, id="two TE"
        ),
        pytest.param([b"no colon"], FIELD, id="no colon"),
        pytest.param([b"Name : x"], FIELD, id="space before the colon"),
        pytest.param([b"Transfer-Encoding : chunked"], FIELD, id="TE with a space"),
        pytest.param([b" Content-Length: 3"], FIELD, id="space before the first name"),
        pytest.param([b"A: x", b" folded"], FIELD, id="folded line"),
        pytest.param([b"A: x", b"\tContent-Length: 3"], FIELD, id="folded length"),
        pytest.param([b": x"], FIELD, id="no name"),
        pytest.param([b"A: x\nContent-Length: 3"], FIELD, id="bare LF"),
        pytest.param([b"A: x\rContent-Length: 3"], FIELD, id="bare CR"),
        pytest.param([b"A: x\0y"], FIELD, id="NUL"),
        pytest.param([b"A\xe9: x"], FIELD, id="a name that is not ASCII"),
        pytest.param([b"A(: x"], FIELD, id="a name that is not a token"),
    ],
)
def test_heads_with_two_meanings_are_refused(role: Role, fields: list[bytes], problem: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        role.parse(*fields)
    assert (str(caught.value), caught.value.status) == (problem, 400)


@both_roles
@pytest.mark.parametrize("field", [b"Transfer-Encoding: chunked", b"TRANSFER-ENCODING:\tChunked "])
def test_chunks_are_for_http_1_1(role: Role, field: bytes) -> None:
    assert role.parse(field).length == CHUNKED
    old = Role(role.name, role.line.replace(b"HTTP/1.1", b"HTTP/1.0"))
    with pytest.raises(ProtocolError, match="Transfer-Encoding"):
        old.parse(field)


@both_roles
@pytest.mark.parametrize(
    ("version", "fields", "keeps_alive"),
    [
        (b"1.1", [], True),
        (b"1.1", [b"Connection: Close"], False),
        (b"1.1", [b"Connection: upgrade", b"Connection: close"], False),
        (b"1.0", [], False),
        (b"1.0", [b"Connection: Keep-Alive"], True),
    ],
)
def test_connections_that_are_kept(
    role: Role, version: bytes, fields: list[bytes], keeps_alive: bool
) -> None:
    line = role.line.replace(b"HTTP/1.1", b"HTTP/" + version)
    assert Role(role.name, line).parse(*fields).keeps_alive is keeps_alive


@both_roles
def test_fields_in_any_case_and_repeated(role: Role) -> None:
    headers = role.parse(b"X-One:  Two \t", b"x-one: Three", b"Empty:", b"Latin: \xe9").headers
    assert headers.get("x-one") == "Two, Three"
    assert headers.find(b"empty") == b""
    assert headers.get("latin") == "é"
    assert (headers.get("one"), headers.find(b"x-on")) == ("", None)


@both_roles
@pytest.mark.parametrize("size", [MAX_HEAD, MAX_HEAD + 1, 10 * MAX_HEAD])
def test_heads_without_end(role: Role, size: int) -> None:
    received = (role.line + b"\r\nX: ").ljust(size, b"x")
    with pytest.raises(ProtocolError, match="longer than") as caught:
        find_head(received)
    assert caught.value.status == 431
    assert find_head(received[: MAX_HEAD - 1]) == -1


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"nonsense", "the first line is not that of an HTTP request"),
        (b"", "the first line is not that of an HTTP request"),
        (b"\x16\x03\x01\x02\x00\x01", "the first line is not that of an HTTP request"),
        (b"GET /status", "the first line is not that of an HTTP request"),
        (b"GET  /status HTTP/1.1", "the first line is not that of an HTTP request"),
        (b"G(T /status HTTP/1.1", "the first line is not that of an HTTP request"),
        (b"PRI * HTTP/2.0", "the protocol is not HTTP/1.1"),
        (b"GET / HTTP/2", "the protocol is not HTTP/1.1"),
        (b"GET / http/1.1", "the protocol is not HTTP/1.1"),
        (b"GET status HTTP/1.1", "the target is not a path"),
        (b"GET http://elsewhere/ HTTP/1.1", "the target is not a path"),
        (b"GET /a\nb HTTP/1.1", "the target is not a path"),
        (b"GET /a\0 HTTP/1.1", "the target is not a path"),
    ],
)
def test_first_lines_of_requests_that_are_refused(line: bytes, problem: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        parse_request(line)
    assert str(caught.value) == problem


@pytest.mark.parametrize(
    "line",
    [
        b"SSH-2.0-OpenSSH_9.9",
        b"HTTP/2 200",
        b"HTTP/1.2 200 OK",
        b"http/1.1 200 OK",
        b"HTTP/1.1 20 OK",
        b"HTTP/1.1 2000 OK",
        b"HTTP/1.1 OK",
        b"HTTP/1.1 200 O\0K",
        b"HTTP/1.1 200 OK\nContent-Length: 3",
        b"HTTP/1.1 101 Switching Protocols",
        b" HTTP/1.1 200 OK",
        b"",
    ],
)
def test_first_lines_of_responses_that_are_refused(line: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse_response(line + b"\r\n\r\n")


def test_responses_without_a_body_have_none_whatever_they_say() -> None:
    for status in (b"204 No Content", b"304 Not Modified"):
        found = parse_response(b"HTTP/1.1 %b\r\nContent-Length: 5\r\n\r\nhello" % status)
        assert found is not None
        assert found[0].length == 0
        assert found[1] < len(b"HTTP/1.1 %b\r\nContent-Length: 5\r\n\r\nhello" % status)


@both_roles
def test_a_body_without_length(role: Role) -> None:
    """A request has none; a response ends with its connection."""
    assert role.parse(b"X: y").length == (0 if role.name == "server" else None)


@given(st.binary(max_size=200))
def test_junk_is_refused_or_waited_for(junk: bytes) -> None:
    for role in ROLES:
        for received in (junk, role.line + b"\r\n" + junk):
            try:
                if role.name == "server":
                    parse_request(received)
                else:
                    parse_response(received)
            except ProtocolError:
                continue


def test_request_heads_are_cached_unless_they_are_long() -> None:
    head = b"POST /filter HTTP/1.1\r\nHost: x\r\nX-Test: cached\r\nContent-Length: 12"
    assert parse_request(head) is parse_request(head)
    assert parse_request(head.replace(b"12", b"13")).length == 13
    long = head + b"\r\nX: " + b"x" * 2000
    assert parse_request(long) is not parse_request(long)
    assert _parse_cached.cache_info().maxsize == 256


def test_headers_of_their_own() -> None:
    assert Headers().get("x", "none") == "none"
    assert Headers.parse(b"\r\nAuthorization: Bearer X\r\n").get("authorization") == "Bearer X"


# Chunks: bodies of requests and responses alike


SIZE = "the size of a chunk is not a number"


@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "byte by byte"])
@pytest.mark.parametrize(
    ("chunks", "problem"),
    [
        (b"-5\r\n", SIZE),
        (b"+5\r\n", SIZE),
        (b"0x5\r\n", SIZE),
        (b"5_0\r\n", SIZE),
        (b"zz\r\n", SIZE),
        (b"5 5\r\n", SIZE),
        (b" 5\r\n", SIZE),
        (b"\r\n", SIZE),
        (b";why=not\r\n", SIZE),
        (b"f" * 13 + b"\r\n", SIZE),
        (b"5\nhello\r\n", SIZE),
        (b"5;a\nb\r\n", SIZE),
        (b"5;a\rb\r\n", SIZE),
        (b"5\r\nhelloX\r\n", "a chunk is longer than it says"),
        (b"1\r\nabc\r\n", "a chunk is longer than it says"),
        (b"5\r\nhello0\r\n\r\n", "a chunk is longer than it says"),
        (b"1" * 5000, "a chunk's first line is too long"),
        (b"5;" + b"x" * 5000, "a chunk's first line is too long"),
        (b"0\r\n" + b"x" * 5000, "a chunk's first line is too long"),
        (b"0\r\nno colon\r\n\r\n", "a trailer line is malformed"),
        (b"0\r\n folded: x\r\n\r\n", "a trailer line is malformed"),
        (b"0\r\n" + b"X: y\r\n" * 20_000, "a trailer line is malformed"),
    ],
)
def test_chunks_that_lie_about_themselves(chunks: bytes, problem: str, at_once: bool) -> None:
    decoder = ChunkedDecoder()
    pieces = [chunks] if at_once else [chunks[at : at + 1] for at in range(len(chunks))]
    with pytest.raises(ProtocolError) as caught:
        all(decoder.feed(piece) is not None for piece in pieces)
    assert str(caught.value) == problem


@given(
    st.lists(st.binary(min_size=1, max_size=40), max_size=8),
    st.sampled_from([b"", b";note=1", b" \t;x"]),
    st.lists(st.integers(0, 1000), max_size=12),
    st.binary(max_size=20),
)
def test_chunks_however_they_are_cut(
    contents: list[bytes], extension: bytes, places: list[int], rest: bytes
) -> None:
    chunks = b"".join(b"%X%b\r\n%b\r\n" % (len(each), extension, each) for each in contents)
    sent = chunks + b"0\r\nTrailer: x\r\n\r\n" + rest
    edges = sorted({0, len(sent), *(place % (len(sent) + 1) for place in places)})
    decoder = ChunkedDecoder()
    got = b"".join(decoder.feed(sent[a:b]) for a, b in pairwise(edges))
    assert got == b"".join(contents)
    assert decoder.is_complete
    assert decoder.rest == rest


@given(st.binary(max_size=200))
def test_junk_instead_of_chunks(junk: bytes) -> None:
    decoder = ChunkedDecoder()
    try:
        got = decoder.feed(junk)
    except ProtocolError:
        return
    assert len(got) + len(decoder.rest) <= len(junk)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        (b"X: a\r\n", "the Host header is missing"),
        (b"Host: a\r\nHost: a\r\n", "the Host header is not one name or address"),
        (b"Host: a b\r\n", "the Host header is not one name or address"),
        (b"Host: a/b\r\n", "the Host header is not one name or address"),
        (b"Host: a\0\r\n", "a header line is malformed"),
        (b"X: a\0b\r\nHost: a\r\n", "a header line is malformed"),
    ],
)
def test_a_request_names_one_host(fields: bytes, problem: str) -> None:
    with pytest.raises(ProtocolError, match=problem):
        parse_request(b"GET / HTTP/1.1\r\n" + fields.removesuffix(b"\r\n"))


@pytest.mark.parametrize(
    "host", ["", "a", "a.b-c:80", "127.0.0.1:1", "[::1]:8080", "[fe80::1%25e]"]
)
def test_hosts(host: str) -> None:
    assert parse_request(f"GET / HTTP/1.1\r\nHost: {host}".encode()).headers.get("host") == host
    assert parse_request(b"GET / HTTP/1.0").headers.get("host") == ""
