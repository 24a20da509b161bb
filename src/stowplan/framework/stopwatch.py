"""Times plugins within one decision, so that slow ones can be reported by name.

The engine makes one for each profile that has plugins from outside this package; a decision
without one pays nothing. Timed are whole calls (PreFilter, a column or all rows of Filter and
Score, PreScore, NormalizeScore, PostFilter, Reserve, Permit), two clock reads each, not the single
rows that are refreshed in between.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

from stowplan.clock import Clock

#: A plugin that takes longer in one decision is reported. Nothing can interrupt it.
SLOW_S: Final = 0.1

P = ParamSpec("P")
T = TypeVar("T")


class Stopwatch:
    """Seconds by plugin name; the engine clears them before each decision."""

    __slots__ = ("_clock", "has_slow", "seconds")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.seconds: dict[str, float] = {}
        #: Whether some plugin has taken longer than `SLOW_S`.
        self.has_slow = False

    def clear(self) -> None:
        self.seconds.clear()
        self.has_slow = False

    def run(self, plugin: str, method: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a plugin's method and add the time that it takes."""
        began = self._clock.monotonic()
        try:
            return method(*args, **kwargs)
        finally:
            took = self.seconds.get(plugin, 0.0) + self._clock.monotonic() - began
            self.seconds[plugin] = took
            if took > SLOW_S:
                self.has_slow = True
