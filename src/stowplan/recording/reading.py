"""Read a recording as entries, in order, with gaps where changes are missing.

A recording is a file, or a folder of rotated files. A file may be cut off by a kill, damaged on
disk, appended to after a restart, or fabricated. All readable lines are read. Everything that may
be missing is an entry of type GAP, so all readers report the same gaps. Rejected are only files
that are not recordings, have another format or no readable snapshot, and sessions that do not go
together: of other clusters, or with names that are hashed with different keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import chain
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from stowplan.errors import ConfigError
from stowplan.recording.entries import (
    BadLine,
    Entry,
    EntryType,
    ForeignVersion,
    Header,
    mismatch,
    parse_line,
)
from stowplan.recording.gzip_lines import Damage, Unfinished, WrongChecksum, read_lines
from stowplan.recording.probe import (
    PROBED_LINES,
    first_header,
    is_gzip,
    recording_files,
    unreadable,
    why_no_recording,
)
from stowplan.recording.session_times import SessionTimes

#: The note of an END entry at the end of a file that is continued by the next one.
ROTATED: Final = "rotated"
_EXAMPLES: Final = 5
#: Maximum length of a kind or a note. Readers keep notes, and a line can have 8 MiB.
LONGEST_TEXT: Final = 300
#: Maximum number of gaps that a reader keeps.
MOST_GAPS: Final = 1_000


@dataclass(slots=True)
class Problems:
    """The number of damaged places in a recording, and the first few of them."""

    count: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, text: str) -> None:
        self.count += 1
        if len(self.examples) < _EXAMPLES:
            self.examples.append(text)


@dataclass(frozen=True, slots=True)
class Session:
    """One run of a recorder: a header and the entries after it.

    Times of entries are seconds since the first session began. They never decrease.
    """

    header: Header
    entries: Iterator[Entry]


def read_sessions(path: Path, problems: Problems | None = None) -> Iterator[Session]:
    """The sessions of a file or folder. Read each to its end before the next one.

    `problems` counts damage, which is also reported as GAP entries. Raises ConfigError, at the end
    if the recording has no readable snapshot.
    """
    return _Reader(path, Problems() if problems is None else problems).sessions()


class _Cause(IntEnum):
    """Why lines are lost. Of adjacent losses, the greatest cause is reported."""

    #: The recorder was killed, or the file is cut off.
    UNFINISHED = 0
    #: Lines are wrong rather than lost.
    WRONG = 1
    BAD_LINE = 2
    DAMAGE = 3


_CAUSES: Final = {Unfinished: _Cause.UNFINISHED, WrongChecksum: _Cause.WRONG}


@dataclass(frozen=True, slots=True)
class _Loss:
    """Stands for lines that cannot be read."""

    cause: _Cause
    #: What is wrong, and where.
    text: str


class _Reader:
    """Splits lines at the headers, and reports lost lines and pauses as gaps.

    How much is lost is known when the next line is read, so a gap comes just before that line, or
    at the end.
    """

    def __init__(self, path: Path, problems: Problems) -> None:
        self._path = path
        self._problems = problems
        self._times = SessionTimes()
        self._lines = self._parsed()
        self._next: Header | None = None
        self._loss: _Loss | None = None
        #: A loss that no readable line follows.
        self._last_loss: _Loss | None = None
        #: The note of the latest END entry; empty if another entry followed it.
        self._end = ""
        #: The latest header, its file, and the file that is read now.
        self._header: Header | None = None
        self._header_file = self._file = path
        self._has_objects = self._has_snapshot = False

    def sessions(self) -> Iterator[Session]:
        while (header := self._next_header()) is not None:
            yield Session(header, chain(self._begin(header), self._changes()))
        if not self._has_snapshot and (self._last_loss is not None or not self._has_objects):
            what = "nothing after its header can be read"
            if self._last_loss is not None:
                what = f"{self._last_loss.text}, before its first snapshot of the cluster ends"
            raise ConfigError(f"{what}. Fix: give another recording", where=str(self._path))

    def _next_header(self) -> Header | None:
        for _ in self._changes():
            pass  # the rest of a session that was not read to its end, or before any header
        header, self._next = self._next, None
        if header is None and self._header is None:
            first = recording_files(self._path)[0]
            why, fix = why_no_recording(first)
            raise ConfigError(f"{why}. Fix: {fix}", where=str(first))
        return header

    def _begin(self, header: Header) -> list[Entry]:
        if self._header is not None:
            self._check_together(self._header, header)
        before = self._times.latest
        self._times.begin(header)
        note = self._pause(header, before, self._times.latest)
        self._loss, self._end = None, ""
        if self._header is not None and not header.cluster:
            header = replace(header, cluster=self._header.cluster)  # the last one that is known
        self._header, self._header_file = header, self._file
        return [self._gap(note)] if note else []

    def _check_together(self, old: Header, new: Header) -> None:
        """Raise ConfigError if equal names do not match: nodes and pods would be there twice."""
        differ = mismatch(old, new)
        if not differ:
            return
        if self._file == self._header_file:
            which, fix = "its sessions", "give another recording"
        else:
            # If there are several: moving the files before the last one is enough to read the rest.
            last, first, differ = self._last_boundary(old, new)
            which = f"{last.name} and {first.name}"
            fix = f"move the files up to {last.name} to another folder"
        raise ConfigError(
            f"{which} cannot be read together: {differ}. Fix: {fix}",
            where=str(self._path),
        )

    def _last_boundary(self, old: Header, new: Header) -> tuple[Path, Path, str]:
        """The last two adjacent files that do not go together, and why; these headers do not."""
        boundary = (self._header_file, self._file, mismatch(old, new))
        last, before = self._file, new
        files = recording_files(self._path)
        for file in files[files.index(last) + 1 :]:
            header = None
            with suppress(ConfigError):  # of another format
                header = first_header(file)
            if header is not None:
                if differ := mismatch(before, header):
                    boundary = (last, file, differ)
                last, before = file, header
        return boundary

    def _changes(self) -> Iterator[Entry]:
        """The entries up to the next header or the end of the recording."""
        if self._next is not None:
            return
        for line in self._lines:
            if isinstance(line, Header):
                self._next = line
                return
            if isinstance(line, _Loss):
                if self._loss is None or line.cause > self._loss.cause:
                    self._loss = line
            elif self._header is not None:  # otherwise its time is unknown
                yield from self._entry(line)
        loss, self._loss = self._loss, None
        if loss is None or (loss.cause is _Cause.UNFINISHED and self._end):
            return
        self._last_loss = loss
        if self._header is not None:
            yield self._gap(self._lost(loss))

    def _entry(self, entry: Entry) -> Iterator[Entry]:
        before, at = self._times.latest, self._times.at(entry.at)
        if self._times.cut:
            yield self._gap(
                f"nothing for {_s(at - before + self._times.cut)}, or a wrong time: this counts as"
                f" {_s(at - before)}"
            )
        if self._loss is not None:
            loss, self._loss = self._loss, None
            yield self._gap(self._lost(loss, before, at))
        self._end = (entry.note or "stopped") if entry.type is EntryType.END else ""
        self._has_snapshot |= entry.type is EntryType.SYNCED
        self._has_objects |= bool(bytes(entry.object))
        kind, note = entry.kind[:LONGEST_TEXT], entry.note[:LONGEST_TEXT]
        if entry.type is EntryType.GAP and kind:
            note = f"{kind}: {note}"
        yield Entry(at, entry.type, kind, entry.object, note)

    def _gap(self, note: str) -> Entry:
        return Entry(self._times.latest, EntryType.GAP, note=note)

    def _lost(self, loss: _Loss, before: float | None = None, at: float = 0.0) -> str:
        """The note of a loss between two entries, or after the last one."""
        if loss.cause is _Cause.WRONG:
            note = loss.text
        elif before is not None:
            note = f"{loss.text}: changes between {_s(before)} and {_s(at)} are lost"
        elif loss.cause is _Cause.UNFINISHED:
            note = (
                f"the recording breaks off at {_s(self._times.latest)}: its recorder was killed"
                " or still runs, or the file is cut off"
            )
        else:
            note = f"{loss.text}: everything after {_s(self._times.latest)} is lost"
        self._problems.add(note)
        return note

    def _pause(self, header: Header, before: float, now: float) -> str:
        """The note of the pause before a session; empty if no change is missing."""
        loss = self._loss
        if loss is not None and self._header is None:
            note = f"{loss.text}: everything before this session is lost"
            self._problems.add(note)
            return note
        if loss is not None and loss.cause is not _Cause.UNFINISHED:
            return self._lost(loss, before, now)
        if self._header is None:
            return ""
        if not self._end:
            killed = f"the recorder was killed after {_s(before)}"
            if loss is not None and self._path.is_dir():
                killed = f"{loss.text}: {killed}, or the file is cut off"
            return f"{killed}; recording continued at {_s(now)}"
        last = self._header.session
        if self._end == ROTATED and header.continues and header.continues == last:
            return ""
        return f"recording stopped at {_s(before)} and continued at {_s(now)}"

    def _parsed(self) -> Iterator[Header | Entry | _Loss]:
        for file in recording_files(self._path):
            name = "the recording" if file == self._path else file.name
            self._file = file
            try:
                stream = file.open("rb")
            except (OSError, ValueError) as problem:
                raise unreadable(file, problem) from None
            with stream:
                if not is_gzip(stream) and stream.peek(1):
                    yield _Loss(_Cause.DAMAGE, f"{name} is damaged at byte 0")
                    continue
                for number, line in enumerate(read_lines(stream), 1):
                    if number > PROBED_LINES and self._header is None:
                        return
                    yield _parsed_line(line, number, file, name)


def _parsed_line(
    line: bytes | Damage, number: int, file: Path, name: str
) -> Header | Entry | _Loss:
    if isinstance(line, Damage):
        cause = _CAUSES.get(type(line), _Cause.DAMAGE)
        return _Loss(cause, f"{name} {line}")
    try:
        return parse_line(line)
    except ForeignVersion as problem:
        raise ConfigError(str(problem), where=str(file)) from None
    except BadLine as problem:
        return _Loss(_Cause.BAD_LINE, f"line {number} of {name} cannot be read ({problem})")


def _s(seconds: float) -> str:
    return f"{seconds:,.1f} s"
