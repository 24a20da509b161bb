"""Lines in a gzip file that survive kill -9, and a reader that skips damaged parts.

The writer flushes often and begins a new gzip member every few MiB. A file that ends in the middle
of a member is readable up to its last flush. A damaged member is skipped: the reader continues with
the next one. Memory is bounded by the maximum line length, whatever a file expands to.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import IO, Final

#: The longest line: etcd stores no object above 1.5 MiB by default.
MAX_LINE_BYTES: Final = 8 << 20
#: Uncompressed bytes of one member, which is the most that one damage can lose.
MEMBER_BYTES: Final = 4 << 20
_MAGIC: Final = b"\x1f\x8b\x08"
_GZIP: Final = 31
_CHUNK: Final = 1 << 16


class Damage(str):
    """Stands for lost lines: what is wrong with the file, and where."""

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
    tail = b""
    for data in members:
        if isinstance(data, Damage):
            tail = b""
            yield data
            continue
        lines = (tail + data).split(b"\n")
        tail = lines.pop()
        if len(tail) > max_line:
            yield Damage(f"a line is longer than {max_line >> 20} MiB")
            return
        yield from lines
    if tail:
        yield Damage("the last line is cut off")


def _until_error(unpacker: zlib._Decompress, data: bytes) -> Iterator[bytes]:
    """The data before the damage: the last lines of a killed writer, if another one appended."""
    for place in range(len(data)):
        try:
            if unpacked := unpacker.decompress(data[place : place + 1]):
                yield unpacked
        except zlib.error:
            return


class _Members:
    """The bytes of all gzip members in a file, one after the other."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._buffer = b""
        self._offset = 0  # of the buffer's first byte

    def __iter__(self) -> Iterator[bytes | Damage]:
        while self._fill():
            if not self._buffer.startswith(_MAGIC):
                yield Damage(f"no gzip data at byte {self._offset}")
                if not self._seek_member():
                    return
            yield from self._member()

    def _member(self) -> Iterator[bytes | Damage]:
        began = self._offset
        unpacker = before = zlib.decompressobj(_GZIP)
        try:
            while not unpacker.eof:
                if not self._fill():
                    yield Damage(f"the file ends within the part that begins at byte {began}")
                    return
                given, before = len(self._buffer), unpacker.copy()
                data = unpacker.decompress(self._buffer, 1 << 20)
                rest = unpacker.unused_data or unpacker.unconsumed_tail
                self._consume(given - len(rest))
                if data:
                    yield data
        except zlib.error as problem:
            yield from _until_error(before, self._buffer)
            reason = str(problem).partition(": ")[2] or str(problem)
            yield Damage(f"the part that begins at byte {began} is damaged: {reason}")
            if self._offset == began:  # do not find this member's own header again
                self._consume(len(_MAGIC))
            self._seek_member()

    def _seek_member(self) -> bool:
        """Skip to the next header of a member; False if there is none."""
        while self._fill():
            found = self._buffer.find(_MAGIC)
            if found >= 0:
                self._consume(found)
                return True
            # A header may span the end of the buffer.
            keep = len(_MAGIC) - 1
            self._consume(max(len(self._buffer) - keep, 0))
            if not (more := self._file.read(_CHUNK)):
                self._consume(len(self._buffer))
                return False
            self._buffer += more
        return False

    def _fill(self) -> bool:
        if not self._buffer:
            self._buffer = self._file.read(_CHUNK)
        return bool(self._buffer)

    def _consume(self, count: int) -> None:
        self._buffer = self._buffer[count:]
        self._offset += count
