"""HTTP/1.1 messages on asyncio streams: just what a proxy needs, independent of `stowplan.http`.

The proxy tests the product's own HTTP code, so it must not share it. Bodies are given by
Content-Length, in chunks, or by the end of the connection.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass

#: A list of 5,000 pods is read line by line in its chunk headers only; heads are short.
LIMIT = 1 << 20
_PIECE = 1 << 16
_WITHOUT_BODY = {"204", "304"}


@dataclass
class Head:
    """A request line or a status line, and the header fields in their order."""

    words: list[str]
    fields: list[tuple[str, str]]

    def get(self, name: str) -> str:
        return next((value for key, value in self.fields if key.lower() == name), "")

    def without(self, *names: str) -> list[tuple[str, str]]:
        return [(key, value) for key, value in self.fields if key.lower() not in names]

    @property
    def closes(self) -> bool:
        return self.get("connection").lower() == "close" or "HTTP/1.0" in self.words


async def read_head(reader: asyncio.StreamReader) -> Head | None:
    """The next head; None at the end of the connection."""
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = raw.decode("latin-1").split("\r\n")[:-2]
    pairs = [line.partition(":") for line in lines]
    return Head(first.split(" ", 2), [(key, value.strip()) for key, _, value in pairs])


async def pieces(
    reader: asyncio.StreamReader, head: Head, *, is_response: bool
) -> AsyncIterator[bytes]:
    """A body as it arrives, chunk by chunk, without its framing."""
    if is_response and head.words[1] in _WITHOUT_BODY:
        return
    if "chunked" in head.get("transfer-encoding").lower():
        while size := await _chunk_size(reader):
            yield await reader.readexactly(size)
            await reader.readline()
        await reader.readline()
    elif head.get("content-length"):
        left = int(head.get("content-length"))
        while left:
            piece = await reader.read(min(left, _PIECE))
            if not piece:
                raise asyncio.IncompleteReadError(b"", left)
            left -= len(piece)
            yield piece
    elif is_response:
        while piece := await reader.read(_PIECE):
            yield piece


async def _chunk_size(reader: asyncio.StreamReader) -> int:
    line = await reader.readline()
    if not line.endswith(b"\n"):
        raise asyncio.IncompleteReadError(line, None)
    return int(line.split(b";")[0], 16)


async def read_body(reader: asyncio.StreamReader, head: Head, *, is_response: bool) -> bytes:
    return b"".join([piece async for piece in pieces(reader, head, is_response=is_response)])


def write_head(words: list[str], fields: list[tuple[str, str]]) -> bytes:
    lines = [" ".join(words), *(f"{key}: {value}" for key, value in fields)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def chunk(piece: bytes) -> bytes:
    return f"{len(piece):x}\r\n".encode() + piece + b"\r\n"


def reset(writer: asyncio.StreamWriter) -> None:
    """Close a connection with RST, so that the peer gets ECONNRESET and no end of file."""
    raw = writer.get_extra_info("socket")
    if raw is not None:
        with suppress(OSError):
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
