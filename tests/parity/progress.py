"""Progress of the fuzzer: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self, TextIO

from stowplan.present.status_line import StatusLine

_BAR = 30


class Progress:
    """A context manager; call `advance` whenever something is done."""

    def __init__(self, total: int, stream: TextIO) -> None:
        self._total = max(total, 1)
        self._line = StatusLine(stream, plain_interval_s=10.0)
        self._done = 0
        self._started = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._line.erase()

    def advance(self, number: int, found: int) -> None:
        """So many more are done, and so many differences were found until now."""
        self._done += number
        if self._done >= self._total:
            self._line.renew()
        rate = self._done / max(time.monotonic() - self._started, 1e-9)
        filled = _BAR * self._done // self._total
        bar = f"[{'#' * filled}{'.' * (_BAR - filled)}] " if self._line.is_live else ""
        self._line.update(
            f"{bar}{self._done}/{self._total}, {rate:.0f} a second, {found} differences"
        )
