"""Lines in a gzip file that survive kill -9, and a reader that skips damaged parts.

The writer flushes often and begins a new gzip member every few MiB. A file that ends in the middle
of a member is readable up to its last flush, and stays so if another writer appends to it. The rest
of a damaged member is skipped: the reader continues with the next one. The reader's memory is
bounded by the maximum line length, and all that it returns by the size of the file.
"""

from __future__ import annotations

import zlib
from collections.abc import Generator, Iterator
from contextlib import suppress
from typing import IO, Final

#: The longest line: etcd stores no object above 1.5 MiB by default.
MAX_LINE_BYTES: Final = 8 << 20
#: Uncompressed bytes of one member, which is the most that one damage can lose.
MEMBER_BYTES: Final = 4 << 20
#: The first bytes of a gzip member.
MAGIC: Final = b"\x1f\x8b\x08"
_GZIP: Final = 31
_CHUNK: Final = 1 << 16
#: Unpacked bytes that are handed on at once. Small pieces of a long line would be joined, and so
#: copied, again and again.
_UNPACKED: Final = 1 << 20
#: What a file expands to: any size up to the first, then at most this many times the size of what
#: was read. Recordings expand to 10 to 40 times their size; gzip allows 1,000.
_SMALL: Final = 64 << 20
_MOST_TIMES: Final = 200
#: How many lines a file has: any number up to the first, then at most one in so many bytes of what
#: was read. Lines of recordings take 50 bytes or so of a file; gzip allows hundreds in one byte.
_FEW_LINES: Final = 100_000
_LINE_BYTES: Final = 4
#: Bytes that are enough to unpack the first characters of a member, and these characters.
_PROBE: Final = 512
_FIRST: Final = b'{"'


class Damage(str):
    """Stands for lost lines: a predicate such as "is damaged at byte 850"."""

    __slots__ = ()


class Unfinished(Damage):
    """A member that its writer did not finish: it was killed, or the file is cut off."""

    __slots__ = ()


class WrongChecksum(Damage):
    """A member that was unpacked and has a wrong checksum: some of its lines may be wrong."""

    __slots__ = ()


class LineWriter:
    """Appends lines to a file that is open for writing."""

    def __init__(self, file: IO[bytes], *, member_bytes: int = MEMBER_BYTES) -> None:
        self._file = file
        self._member_bytes = member_bytes
        self._packer: zlib._Compress | None = None
        self._unpacked = 0
        self._pending = False
        #: Bytes in the file that this writer wrote.
        self.written = 0

    def add(self, line: bytes) -> None:
        """Append a line. It is in the file after the next `flush`."""
        if self._packer is None:
            self._packer = zlib.compressobj(6, zlib.DEFLATED, _GZIP)
            self._unpacked = 0
        self._write(self._packer.compress(line + b"\n"))
        self._unpacked += len(line) + 1
        self._pending = True
        if self._unpacked >= self._member_bytes:
            self.end_member()

    def flush(self) -> None:
        """Hand all lines to the operating system, so that a kill of this process loses none."""
        if self._pending and self._packer is not None:
            self._write(self._packer.flush(zlib.Z_SYNC_FLUSH))
        self._pending = False
        self._file.flush()

    def end_member(self) -> None:
        """End the gzip member; the next line begins a new one. Must be the last call on a file."""
        if self._packer is not None:
            self._write(self._packer.flush(zlib.Z_FINISH))
            self._packer = None
        self._pending = False
        self._file.flush()

    def _write(self, data: bytes) -> None:
        if data:
            self._file.write(data)
            self.written += len(data)


def read_lines(file: IO[bytes], *, max_line: int = MAX_LINE_BYTES) -> Iterator[bytes | Damage]:
    """The lines, with a `Damage` where lines are lost."""
    members = _Members(file)
    unpacked = found = 0
    tail = bytearray()  # the line so far, which no piece of data copies again
    for data in members:
        if isinstance(data, Damage):
            tail.clear()
            yield data
            continue
        unpacked += len(data)
        if unpacked > max(_SMALL, _MOST_TIMES * members.offset):
            yield Damage(f"expands to more than {_MOST_TIMES} times its size")
            return
        most = max(_FEW_LINES, members.offset // _LINE_BYTES)
        first, *others = data.split(b"\n", most - found + 1)
        tail += first
        if len(tail) > max_line:
            yield Damage(f"has a line of more than {max_line >> 20} MiB")
            return
        if others:
            found += len(others)
            yield bytes(tail)
            tail = bytearray(others.pop())
            yield from others
            if found > most:
                yield Damage(f"has more than one line in {_LINE_BYTES} bytes")
                return
    if tail:
        yield Damage("ends within a line")


def first_lines(file: IO[bytes]) -> Iterator[bytes]:
    """The first line of each member, or its beginning; the rest is not unpacked."""
    members = _Members(file)
    while members.seek_member():
        yield members.take_first_line()


class _Members:
    """The bytes of all gzip members in a file, one after the other."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._buffer = b""
        #: Of the buffer's first byte: so many bytes of the file are unpacked.
        self.offset = 0

    def __iter__(self) -> Iterator[bytes | Damage]:
        while self._fill():
            if not self._buffer.startswith(MAGIC):
                yield Damage(f"is damaged at byte {self.offset}")
                if not self.seek_member():
                    return
            yield from self._member()

    def _member(self) -> Iterator[bytes | Damage]:
        began = self.offset
        unpacker = before = zlib.decompressobj(_GZIP)
        given = b""
        try:
            while not unpacker.eof:
                # The member of a killed writer ends where that of the next writer begins.
                end = self._next_member(1 if self.offset == began else 0)
                if not end:
                    yield Unfinished(f"breaks off at byte {self.offset}")
                    return
                given, before = self._buffer[:end], unpacker.copy()
                data = unpacker.decompress(given, _UNPACKED)
                rest = unpacker.unused_data or unpacker.unconsumed_tail
                self._consume(len(given) - len(rest))
                if data:
                    yield data
        except zlib.error as problem:
            self._consume((yield from _until_error(before, given)))
            if self._has_whole_member(problem):
                yield WrongChecksum(
                    f"has a wrong checksum for bytes {began} to {self.offset}:"
                    " some changes there may be wrong"
                )
            else:
                yield Damage(f"is damaged at byte {self.offset}")
            if self.offset == began:  # do not find this member's own header again
                self._consume(len(MAGIC))
            self.seek_member()

    def _has_whole_member(self, problem: zlib.error) -> bool:
        """Whether only a checksum is wrong, and the member ends where it should.

        The buffer begins with the last byte of the CRC, or of the length that follows it.
        """
        left = 5 if "data check" in str(problem) else 1 if "length check" in str(problem) else 0
        self._fill(left + len(MAGIC))
        return left > 0 and self._buffer[left:].startswith(MAGIC[: len(self._buffer) - left])

    def _next_member(self, start: int) -> int:
        """The position in the buffer of the next member; if none is there, of the buffer's end.

        0: the file ends, or a member begins here.
        """
        self._fill(_CHUNK + _PROBE)
        limit = min(len(self._buffer), _CHUNK)
        place = self._buffer.find(MAGIC, start, limit + len(MAGIC) - 1)
        while place >= 0 and not self._is_member(place):
            place = self._buffer.find(MAGIC, place + 1, limit + len(MAGIC) - 1)
        return limit if place < 0 else place

    def _is_member(self, place: int) -> bool:
        """Whether a member of ours begins here: packed data can contain the same three bytes."""
        probe = self._buffer[place : place + _PROBE]
        try:
            text = zlib.decompressobj(_GZIP).decompress(probe, len(_FIRST))
        except zlib.error:
            return False
        return text == _FIRST or (not text and len(probe) < _PROBE)

    def take_first_line(self) -> bytes:
        """Of the member that begins here; then skip the beginning of this member."""
        self._fill(_CHUNK)
        text = b""
        with suppress(zlib.error):
            text = zlib.decompressobj(_GZIP).decompress(self._buffer[:_CHUNK], _CHUNK)
        self._consume(len(MAGIC))
        return text.partition(b"\n")[0]

    def seek_member(self) -> bool:
        """Skip to the next member; False if there is none."""
        while self._fill():
            self._consume(self._next_member(0))
            if self._buffer.startswith(MAGIC) and self._is_member(0):
                return True
        return False

    def _fill(self, least: int = 1) -> bool:
        """Read on until the buffer has so many bytes, or the file ends; False if it is empty."""
        while len(self._buffer) < least and (more := self._file.read(_CHUNK)):
            self._buffer += more
        return bool(self._buffer)

    def _consume(self, count: int) -> None:
        self._buffer = self._buffer[count:]
        self.offset += count


def _until_error(unpacker: zlib._Decompress, data: bytes) -> Generator[bytes, None, int]:
    """Yield what can be unpacked before the error; returns its place in the data."""
    unpacked = bytearray()
    place = 0
    try:
        for place in range(len(data)):
            unpacked += unpacker.decompress(data[place : place + 1])
            if len(unpacked) >= _UNPACKED:
                yield bytes(unpacked)
                unpacked.clear()
        place = len(data)
    except zlib.error:
        pass
    if unpacked:
        yield bytes(unpacked)
    return place
