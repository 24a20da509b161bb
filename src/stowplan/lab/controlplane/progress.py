"""What a person sees while Go compiles: a live line on a terminal, plain lines elsewhere.

Called by the builder from the thread that reads Go's output. What must stay true: output that is
piped (a CI log) gets a line at least every `PLAIN_INTERVAL` seconds, because silence for minutes
looks like a hang; and it gets no carriage returns, because logs keep them.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self, TextIO

LIVE_INTERVAL = 0.5
PLAIN_INTERVAL = 15.0

ESTIMATE = "Compiling Kubernetes: about 10 minutes the first time on 2 cores; cached afterwards."


def format_elapsed(seconds: float) -> str:
    """``8s``, ``1m05s``, ``1h02m``: short enough for a line that is drawn again and again."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"


def describe(step: str, done: int, total: int, detail: str, elapsed: float) -> str:
    """One line of progress.

    `done` counts the packages Go really compiled. Those in Go's own cache are skipped silently, so
    what is left is only a bound, and is called one.
    """
    line = step
    if done and total:
        line += f": {done} packages compiled, at most {max(total - done, 0)} to go"
    elif done:
        line += f": {done}"
    return f"{line}, {format_elapsed(elapsed)}" + (f" [{detail}]" if detail else "")


class Progress:
    """Reports on one build. Use as a context manager; `step`, `advance` and `say` from any thread.

    A thread of its own draws the line, so that time goes on while Go is silent: linking
    kube-apiserver says nothing for half a minute.
    """

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._live = stream.isatty()
        self._clock = clock
        self._started = clock()
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._draw_until_stopped, daemon=True)
        self._step = ""
        self._detail = ""
        self._done = 0
        self._total = 0
        self._drawn = False

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stopped.set()
        self._thread.join()
        with self._lock:
            self._erase()

    def step(self, text: str, total: int = 0) -> None:
        """Begin the next step; on a plain stream this writes a line at once."""
        with self._lock:
            self._step, self._detail, self._done, self._total = text, "", 0, total
            if not self._live:
                self._write_line(f"{text}, {format_elapsed(self._clock() - self._started)}")

    def advance(self, detail: str = "") -> None:
        """One more package (or download) of the current step is done."""
        with self._lock:
            self._done += 1
            self._detail = detail

    def say(self, text: str) -> None:
        """A line that stays."""
        with self._lock:
            self._erase()
            self._write_line(text)

    def line(self) -> str:
        """The current line of progress."""
        elapsed = self._clock() - self._started
        return describe(self._step, self._done, self._total, self._detail, elapsed)

    def _draw_until_stopped(self) -> None:
        interval = LIVE_INTERVAL if self._live else PLAIN_INTERVAL
        while not self._stopped.wait(interval):
            with self._lock:
                if not self._step:
                    continue
                if self._live:
                    width = shutil.get_terminal_size().columns
                    self._stream.write(f"\r\x1b[2K{self.line()[: max(width - 1, 1)]}")
                    self._stream.flush()
                    self._drawn = True
                else:
                    self._write_line(self.line())

    def _erase(self) -> None:
        if self._drawn:
            self._stream.write("\r\x1b[2K")
            self._stream.flush()
            self._drawn = False

    def _write_line(self, text: str) -> None:
        self._stream.write(f"{text}\n")
        self._stream.flush()
