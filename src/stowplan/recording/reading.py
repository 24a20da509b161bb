"""Read a recording file as entries, in order, with gaps where changes are missing.

A file may be cut off by a kill, damaged on disk, appended to after a restart, or fabricated. All
readable lines are read; the others are counted and reported. Only a file that is not a recording,
or has another format, is rejected.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from stowplan.clock import parse_rfc3339
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
#: Number of files that an error about a folder names.
_NAMED: Final = 3
#: Maximum number of gaps that a reader keeps.
MOST_GAPS: Final = 1_000
#: Longer pauses are shortened to this: replaying an idle day takes a third of a second.
LONGEST_PAUSE_S: Final = 86_400.0


@dataclass(slots=True)
class Problems:
    """The number of problems of a file, and the first few of them."""

    count: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, text: str) -> None:
        self.count += 1
        if len(self.examples) < _EXAMPLES:
            self.examples.append(text)


@dataclass(frozen=True, slots=True)
class Session:
    """One run of a recorder: a header and the entries after it."""

    header: Header
    entries: Iterator[Entry]


def read_sessions(path: Path, problems: Problems | None = None) -> Iterator[Session]:
    """The sessions of a file. Read each to its end before the next one. Raises ConfigError."""
    problems = Problems() if problems is None else problems
    refuse_folder(path)
    try:
        file = path.open("rb")
    except (OSError, ValueError) as problem:
        why = getattr(problem, "strerror", None) or str(problem)
        raise ConfigError(f"cannot be read: {why}", where=str(path)) from None
    with file:
        walk = _Walk(path, _parsed(path, read_lines(file), problems))
        while (header := walk.next_header()) is not None:
            yield Session(header, walk.entries())


def refuse_folder(path: Path) -> None:
    """Raise ConfigError if the path is a folder; the message names recordings in it."""
    if not path.is_dir():
        return
    try:
        names = sorted(each.name for each in path.iterdir() if each.name.endswith(".jsonl.gz"))
    except OSError as problem:
        raise ConfigError(f"cannot be read: {problem.strerror}", where=str(path)) from None
    if not names:
        raise ConfigError("is a folder without recordings. Fix: give a file", where=str(path))
    shown = ", ".join(names[-_NAMED:])
    others = f" (and {len(names) - _NAMED:,} older)" if len(names) > _NAMED else ""
    raise ConfigError(f"is a folder. Fix: give one of its files: {shown}{others}", where=str(path))


class SessionTimes:
    """Seconds since the first session began, across sessions.

    Times never decrease, and no pause is longer than `LONGEST_PAUSE_S`: a clock that was set, or a
    fabricated file, must not make a replay last for centuries.
    """

    def __init__(self) -> None:
        self._first: float | None = None
        self._began = 0.0
        self.latest = 0.0

    def begin(self, header: Header) -> str:
        """Begin a session. Returns a note about the pause before it; empty for the first one."""
        wall = _wall(header)
        if self._first is None:
            self._first = wall
            return ""
        pause = wall - self._first - self.latest
        self._began = self.latest = self.latest + min(max(pause, 0.0), LONGEST_PAUSE_S)
        return "recording began again: changes before this moment may be missing"

    def at(self, seconds: float) -> float:
        """The time of an entry, given its seconds since its session began."""
        jump = self._began + seconds - self.latest
        if jump > LONGEST_PAUSE_S:
            self._began -= jump - LONGEST_PAUSE_S
        self.latest = max(self.latest, round(self._began + seconds, 3))
        return self.latest


def _wall(header: Header) -> float:
    try:
        return parse_rfc3339(header.started_at)
    except (ValueError, OverflowError):
        return 0.0


def is_recording(path: Path) -> bool:
    """Whether a file begins as a recording does; False if it cannot be read."""
    return _first_line(path).startswith(b'{"recording"')


def first_header(path: Path) -> Header | None:
    """The header of a file; None if it is not a recording. Raises ConfigError for other formats."""
    try:
        parsed = parse_line(_first_line(path))
    except ForeignVersion as problem:
        raise ConfigError(str(problem), where=str(path)) from None
    except BadLine:
        return None
    return parsed if isinstance(parsed, Header) else None


def _first_line(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            first = next(read_lines(file), b"")
    except (OSError, ValueError):
        return b""
    return first if isinstance(first, bytes) else b""


class _Walk:
    """Splits a stream of headers and entries at the headers."""

    def __init__(self, path: Path, lines: Iterator[Header | Entry]) -> None:
        self._path = path
        self._lines = lines
        self._next: Header | None = None
        self._is_first = True

    def next_header(self) -> Header | None:
        for _ in self.entries():
            pass  # the rest of a session that was not read to its end
        header, self._next = self._next, None
        if self._is_first and header is None:
            raise ConfigError(
                "is not a recording, or its beginning is lost. Fix: give a file that"
                " `stowplan record` wrote",
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
                continue  # before any header, so its time is unknown
            # Times never decrease, whatever a file says.
            latest = max(latest, line.at)
            yield line if line.at == latest else _at(line, latest)


def _at(entry: Entry, at: float) -> Entry:
    return Entry(at, entry.type, entry.kind, entry.object, entry.note)


def _parsed(
    path: Path, lines: Iterator[bytes | Damage], problems: Problems
) -> Iterator[Header | Entry]:
    at, is_gap = 0.0, False
    for number, line in enumerate(lines, 1):
        if isinstance(line, Damage):
            problems.add(str(line))
            yield Entry(at, EntryType.GAP, note=str(line))
            is_gap = True
            continue
        try:
            parsed = parse_line(line)
        except ForeignVersion as problem:
            raise ConfigError(str(problem), where=str(path)) from None
        except BadLine as problem:
            problems.add(f"line {number}: {problem}")
            if not is_gap:  # consecutive bad lines are one gap
                yield Entry(at, EntryType.GAP, note=f"line {number} cannot be read")
            is_gap = True
            continue
        is_gap = False
        at = parsed.at if isinstance(parsed, Entry) else 0.0
        yield parsed
