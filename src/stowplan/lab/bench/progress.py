"""What a person sees while the benchmark runs: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from typing import TextIO

from stowplan.lab.controlplane.progress import format_elapsed

LIVE_INTERVAL = 0.2
PLAIN_INTERVAL = 15.0


class Progress:
    """`update` may be called as often as one likes; `say` writes a line that stays."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._is_live = stream.isatty()
        self._clock = clock
        self._began = clock()
        self._shown_at = float("-inf")
        self._prefix = ""
        self._is_drawn = False

    def begin(self, prefix: str) -> None:
        """What the following updates are about."""
        self._prefix = prefix
        self._shown_at = float("-inf")

    def update(self, text: str) -> None:
        now = self._clock()
        if now - self._shown_at < (LIVE_INTERVAL if self._is_live else PLAIN_INTERVAL):
            return
        self._shown_at = now
        line = f"[{format_elapsed(now - self._began)}] {self._prefix}: {text}"
        if self._is_live:
            width = shutil.get_terminal_size().columns
            self._stream.write(f"\r\x1b[2K{line[: max(width - 1, 1)]}")
            self._stream.flush()
            self._is_drawn = True
        else:
            self._write(line)

    def say(self, text: str) -> None:
        self.erase()
        self._write(f"[{format_elapsed(self._clock() - self._began)}] {text}")

    def erase(self) -> None:
        if self._is_drawn:
            self._stream.write("\r\x1b[2K")
            self._stream.flush()
            self._is_drawn = False

    def _write(self, line: str) -> None:
        self._stream.write(f"{line}\n")
        self._stream.flush()
