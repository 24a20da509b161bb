"""The folder of a sweep: an append-only journal of finished tasks, and the results.

A task is finished when its line is in the journal. Invariants: a line that is cut off or damaged
does not count, and a task counts once, however often it ran.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final, TypeAlias

import msgspec

from stowplan.errors import ConfigError
from stowplan.loader.files import read_lines
from stowplan.loader.json_text import UNREADABLE, json_decoder, reason_of
from stowplan.output_file import write_file
from stowplan.recording.folder import files_in
from stowplan.sim.sweep.playing import Played
from stowplan.sim.sweep.tasks import Task

JOURNAL: Final = "journal.jsonl"
RESULTS: Final = "results.jsonl"
REPORT: Final = "report.html"
RUNS: Final = "runs"
DECISIONS: Final = "decisions"


Row: TypeAlias = dict[str, Any]
_KEY: Final = re.compile(r"[0-9a-z]{1,64}")
_decode: Final = json_decoder(dict[str, Any])


class _Line(msgspec.Struct, frozen=True):
    """A line of the journal."""

    row: Row
    #: Sizes of the files of `runs` and `decisions` that were kept.
    kept: dict[str, int]
    digest: str

    @classmethod
    def of(cls, row: Row, kept: dict[str, int]) -> _Line:
        content = msgspec.json.encode([row, kept])
        return cls(row, kept, hashlib.blake2b(content, digest_size=8).hexdigest())


_decode_line: Final = json_decoder(_Line)


class Folder:
    """A folder that one sweep at a time can open."""

    def __init__(self, path: Path, journal: IO[bytes], *, keeps: Iterable[str]) -> None:
        self.path = path
        self._journal = journal
        self._keeps = tuple(keeps)
        self._lines = {line.row["task"]: line for line in _journal(path / JOURNAL)}
        for name in self._keeps:
            (path / name).mkdir(exist_ok=True)

    def row(self, task: Task) -> Row | None:
        """The row of a finished task."""
        line = self._lines.get(task.key)
        if line is None or not all(
            line.kept.get(name) == _size(_kept(self.path, name, task.key)) for name in self._keeps
        ):
            return None
        return line.row

    def add(self, played: Played) -> None:
        """Store the result of a task. Its files come first, so a finished task always has them."""
        before = self._lines.get(played.key)
        kept = {} if before is None else dict(before.kept)
        for name, data in ((RUNS, played.run), (DECISIONS, played.decisions)):
            if data:
                write_file(_kept(self.path, name, played.key), data)
                kept[name] = len(data)
        line = _Line.of(played.row if before is None else before.row, kept)
        if line == before:
            return
        self._lines[played.key] = line
        self._journal.write(msgspec.json.encode(line) + b"\n")
        self._journal.flush()

    def write_results(self, rows: Iterable[Row]) -> Path:
        """Write the rows of finished tasks, in the order of tasks."""
        path = self.path / RESULTS
        write_file(path, b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
        return path

    def write(self, name: str, text: str) -> Path:
        write_file(self.path / name, text.encode())
        return self.path / name


@contextmanager
def opened(path: Path, *, keeps: Iterable[str] = ()) -> Iterator[Folder]:
    """Open the folder; create it if necessary. Raises ConfigError if another sweep uses it."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        with (path / JOURNAL).open("a+b") as journal:
            try:
                fcntl.flock(journal, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ConfigError(
                    "another sweep writes into it. Fix: wait, or choose another --results",
                    where=str(path),
                ) from None
            if journal.tell() and not _ends_with_newline(journal):
                journal.write(b"\n")  # end the line that a kill cut off
            yield Folder(path, journal, keeps=keeps)
    except OSError as problem:  # `open` raises one without strerror for what cannot be searched
        raise ConfigError(
            f"cannot be written: {problem.strerror or problem}. Fix: choose another --results",
            where=str(problem.filename or path / JOURNAL),
        ) from None


def has_results(path: Path) -> bool:
    """Whether a folder has the rows of a sweep."""
    return (path / RESULTS).is_file()


def read_results(path: Path) -> list[Row]:
    """The rows of a finished sweep. Raises ConfigError if there are none, or one is damaged."""
    if not has_results(path):
        raise ConfigError(
            f"has no {RESULTS}, and no recordings. Fix: give the folder of a finished"
            " `stowplan sweep`, or of `stowplan record`",
            where=str(path),
        )
    rows: list[Row] = []
    with (path / RESULTS).open("rb") as file:
        for line in read_lines(file, str(path / RESULTS)):
            try:
                row = _decode(line)
            except UNREADABLE as problem:
                raise _damaged(path, len(rows), reason_of(problem)) from None
            if not _KEY.fullmatch(str(row.get("task"))):
                raise _damaged(path, len(rows), "`task` is not the key of a task")
            if rows and row.keys() != rows[0].keys():
                raise _damaged(path, len(rows), "its columns differ from those of line 1")
            rows.append(row)
    return rows


def _damaged(path: Path, before: int, why: str) -> ConfigError:
    return ConfigError(
        f"line {before + 1} is damaged: {why}. Fix: run the sweep again; finished tasks are kept",
        where=str(path / RESULTS),
    )


def check_no_sweep(path: Path) -> None:
    """Raise ConfigError for the folder of a sweep or its runs, which is not a single run."""
    for folder in (path, path.parent) if path.name == RUNS else (path,):
        if has_results(folder) and not files_in(path):
            example = min((folder / RUNS).glob("*.json.gz"), default=None)
            fix = (
                "run the sweep again with --keep runs, and give files of its folder runs"
                if example is None
                else f"give files, such as {example}; results.csv has their names in the column"
                " `task`"
            )
            raise ConfigError(f"is a folder of a sweep, not a run. Fix: {fix}", where=str(path))


def run_file(path: Path, key: str) -> Path:
    return _kept(path, RUNS, key)


def _journal(path: Path) -> Iterator[_Line]:
    """Lines with a right digest. All others are skipped, so their tasks run again."""
    with path.open("rb") as file:
        for text in read_lines(file, str(path)):
            with suppress(*UNREADABLE):
                line = _decode_line(text)
                is_task = _KEY.fullmatch(str(line.row.get("task")))
                if is_task and line == _Line.of(line.row, line.kept):
                    yield line


def _size(path: Path) -> int:
    """The size of a file; -1 if it does not exist."""
    return path.stat().st_size if path.exists() else -1


def _ends_with_newline(journal: IO[bytes]) -> bool:
    journal.seek(-1, os.SEEK_END)
    return journal.read(1) == b"\n"


def _kept(path: Path, name: str, key: str) -> Path:
    return path / name / f"{key}.{'json' if name == RUNS else 'jsonl'}.gz"
