"""What counts as a finding, and the file that keeps the input of one.

A reader must return, or raise what its callers expect. Findings are other exceptions, exceptions
that it only logs, more than `CPU_S` seconds of CPU time for one input, and more than `MEMORY`
bytes. An input that ends the process by a signal is found by `run`, from the file `current`.
"""

from __future__ import annotations

import logging
import mmap
import resource
import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from stowplan.api.quantity import InvalidQuantity
from stowplan.errors import StowplanError

FAILURES = Path(__file__).parents[2] / "fuzz-failures"
#: One input must not take longer than this.
CPU_S = 2.0
MEMORY = 4 << 30
_SIZE = 4


class Reader(NamedTuple):
    """What reads, and the errors that its callers expect."""

    read: Callable[[bytes], object]
    #: What feeds it, for the table of docs/fuzzing.md.
    fed_by: str
    expected: tuple[type[Exception], ...] = (StowplanError,)


class Hang(BaseException):
    """The input took too long; not an Exception, which a reader might catch."""


class _Logged(logging.Handler):
    """Remembers exceptions that were logged instead of raised."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.problem = ""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        # No API server sends a quantity that is none; it costs its pod the attempt, and is named.
        if error is not None and not isinstance(error, InvalidQuantity):
            self.problem = f"logged {type(error).__name__}{_place(error)}: {error}"


_logged = _Logged()


def problem_of(reader: Reader, data: bytes) -> str:
    """What is wrong with how the input was read; "" if nothing is."""
    log = logging.getLogger("stowplan")
    _logged.problem = ""
    log.addHandler(_logged)
    before = signal.signal(signal.SIGPROF, _stop)
    began = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, 2 * CPU_S)
    try:
        reader.read(data)
    except reader.expected:
        pass
    except Hang:
        return f"hang: more than {2 * CPU_S:g} s of CPU time"
    except Exception as error:
        return f"{type(error).__name__}{_place(error)}: {error}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
        log.removeHandler(_logged)
    took_s = time.process_time() - began
    return f"hang: {took_s:.1f} s of CPU time" if took_s > CPU_S else _logged.problem


def _stop(number: int, frame: FrameType | None) -> None:
    raise Hang


def _place(error: BaseException) -> str:
    """Where an exception was raised: the last line of ours."""
    place, trace = "", error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if "/src/stowplan/" in file:
            place = f" in {file.partition('/src/stowplan/')[2]}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place


class Findings:
    """Keeps one input for each kind of problem, and says how to repeat it."""

    def __init__(self, reader: str) -> None:
        self._reader = reader
        self._kinds: set[str] = set()

    def __len__(self) -> int:
        return len(self._kinds)

    def add(self, problem: str, data: bytes) -> None:
        kind = problem.partition(": ")[0]
        if kind in self._kinds:
            return
        self._kinds.add(kind)
        from tests.fuzzing.corpus import digest

        FAILURES.mkdir(exist_ok=True)
        file = FAILURES / f"{self._reader}-{digest(data)}"
        file.write_bytes(data)
        shown = file.relative_to(FAILURES.parent)
        print(
            f"FAILED {self._reader}: {problem[:300]!r}\n  input: {shown}\n"
            f"  to repeat: .venv/bin/python -m tests.fuzz --reader {self._reader} --repeat {shown}",
            flush=True,
        )


class Current:
    """The input that is being read, in a file that outlives the process."""

    def __init__(self, file: Path, longest: int) -> None:
        self._file = file
        file.write_bytes(bytes(_SIZE + longest))
        with file.open("r+b") as opened:
            self._map = mmap.mmap(opened.fileno(), 0)

    def put(self, data: bytes) -> None:
        self._map[: _SIZE + len(data)] = len(data).to_bytes(_SIZE, "big") + data

    @staticmethod
    def read(file: Path) -> bytes:
        stored = file.read_bytes()
        return stored[_SIZE : _SIZE + int.from_bytes(stored[:_SIZE], "big")]


def limit_memory() -> None:
    """Turn memory out of proportion into a MemoryError."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
