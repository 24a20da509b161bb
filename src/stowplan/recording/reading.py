"""A recording file into entries, in order, with what is missing told as gaps.

A file may have been cut off by a kill, damaged on a disk, appended to after a restart, or made up.
What can be read is read; the rest is counted and named. Only a file that is no recording at all, or
one of another format, is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from stowplan.errors import ConfigError
from stowplan.recording.entries import (
    BadLine,
    Entry,
    EntryType,
    ForeignVersion,
    Header,
    parse_line,
)
from stowplan.recording.gzip_lines import Damage, read_lines

_EXAMPLES: Final = 5


@dataclass(slots=True)
class Problems:
    """What is wrong with a file, by the first few examples."""

    count: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, text: str) -> None:
        self.count += 1
        if len(self.examples) < _EXAMPLES:
            self.examples.append(text)


@dataclass(frozen=True, slots=True)
class Session:
    """One run of a recorder: what follows a header."""

    header: Header
    entries: Iterator[Entry]


def read_sessions(path: Path, problems: Problems | None = None) -> Iterator[Session]:
    """The sessions of a file; each must be used up before the next one. Raises ConfigError."""
    problems = Problems() if problems is None else problems
    try:
        file = path.open("rb")
    except (OSError, ValueError) as problem:
        why = getattr(problem, "strerror", None) or str(problem)
        raise ConfigError(f"cannot be read: {why}", where=str(path)) from None
    with file:
        walk = _Walk(path, _parsed(path, read_lines(file), problems))
        while (header := walk.next_header()) is not None:
            yield Session(header, walk.entries())


def is_recording(path: Path) -> bool:
    """Whether a file begins like one of ours; a file that cannot be read does not."""
    try:
        with path.open("rb") as file:
            first = next(read_lines(file), b"")
    except (OSError, ValueError):
        return False
    return isinstance(first, bytes) and first.startswith(b'{"recording"')


class _Walk:
    """Splits a stream of headers and entries at the headers."""

    def __init__(self, path: Path, lines: Iterator[Header | Entry]) -> None:
        self._path = path
        self._lines = lines
        self._next: Header | None = None
        self._is_first = True

    def next_header(self) -> Header | None:
        for _ in self.entries():
            pass  # of a session that was not used up
        header, self._next = self._next, None
        if self._is_first and header is None:
            raise ConfigError(
                "is no recording, or its beginning is lost. Fix: give a file that `stowplan record`"
                " wrote",
                where=str(self._path),
            )
        self._is_first = False
        return header

    def entries(self) -> Iterator[Entry]:
        if self._next is not None:
            return
        latest = 0.0
        for line in self._lines:
            if isinstance(line, Header):
                self._next = line
                return
            if self._is_first:
                continue  # before any header: nothing to relate it to
            # Times never go back, whatever a file says.
            latest = max(latest, line.at)
            yield line if line.at == latest else _at(line, latest)


def _at(entry: Entry, at: float) -> Entry:
    return Entry(at, entry.type, entry.kind, entry.object, entry.note)


def _parsed(
    path: Path, lines: Iterator[bytes | Damage], problems: Problems
) -> Iterator[Header | Entry]:
    at = 0.0
    for number, line in enumerate(lines, 1):
        if isinstance(line, Damage):
            problems.add(str(line))
            yield Entry(at, EntryType.GAP, note=str(line))
            continue
        try:
            parsed = parse_line(line)
        except ForeignVersion as problem:
            raise ConfigError(str(problem), where=str(path)) from None
        except BadLine as problem:
            problems.add(f"line {number}: {problem}")
            yield Entry(at, EntryType.GAP, note=f"line {number} cannot be read")
            continue
        at = parsed.at if isinstance(parsed, Entry) else 0.0
        yield parsed
