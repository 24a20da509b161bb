"""The only place that reads a clock; everything else is handed one.

`monotonic()` orders and measures, `time()` is wall-clock time for what is written to the API.
`boottime()` also counts the time during which the machine was suspended, and is for promises that
other machines rely on. Virtual time (tests, simulation) is the same interface moved by hand.
"""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime
from functools import lru_cache
from typing import Protocol


class Clock(Protocol):
    """Seconds, as floats."""

    def monotonic(self) -> float: ...

    def boottime(self) -> float: ...

    def time(self) -> float: ...


class SystemClock:
    """The machine's clocks."""

    def monotonic(self) -> float:
        return time.monotonic()

    def boottime(self) -> float:
        return _boottime()

    def time(self) -> float:
        return time.time()


class VirtualClock:
    """Time that moves only when told to; all readings advance together."""

    def __init__(self, start: float = 1_000_000.0, *, epoch: float = 1_700_000_000.0) -> None:
        self._now = start
        self._offset = epoch - start

    def monotonic(self) -> float:
        return self._now

    def boottime(self) -> float:
        return self._now

    def time(self) -> float:
        return self._now + self._offset

    def advance(self, seconds: float) -> None:
        if seconds < 0:
            raise ValueError("time does not go back")
        self._now += seconds


if sys.platform == "linux":

    def _boottime() -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)

else:
    _boottime = time.monotonic


def rfc3339(epoch_s: float) -> str:
    """`2026-01-02T03:04:05Z`, as metav1.Time is written."""
    return _second(int(epoch_s))


@lru_cache(1024)
def _second(number: int) -> str:
    """Much happens within one."""
    return f"{datetime.fromtimestamp(number, UTC).isoformat()[:19]}Z"


def rfc3339_micro(epoch_s: float) -> str:
    """`2026-01-02T03:04:05.000006Z`, as metav1.MicroTime is written."""
    text = datetime.fromtimestamp(epoch_s, UTC).isoformat(timespec="microseconds")
    return f"{text[:26]}Z"


def parse_rfc3339(text: str) -> float:
    """Seconds since the epoch of a metav1.Time or MicroTime."""
    return datetime.fromisoformat(text).timestamp()
