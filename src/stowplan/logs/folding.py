"""The handler of all log lines: a failure that repeats itself is counted instead of written.

A line reports a failure if it is a warning or an error, or has an `err`. Of the lines that one
place in the code writes, `_MOST_LINES` are written within `FOLDED_S`; the last of the others is
written afterwards with `repeated=N`. So a log is bounded by the size of the program, whatever the
number of pods, and no kind of failure is ever missing in it. Lines without a failure are all
written.

State is kept per place in the code, so it is bounded too.
"""

from __future__ import annotations

import copy
import logging
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TextIO

from stowplan.logs.lines import error_text, fields_of

#: Seconds within which lines are counted, and between two lines of a `Folding`.
FOLDED_S = 10.0
#: Lines of one place in the code that are written within `FOLDED_S`: at -v 0, and of failures that
#: only a higher verbosity shows. There kube-scheduler writes a line per pod, and people count them.
_MOST_LINES = 20
_MOST_DETAILED_LINES = 1000


class Folding:
    """At most one log line per `FOLDED_S`; the next one says how many were left out."""

    def __init__(self) -> None:
        self._next = -math.inf
        self._folded = 0

    def turn(self, now: float) -> int | None:
        """How many lines were left out before this one; None: leave out this one too."""
        if now < self._next:
            self._folded += 1
            return None
        folded, self._folded = self._folded, 0
        self._next = now + FOLDED_S
        return folded


@dataclass
class _Window:
    """What one place in the code wrote since `ends_at - FOLDED_S`."""

    ends_at: float
    written: int = 0
    repeated: int = 0
    last: logging.LogRecord | None = None


class LineHandler(logging.StreamHandler[TextIO]):
    """Writes lines to a stream, and folds failures; `logs.install` finds it by its class."""

    def __init__(self, stream: TextIO, unfolded: str = "") -> None:
        super().__init__(stream)
        self._unfolded = unfolded
        self._windows: dict[tuple[str, int], _Window] = {}
        #: When the first window ends that has left out a line.
        self._due_at = math.inf

    def emit(self, record: logging.LogRecord) -> None:
        now = time.monotonic()
        if now >= self._due_at:
            self._write_repeated(now)
        if self._is_written(record, now):
            super().emit(record)

    def close(self) -> None:
        """Write the counts of lines that were left out; logging calls this at exit."""
        self.acquire()
        try:
            self._write_repeated(math.inf)
        finally:
            self.release()
        super().close()

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        """Ignore errors of the log stream itself, because they cannot be reported."""

    def _is_written(self, record: logging.LogRecord, now: float) -> bool:
        if not _reports_failure(record) or record.name == self._unfolded:
            return True
        place = (record.pathname, record.lineno)
        window = self._windows.get(place)
        if window is None or now >= window.ends_at:
            window = self._windows[place] = _Window(now + FOLDED_S)
        most = _MOST_LINES if record.levelno >= logging.INFO else _MOST_DETAILED_LINES
        if window.written < most:
            window.written += 1
            return True
        window.repeated += 1
        window.last = record if record.exc_info is None else _without_frames(record)
        self._due_at = min(self._due_at, window.ends_at)
        return False

    def _write_repeated(self, now: float) -> None:
        for record in list(self._repeated(now)):
            super().emit(record)

    def _repeated(self, now: float) -> Iterator[logging.LogRecord]:
        """The last line of every window that has ended and left out some."""
        self._due_at = math.inf
        for place, window in list(self._windows.items()):
            if now < window.ends_at:
                if window.last is not None:
                    self._due_at = min(self._due_at, window.ends_at)
                continue
            del self._windows[place]
            if window.last is not None:
                record = copy.copy(window.last)
                record.kv = {**fields_of(record), "repeated": window.repeated}
                yield record


def _reports_failure(record: logging.LogRecord) -> bool:
    if record.levelno >= logging.WARNING or record.exc_info:
        return True
    return "err" in fields_of(record)


def _without_frames(record: logging.LogRecord) -> logging.LogRecord:
    """A copy that keeps the error's text, but not the objects that its traceback refers to."""
    shortened = copy.copy(record)
    error = record.exc_info[1] if record.exc_info else None
    shortened.exc_info = None
    if error is not None:
        shortened.kv = {"err": error_text(error), **fields_of(record)}
    return shortened
