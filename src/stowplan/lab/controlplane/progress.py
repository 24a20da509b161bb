"""Progress of a build: the step, how many packages Go has compiled, and the elapsed time.

The builder calls it from the thread that reads Go's output. Piped output (a CI log) must get a line
every few seconds, because silence for minutes looks like a hang.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self, TextIO

from stowplan.present.status_line import PLAIN_INTERVAL_S, StatusLine, format_elapsed

LIVE_INTERVAL_S = 0.5

ESTIMATE = "Compiling Kubernetes: about 10 minutes the first time on 2 cores; cached afterwards."


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


class BuildProgress:
    """Progress of one build: a context manager; `step`, `advance` and `say` work in any thread.

    A thread of its own draws the line, so that the elapsed time advances while Go is silent:
    linking kube-apiserver prints nothing for half a minute.
    """

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._line = StatusLine(stream, clock=clock)
        self._clock = clock
        self._started = clock()
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._draw_until_stopped, daemon=True)
        self._step = ""
        self._detail = ""
        self._done = 0
        self._total = 0

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
            self._line.erase()

    def step(self, text: str, total: int = 0) -> None:
        """Begin the next step; on a plain stream this writes a line at once."""
        with self._lock:
            self._step, self._detail, self._done, self._total = text, "", 0, total
            if not self._line.is_live:
                self._line.say(self.line())

    def advance(self, detail: str = "") -> None:
        """One more package (or download) of the current step is done."""
        with self._lock:
            self._done += 1
            self._detail = detail

    def say(self, text: str) -> None:
        """A line that stays."""
        with self._lock:
            self._line.say(text)

    def line(self) -> str:
        """The current line of progress."""
        elapsed = self._clock() - self._started
        return describe(self._step, self._done, self._total, self._detail, elapsed)

    def _draw_until_stopped(self) -> None:
        interval_s = LIVE_INTERVAL_S if self._line.is_live else PLAIN_INTERVAL_S
        while not self._stopped.wait(interval_s):
            with self._lock:
                if self._step:
                    self._line.draw(self.line())
