"""Times plugins within one decision: for metrics, and to report slow ones by name.

The engine makes one for each profile that has plugins from outside this package, and one for each
decision that is sampled for metrics; a decision without one pays nothing. Timed are whole calls
(PreFilter, a column or all rows of Filter and Score, PreScore, NormalizeScore, PostFilter, Reserve,
Permit), two clock reads each, not the single rows that are refreshed in between.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, ParamSpec, TypeAlias, TypeVar

from stowplan.clock import Clock
from stowplan.framework.plugin import PostFilterResult
from stowplan.framework.status import LABELS, Code, Status

#: A plugin that takes longer in one decision is reported. Nothing can interrupt it.
SLOW_S: Final = 0.1

_SUCCESS: Final = Code.SUCCESS.label
_ERROR: Final = Code.ERROR.label

P = ParamSpec("P")
T = TypeVar("T")

#: Called with the plugin, the extension point, the label of its status, and the seconds it took.
ObservePlugin: TypeAlias = Callable[[str, str, str, float], None]


class Stopwatch:
    """Seconds by plugin name. `observe`, if given, also gets each call by itself."""

    __slots__ = ("_clock", "has_slow", "observe", "seconds")

    def __init__(self, clock: Clock, observe: ObservePlugin | None = None) -> None:
        self._clock = clock
        self.observe = observe
        self.seconds: dict[str, float] = {}
        #: Whether some plugin has taken longer than `SLOW_S`.
        self.has_slow = False

    def clear(self) -> None:
        self.seconds.clear()
        self.has_slow = False

    def now(self) -> float:
        return self._clock.monotonic()

    def run(
        self, plugin: str, point: str, method: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Call a plugin's method and add the time that it takes."""
        status = _ERROR
        began = self._clock.monotonic()
        try:
            answer = method(*args, **kwargs)
            status = _SUCCESS if answer is None else _status_label(answer)
            return answer
        finally:
            elapsed = self._clock.monotonic() - began
            if self.observe is not None:
                self.observe(plugin, point, status, elapsed)
            took = self.seconds.get(plugin, 0.0) + elapsed
            self.seconds[plugin] = took
            if took > SLOW_S:
                self.has_slow = True


def _status_label(answer: object) -> str:
    """The label of a plugin's answer. Columns and scores have no status: they are a success."""
    if isinstance(answer, PostFilterResult):
        answer = answer.status
    elif isinstance(answer, tuple) and answer:
        answer = answer[0]  # Permit may add how long to wait
    return LABELS[answer.code] if isinstance(answer, Status) else _SUCCESS
