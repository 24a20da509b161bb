"""Parse the heads of HTTP/1.1 messages and bodies in chunks; no sockets.

Used by `client` and `server_connection`. Strict where two readers of the same bytes could disagree
about the end of a message (RFC 9112, 6.3 and 11.2): repeated or odd lengths, a length beside
chunks, folded lines, bare line feeds and control characters are refused, and so is a request
without one Host. Invariant: whatever bytes
come, nothing but `ProtocolError` is raised, and no state grows beyond the limits below.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from typing import Final, NamedTuple

END_OF_HEAD: Final = b"\r\n\r\n"
MAX_HEAD: Final = 64 * 1024
#: The length of a body in chunks.
CHUNKED: Final = -1
_MAX_LINE: Final = 4 * 1024
_MAX_DIGITS: Final = 15
#: Longer heads are parsed each time.
_CACHED: Final = 1024

_TOKEN: Final = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]++"
_FIELD: Final = rb"%b:[^\r\n\0]*+" % _TOKEN
_is_token = re.compile(_TOKEN).fullmatch
_is_field = re.compile(_FIELD).fullmatch
_are_fields = re.compile(rb"\r\n(?:%b\r\n)*+" % _FIELD).fullmatch
_is_host = re.compile(rb"(?:\[[0-9A-Fa-f:.%]++\]|[A-Za-z0-9._~%-]*+)(?::[0-9]*+)?").fullmatch
_is_path = re.compile(rb"/[\x21-\x7e\x80-\xff]*+").fullmatch
_response = re.compile(
    rb"HTTP/1\.([01]) ([1-9][0-9][0-9])(?: [^\r\n\0]*+)?(\r\n(?:%b\r\n)*+)\r\n" % _FIELD
).match
_status_line = re.compile(rb"HTTP/1\.[01] [1-9][0-9][0-9](?: [^\r\n\0]*+)?\r\n").match
_chunk_size = re.compile(rb"([0-9A-Fa-f]{1,12})[ \t]*(?:;[^\r\n\0]*)?").fullmatch


_MALFORMED: Final = "a header line is malformed"


class ProtocolError(Exception):
    """The bytes are not a proper HTTP/1.1 message; `status` is what a server answers."""

    def __init__(self, problem: str, status: HTTPStatus = HTTPStatus.BAD_REQUEST) -> None:
        super().__init__(problem)
        self.status = status


class Headers:
    """The header fields of a message, looked up by name; only those asked for are decoded."""

    __slots__ = ("_lowered", "raw")

    def __init__(self, raw: bytes = b"\r\n") -> None:
        """`raw` was validated; use `parse` for other bytes.

        It begins with the end of the line before it, and each field ends with its line.
        """
        self.raw = raw
        self._lowered = raw.lower()

    @classmethod
    def parse(cls, raw: bytes) -> Headers:
        if not _are_fields(raw):
            raise ProtocolError(_MALFORMED)
        return cls(raw)

    def find(self, name: bytes) -> bytes | None:
        """Return the value of a field (its name in lower case); repeated ones with commas."""
        wanted = b"\r\n%b:" % name
        at = self._lowered.find(wanted)
        value: bytes | None = None
        while at >= 0:
            begin = at + len(wanted)
            end = self.raw.find(b"\r\n", begin)
            found = self.raw[begin:end].strip(b" \t")
            value = found if value is None else b"%b, %b" % (value, found)
            at = self._lowered.find(wanted, end)
        return value

    def items(self) -> list[tuple[str, str]]:
        """All fields in order, names in lower case; repeated ones apart."""
        lines = self.raw.decode("latin-1").split("\r\n")
        pairs = (line.partition(":") for line in lines if line)
        return [(name.lower(), value.strip(" \t")) for name, _, value in pairs]

    def get(self, name: str, default: str = "") -> str:
        value = self.find(name.encode("latin-1"))
        return default if value is None else value.decode("latin-1")


@dataclass(frozen=True, slots=True)
class RequestHead:
    """The head of a request. Requests may share one."""

    method: str
    path: str
    query: str
    headers: Headers
    #: Of the body, or CHUNKED.
    length: int
    keeps_alive: bool

    @property
    def waits_for_consent(self) -> bool:
        """True if the client sends the body only after `100 Continue`."""
        return self.headers.get("expect").lower() == "100-continue"


class ResponseHead(NamedTuple):
    """The head of a response."""

    status: int
    headers: Headers
    #: Of the body, or CHUNKED; None if the body ends with the connection.
    length: int | None
    keeps_alive: bool


def find_head(received: bytes | bytearray, start: int = 0) -> int:
    """Return where the head ends, before its empty line; -1 if it is not complete."""
    end = received.find(END_OF_HEAD, start, start + MAX_HEAD)
    if end < 0 and len(received) - start >= MAX_HEAD:
        raise ProtocolError(
            f"the headers are longer than {MAX_HEAD} bytes",
            HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
        )
    return end


def parse_request(head: bytes) -> RequestHead:
    """Parse everything before the empty line."""
    # The heads of one client differ only in the length of the body, if at all.
    return _parse_cached(head) if len(head) <= _CACHED else _parse_request(head)


def _parse_request(head: bytes) -> RequestHead:
    line = head.partition(b"\r\n")[0]
    words = line.split(b" ")
    if len(words) != 3 or not _is_token(words[0]):
        raise ProtocolError("the first line is not that of an HTTP request")
    method, target, version = words
    if version not in (b"HTTP/1.1", b"HTTP/1.0"):
        raise ProtocolError("the protocol is not HTTP/1.1")
    if not _is_path(target):
        raise ProtocolError("the target is not a path")
    headers = Headers.parse(head[len(line) :] + b"\r\n")
    is_old = version == b"HTTP/1.0"
    length = _body_length(headers, is_old)
    _check_host(headers, is_old)
    path, _, query = target.decode("latin-1").partition("?")
    return RequestHead(
        method.decode(), path, query, headers, length or 0, _keeps_alive(headers, is_old)
    )


def _check_host(headers: Headers, is_old: bool) -> None:
    """RFC 9112, 3.2: exactly one Host; HTTP/1.0 need not have one."""
    host = headers.find(b"host")
    if host is None and not is_old:
        raise ProtocolError("the Host header is missing")
    if host is not None and not _is_host(host):
        raise ProtocolError("the Host header is not one name or address with an optional port")


_parse_cached: Final = lru_cache(maxsize=256)(_parse_request)


def parse_response(received: bytes) -> tuple[ResponseHead, int] | None:
    """Return the head of a response and where its body begins; None if it is not complete.

    Interim responses (1xx) before it are skipped.
    """
    start = 0
    while True:
        end = find_head(received, start)
        if end < 0:
            return None
        found = _response(received, start)
        if found is None or found.end() != end + len(END_OF_HEAD):
            raise ProtocolError(_MALFORMED if _status_line(received, start) else "not HTTP/1.1")
        status = int(found[2])
        if status >= 200:
            break
        if status == HTTPStatus.SWITCHING_PROTOCOLS:
            raise ProtocolError("another protocol, which was not requested")
        start = found.end()
    headers = Headers(found[3])
    is_old = found[1] == b"0"
    length = _body_length(headers, is_old)
    if status in (204, 304):
        length = 0
    return ResponseHead(status, headers, length, _keeps_alive(headers, is_old)), found.end()


def _body_length(headers: Headers, is_old: bool) -> int | None:
    coding = headers.find(b"transfer-encoding")
    length = headers.find(b"content-length")
    if coding is not None:
        if coding.lower() != b"chunked" or length is not None or is_old:
            raise ProtocolError("Transfer-Encoding can only be chunked, and without Content-Length")
        return CHUNKED
    if length is None:
        return None
    if not length.isdigit() or len(length) > _MAX_DIGITS:
        raise ProtocolError("Content-Length is not a number")
    return int(length)


def _keeps_alive(headers: Headers, is_old: bool) -> bool:
    wish = headers.find(b"connection")
    if wish is None:
        return not is_old
    return b"keep-alive" in wish.lower() if is_old else b"close" not in wish.lower()


class ChunkedDecoder:
    """Decode a body in chunks from pieces of any size."""

    def __init__(self) -> None:
        self.is_complete = False
        #: Bytes that came after the end of the body.
        self.rest = b""
        #: An incomplete line.
        self._line = b""
        self._left = 0
        self._is_behind_chunk = False
        self._is_in_trailers = False
        self._trailer_bytes = 0

    def feed(self, data: bytes) -> bytes:
        """Return the content in `data`."""
        if self._line:
            data, self._line = self._line + data, b""
        pieces: list[bytes] = []
        at = 0
        while not self.is_complete and at < len(data):
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
                    raise ProtocolError("a chunk's first line is too long")
                self._line = data[at:]
                break
            self._take_line(data[at:end])
            at = end + 2
        if self.is_complete:
            self.rest += data[at:]
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _take_line(self, line: bytes) -> None:
        if self._is_behind_chunk:
            if line:
                raise ProtocolError("a chunk is longer than it says")
            self._is_behind_chunk = False
        elif self._is_in_trailers:
            self._trailer_bytes += len(line)
            if line and (self._trailer_bytes > MAX_HEAD or not _is_field(line)):
                raise ProtocolError("a trailer line is malformed")
            self.is_complete = not line
        else:
            size = _chunk_size(line)
            if size is None:
                raise ProtocolError("the size of a chunk is not a number")
            self._left = int(size[1], 16)
            self._is_in_trailers = self._left == 0
