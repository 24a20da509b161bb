"""The only module that reads a clock; all other code gets a `Clock`.

`monotonic()` is for order and durations, `time()` is wall-clock time for what is written to the
API. `boottime()` also counts the time while the machine is suspended; leases, which other machines
rely on, need it. Tests and simulations use a `VirtualClock`.
"""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime
from functools import lru_cache
from typing import Protocol


class Clock(Protocol):
    """A source of time, in seconds."""

    def monotonic(self) -> float: ...

    def boottime(self) -> float: ...

    def time(self) -> float: ...


class SystemClock:
    """The machine's clocks."""

    # Itself, not a method that calls it: the hot path reads it several times a pod.
    monotonic = staticmethod(time.monotonic)

    def boottime(self) -> float:
        return _boottime()

    def time(self) -> float:
        return time.time()


class VirtualClock:
    """Time that moves only by `advance`; all readings advance together."""

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

    def advance_to(self, moment: float) -> None:
        """Move to a reading of `monotonic`, exactly, unless it has passed."""
        self._now = max(self._now, moment)


if sys.platform == "linux":

    def _boottime() -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)

else:
    _boottime = time.monotonic


def rfc3339(epoch_s: float) -> str:
    """Format as metav1.Time: `2026-01-02T03:04:05Z`."""
    return _second(int(epoch_s))


@lru_cache(1024)
def _second(number: int) -> str:
    """Format a whole second; cached, because many events share one."""
    return f"{datetime.fromtimestamp(number, UTC).isoformat()[:19]}Z"


def rfc3339_micro(epoch_s: float) -> str:
    """Format as metav1.MicroTime: `2026-01-02T03:04:05.000006Z`."""
    text = datetime.fromtimestamp(epoch_s, UTC).isoformat(timespec="microseconds")
    return f"{text[:26]}Z"


def parse_rfc3339(text: str) -> float:
    """Parse a metav1.Time or MicroTime into seconds since the epoch."""
    return datetime.fromisoformat(text).timestamp()
