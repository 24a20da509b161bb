"""The learner's own errors in words: the error, and the line of their file; never a traceback.

While a check runs, `LearnerErrors` collects errors that end a program, errors of an informer's
handler (which are logged, and the informer goes on), and Python's warnings about coroutines that
were never awaited, the commonest slip of all.
"""

from __future__ import annotations

import gc
import linecache
import logging
import re
import sys
import traceback
import warnings
from bdb import BdbQuit
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

from stowplan.learn.texts import Texts

_NEVER_AWAITED: Final = re.compile(r"coroutine '(?P<what>.+)' was never awaited")
_CREATED_AT: Final = re.compile(r'File "(?P<file>.+)", line (?P<line>\d+)')


class LearnerErrors:
    """The errors of a learner's file, in the order in which they occurred."""

    def __init__(self, file: Path, texts: Texts) -> None:
        self._file = file
        self._texts = texts
        self._told: dict[str, None] = {}

    @property
    def told(self) -> list[str]:
        return list(self._told)

    def add(self, error: BaseException) -> None:
        """Add an error of the learner's code, wherever it surfaced."""
        for leaf in _leaves(error):
            self._told.setdefault(self.describe(leaf))

    def is_to_blame(self, error: BaseException) -> bool:
        """Whether the error passed through the learner's file."""
        return any(_line_in(self._file, leaf) for leaf in _leaves(error))

    def describe(self, error: BaseException) -> str:
        if isinstance(error, SystemExit):
            text = self._texts("exits", code=error.code)
        else:
            words = str(error).strip()
            text = f"{type(error).__name__}: {words}" if words else type(error).__name__
            if isinstance(error, (EOFError, BdbQuit)):
                text = self._texts("no_keyboard", what=type(error).__name__)
        line = _line_in(self._file, error)
        return f"{self.place(line)}: {text}{self.quote(line)}" if line else text

    def place(self, line: int, name: str = "") -> str:
        inside = {"place": self._texts("place", file=shown(self._file), line=line), "name": name}
        return self._texts("place_in", **inside) if name else inside["place"]

    def quote(self, line: int) -> str:
        """The line itself, below."""
        source = linecache.getline(str(self._file), line).strip()
        return f"\n    {source}" if source else ""

    def busy_line(self, frame: FrameType | None) -> int:
        """Where in the learner's file the code is that `frame` is part of; 0: nowhere."""
        while frame is not None:
            if frame.f_code.co_filename == str(self._file):
                return frame.f_lineno
            frame = frame.f_back
        return 0

    @contextmanager
    def listening(self) -> Iterator[None]:
        handler = _Listener(self)
        depth = sys.get_coroutine_origin_tracking_depth()
        logging.getLogger().addHandler(handler)
        sys.set_coroutine_origin_tracking_depth(1)
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                try:
                    yield
                finally:
                    gc.collect()  # Python warns when it frees a coroutine
        finally:
            sys.set_coroutine_origin_tracking_depth(depth)
            logging.getLogger().removeHandler(handler)
        for warning in caught:
            self._hear_warning(str(warning.message))

    def _hear_warning(self, text: str) -> None:
        what = _NEVER_AWAITED.match(text)
        created = _CREATED_AT.search(text)
        if what is None or created is None or created["file"] != str(self._file):
            return
        line = int(created["line"])
        words = self._texts("never_awaited", what=what["what"])
        self._told.setdefault(f"{self.place(line)}: {words}{self.quote(line)}")


class _Listener(logging.Handler):
    def __init__(self, faults: LearnerErrors) -> None:
        super().__init__(logging.ERROR)
        self._faults = faults

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            self._faults.add(record.exc_info[1])


def shown(file: Path) -> str:
    """A path relative to the working directory, if it is inside."""
    try:
        return str(file.relative_to(Path.cwd()))
    except (ValueError, OSError):
        return str(file)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """The errors in a group of errors, as a TaskGroup raises one."""
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _leaves(each)
    else:
        yield error


def _line_in(file: Path, error: BaseException) -> int:
    """The innermost line of the file that the error passed through; 0: none."""
    lines = [
        line
        for frame, line in traceback.walk_tb(error.__traceback__)
        if frame.f_code.co_filename == str(file)
    ]
    return lines[-1] if lines else 0
