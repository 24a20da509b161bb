"""Files as traces come: plain, gzipped, or one file in a tar archive, read line by line.

Used by the readers of CSV and JSONL. What must stay true: no file is ever held in memory whole;
a file that cannot be read or unpacked is a ConfigError that names it; broken rows are counted, and
the first of them are reported with their lines.
"""

from __future__ import annotations

import gzip
import io
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from stowplan.errors import ConfigError
from stowplan.recording.reading import MOST_GAPS
from stowplan.sim.traces.model import BrokenRow, ReadCounts

_TOLD = 5
#: If nothing may be skipped, read on up to so many broken rows, to report how many there are.
_ENOUGH = 100
_FIX = (
    "Fix: correct {}, or leave out broken rows with `skipBroken: true` (Python: skip_broken=True)"
)
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


class CannotUnpack(ConfigError):
    """A file is not packed as its name says, or it is damaged."""


class BrokenRows:
    """The broken rows of one file."""

    def __init__(self, file: Path, *, skip: bool) -> None:
        self._file = file
        self._skip = skip
        self.count = 0
        self._examples: list[BrokenRow] = []
        self._gaps: list[tuple[float, str]] = []
        #: Of a recording of `stowplan record`: the time of the latest line. There, a line that is
        #: skipped is a gap.
        self.at: float | None = None

    def gap(self, at: float, note: str) -> None:
        """Note a moment before which changes may be missing."""
        if len(self._gaps) < MOST_GAPS:
            self._gaps.append((at, note))

    def add(self, line: int, reason: str) -> None:
        """Count a broken row; if none may be skipped, the hundredth raises."""
        if self._skip and self.at is not None:
            self.gap(self.at, reason)
            return
        self.count += 1
        if len(self._examples) < _TOLD:
            where = f"{self._file}:{line}" if line else str(self._file)
            self._examples.append(BrokenRow(where, reason))
        if not self._skip and self.count >= _ENOUGH:
            self._fail(f"{self.count} broken rows so far, reading stopped there")

    def refuse(self, damage: Sequence[str]) -> None:
        """Count damage that has been noted as gaps as broken rows, too, if none may be skipped."""
        if not self._skip:
            for text in damage:
                self.add(0, text)

    def check(self, read: int, left_out: int = 0) -> None:
        """Raise at the end of the file if broken rows must not be skipped, or no row is left."""
        if self.count and not self._skip:
            self._fail(f"{self.count} broken rows" if self.count > 1 else "")
        if self.count and not read:
            self._fail(f"not one row can be used, {self.count} are broken")
        if not read and self.at is not None:
            raise ConfigError(
                "has no objects: the recorded cluster was empty. Fix: give another recording",
                where=str(self._file),
            )
        if not read:
            why = f": `where` and `limit` leave out all {left_out} rows" if left_out else ""
            raise ConfigError(
                f"holds nothing to play{why}. Fix: give it rows, or leave the trace out",
                where=str(self._file),
            )

    def reading(self, read: int, left_out: int, of: str = "") -> ReadCounts:
        return ReadCounts(read, left_out, self.count, tuple(self._examples), tuple(self._gaps), of)

    def _fail(self, summary: str) -> None:
        first, *others = self._examples
        told = "".join(f"\n  {row.where}: {row.reason}" for row in others)
        counted = f" ({summary})" if summary else ""
        fix = "" if self._skip else f". {_FIX.format('them' if others else 'the row')}"
        raise ConfigError(f"{first.reason}{counted}{fix}{told}", where=first.where)


@contextmanager
def opened(file: Path) -> Iterator[io.TextIOWrapper]:
    """The file's text, unpacked; bytes that are not UTF-8 become lone surrogates."""
    try:
        with _unpacked(file) as binary:
            buffered = io.BufferedReader(binary)  # type: ignore[type-var]  # typed for RawIOBase, reads from any
            if buffered.peek(2)[:2] in _UTF16:
                raise ConfigError("is UTF-16; save it as UTF-8", where=str(file))
            yield io.TextIOWrapper(
                buffered, encoding="utf-8-sig", errors="surrogateescape", newline=""
            )
    except (EOFError, gzip.BadGzipFile, zlib.error, tarfile.TarError) as problem:
        raise CannotUnpack(
            f"cannot be unpacked: {problem}. Fix: give a complete file", where=str(file)
        ) from None
    except OSError as problem:
        reason = problem.strerror or str(problem)
        raise ConfigError(f"cannot be read: {reason}", where=str(file)) from None


@contextmanager
def _unpacked(file: Path) -> Iterator[IO[bytes]]:
    if file.name.endswith((".tar.gz", ".tgz", ".tar")):
        with tarfile.open(file, "r:*") as archive:
            members = [member for member in archive if member.isfile()]
            if len(members) != 1:
                found = f"{len(members)} files" if members else "no file"
                raise ConfigError(
                    f"holds {found}; a trace is one file: unpack it and name the one you mean",
                    where=str(file),
                )
            inner = archive.extractfile(members[0])
            assert inner is not None
            with inner:
                yield inner
    elif file.suffix == ".gz":
        with gzip.open(file) as unzipped:
            yield unzipped  # type: ignore[misc]  # GzipFile is not an IO[bytes]
    else:
        with file.open("rb") as plain:
            yield plain


def is_text(value: str) -> bool:
    """True if the text was valid UTF-8 in the file."""
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
