"""How far a run of the fuzzer has come: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self, TextIO

_BAR = 30
_LIVE_INTERVAL = 0.2
_PLAIN_INTERVAL = 10.0


class Progress:
    """Use as a context manager; `advance` whenever something is done."""

    def __init__(self, total: int, stream: TextIO) -> None:
        self._total = max(total, 1)
        self._stream = stream
        self._live = stream.isatty()
        self._done = 0
        self._started = self._shown = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live:
            self._stream.write("\r\x1b[2K")
            self._stream.flush()

    def advance(self, number: int, found: int) -> None:
        """So many more are done, and so many differences were found until now."""
        self._done += number
        now = time.monotonic()
        interval = _LIVE_INTERVAL if self._live else _PLAIN_INTERVAL
        if now - self._shown < interval and self._done < self._total:
            return
        self._shown = now
        rate = self._done / max(now - self._started, 1e-9)
        text = f"{self._done}/{self._total}, {rate:.0f} a second, {found} differences"
        if self._live:
            filled = _BAR * self._done // self._total
            text = f"\r\x1b[2K[{'#' * filled}{'.' * (_BAR - filled)}] {text}"
        self._stream.write(text if self._live else f"{text}\n")
        self._stream.flush()
