"""A line of progress: redrawn in place on a terminal, plain lines or nothing elsewhere.

Piped output (a CI log) gets no carriage returns and no colours. Not thread-safe.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TextIO

#: How often a line is redrawn, and how often a plain line is written to a log.
LIVE_INTERVAL_S: Final = 0.2
PLAIN_INTERVAL_S: Final = 15.0
_ERASE: Final = "\r\x1b[2K"


class StatusLine:
    """`update` as often as you like; `say` for a line that stays; `erase` at the end."""

    def __init__(
        self,
        stream: TextIO,
        *,
        is_live: bool | None = None,
        plain_interval_s: float | None = None,
        delay_s: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`is_live` defaults to whether the stream is a terminal. Without `plain_interval_s`,
        updates are not written to other streams. The first update is shown after `delay_s`.
        """
        self._stream = stream
        self.is_live = stream.isatty() if is_live is None else is_live
        self._interval_s = LIVE_INTERVAL_S if self.is_live else plain_interval_s
        self._clock = clock
        self._due = clock() + delay_s
        self._is_drawn = False

    def update(self, text: str | Callable[[], str]) -> None:
        """Show the text, unless the line was redrawn a moment ago."""
        now = self._clock()
        if self._interval_s is None or now < self._due:
            return
        self._due = now + self._interval_s
        self.draw(text if isinstance(text, str) else text())

    def draw(self, text: str) -> None:
        """Show the text at once."""
        if not self.is_live:
            self._write(f"{text}\n")
            return
        width = shutil.get_terminal_size().columns - 1  # a wrapped line could not be erased
        self._is_drawn = True
        self._write(f"{_ERASE}{text[: max(width, 1)]}")

    def renew(self) -> None:
        """Show the next update without waiting for its time."""
        self._due = float("-inf")

    def say(self, text: str) -> None:
        self.erase()
        self._write(f"{text}\n")

    def erase(self) -> None:
        if self._is_drawn:
            self._is_drawn = False
            self._write(_ERASE)

    def _write(self, text: str) -> None:
        with suppress(OSError):  # progress that cannot be shown must not end the work
            self._stream.write(text)
            self._stream.flush()


def format_elapsed(seconds: float) -> str:
    """``8s``, ``1m05s``, ``1h02m``."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
