"""Progress of a benchmark: the elapsed time, what is measured and how far it is."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TextIO

from stowplan.present.status_line import PLAIN_INTERVAL_S, StatusLine, format_elapsed


class BenchProgress:
    """`update` as often as you like; `say` for a line that stays."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._line = StatusLine(stream, plain_interval_s=PLAIN_INTERVAL_S, clock=clock)
        self._clock = clock
        self._began = clock()
        self._prefix = ""
        self.erase = self._line.erase

    def begin(self, prefix: str) -> None:
        """Name the subject of the following updates."""
        self._prefix = prefix
        self._line.renew()

    def update(self, text: str) -> None:
        self._line.update(lambda: self._stamped(f"{self._prefix}: {text}"))

    def say(self, text: str) -> None:
        self._line.say(self._stamped(text))

    def _stamped(self, text: str) -> str:
        return f"[{format_elapsed(self._clock() - self._began)}] {text}"
