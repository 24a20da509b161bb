"""What happens when standard output cannot be written.

The program ends quietly when the reader closes the pipe, as in `stowplan ... | head`.

A write to a closed pipe raises BrokenPipeError, wherever that is: in a task, or in a handler whose
errors are logged. So standard output, once closed, interrupts the program as Ctrl-C does, which
every command handles, and drops what is written while it stops.

Other errors, such as a full disk, are raised and kept in `stdout_problem`, so that the program can
report them in one line.
"""

from __future__ import annotations

import io
import os
import signal
import sys
from typing import Final

EXIT_PIPE_CLOSED: Final = 141  # 128 + SIGPIPE


class _Stdout(io.TextIOWrapper):
    is_closed = False
    problem: OSError | None = None

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError as problem:
            if text:  # click writes "" to try whether it can
                self._failed(problem)
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as problem:
            self._failed(problem)

    def _failed(self, problem: OSError) -> None:
        if isinstance(problem, BrokenPipeError):
            self._interrupt()
            return
        self.problem = problem
        raise problem

    def _interrupt(self) -> None:
        self.is_closed = True
        drop_output()
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background of a script
            raise KeyboardInterrupt
        signal.raise_signal(signal.SIGINT)


def watch_stdout() -> None:
    """Interrupt the program when its standard output is closed."""
    stdout = sys.stdout
    if stdout is sys.__stdout__ and type(stdout) is io.TextIOWrapper:
        sys.stdout = _Stdout(
            stdout.buffer,
            encoding=stdout.encoding,
            errors=stdout.errors,
            line_buffering=stdout.line_buffering,
            write_through=stdout.write_through,
        )


def is_stdout_closed() -> bool:
    return isinstance(sys.stdout, _Stdout) and sys.stdout.is_closed


def stdout_problem() -> OSError | None:
    """Why standard output could not be written, unless it was closed; None if it could."""
    return sys.stdout.problem if isinstance(sys.stdout, _Stdout) else None


def drop_output() -> None:
    """Drop all further output; Python flushes it at exit and would report the problem again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
