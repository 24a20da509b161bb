"""Times plugins within one decision, so that slow ones can be reported by name.

The engine makes one for each profile that has plugins from outside this package; a decision
without one pays nothing. Timed are whole calls (PreFilter, a column or all rows of Filter and
Score, PreScore, NormalizeScore, PostFilter), not the single rows that are refreshed in between.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from stowplan.clock import Clock

P = ParamSpec("P")
T = TypeVar("T")


class Stopwatch:
    """Seconds by plugin name; the engine clears them before each decision."""

    __slots__ = ("_clock", "seconds")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.seconds: dict[str, float] = {}

    def run(self, plugin: str, method: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a plugin's method and add the time that it takes."""
        began = self._clock.monotonic()
        try:
            return method(*args, **kwargs)
        finally:
            took = self._clock.monotonic() - began
            self.seconds[plugin] = self.seconds.get(plugin, 0.0) + took
