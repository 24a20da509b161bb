"""The head of an HTTP/1.1 request, and bodies in chunks: parsing alone, no sockets.

Called by `http_server`. Strict where leniency would let two readers of the same bytes disagree
about where a request ends (RFC 9112, 6.3). What cannot be understood is a `Refused`, which says
with which status and words to answer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from typing import Final

END_OF_HEAD: Final = b"\r\n\r\n"
MAX_HEAD: Final = 32 * 1024
_MAX_LINE: Final = 4 * 1024
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_MAX_DIGITS: Final = 15
#: Longer heads are parsed each time.
_REMEMBERED: Final = 1024


class Refused(Exception):
    """A request that will not be answered as it was meant."""

    def __init__(self, status: HTTPStatus, problem: str) -> None:
        super().__init__(problem)
        self.status = status


@dataclass(frozen=True, slots=True)
class Head:
    """`length` is None for a body in chunks. Names of headers are in lower case.

    Requests may share one, so that nobody may change it.
    """

    method: str
    path: str
    query: str
    headers: dict[str, str]
    length: int | None
    keeps_alive: bool

    @property
    def waits_for_consent(self) -> bool:
        """Whether the client sends its body only when it is told to go on."""
        return self.headers.get("expect", "").lower() == "100-continue"


def parse_head(head: bytes) -> Head:
    """`head` is everything before the empty line."""
    # A client's heads differ in the length of the body, and not even in that if pods are alike.
    return _parse_again(head) if len(head) <= _REMEMBERED else _parse(head)


def _parse(head: bytes) -> Head:
    request, *lines = head.decode("latin-1").split("\r\n")
    words = request.split(" ")
    if len(words) != 3 or not _TOKEN.fullmatch(words[0]):
        raise _bad("the first line is not that of an HTTP request")
    method, target, version = words
    if version not in ("HTTP/1.1", "HTTP/1.0"):
        raise _bad("the protocol is not HTTP/1.1")
    if not target.startswith("/"):
        raise _bad("the target is not a path")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not _TOKEN.fullmatch(name):
            raise _bad("a header line is malformed")
        name, value = name.lower(), value.strip(" \t")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    path, _, query = target.partition("?")
    wish = headers.get("connection", "").lower()
    keeps_alive = "keep-alive" in wish if version == "HTTP/1.0" else "close" not in wish
    return Head(method, path, query, headers, _length(headers), keeps_alive)


_parse_again: Final = lru_cache(maxsize=256)(_parse)


def _length(headers: dict[str, str]) -> int | None:
    coding = headers.get("transfer-encoding")
    text = headers.get("content-length")
    if coding is not None:
        if coding.lower() != "chunked" or text is not None:
            raise _bad("Transfer-Encoding can only be chunked, and without Content-Length")
        return None
    if text is None:
        return 0
    if not text.isascii() or not text.isdigit() or len(text) > _MAX_DIGITS:
        raise _bad("Content-Length is not a number")
    return int(text)


class ChunkedBody:
    """A body in chunks, from bytes as they come."""

    def __init__(self) -> None:
        self.content = bytearray()
        #: What is left of the chunk at hand; None between chunks.
        self._left: int | None = None
        self._in_trailers = False

    def take(self, received: bytearray) -> bool:
        """Take what can be taken from `received`; True when the body is complete."""
        while True:
            if self._left:
                piece = received[: self._left]
                self.content += piece
                del received[: len(piece)]
                self._left -= len(piece)
                if self._left:
                    return False
            line = _take_line(received)
            if line is None:
                return False
            if self._left == 0 and not self._in_trailers:
                if line:
                    raise _bad("a chunk is longer than it says")
                self._left = None
            elif self._in_trailers:
                if not line:
                    return True
            else:
                self._left = _chunk_size(line)
                if self._left == 0:
                    self._in_trailers = True


def _take_line(received: bytearray) -> bytes | None:
    end = received.find(b"\r\n", 0, _MAX_LINE)
    if end < 0:
        if len(received) >= _MAX_LINE:
            raise _bad("a chunk's first line is too long")
        return None
    line = bytes(received[:end])
    del received[: end + 2]
    return line


def _chunk_size(line: bytes) -> int:
    digits = line.partition(b";")[0].strip(b" \t")
    if not re.fullmatch(rb"[0-9A-Fa-f]{1,12}", digits):
        raise _bad("the size of a chunk is not a number")
    return int(digits, 16)


def _bad(problem: str) -> Refused:
    return Refused(HTTPStatus.BAD_REQUEST, problem)
