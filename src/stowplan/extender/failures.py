"""Errors of an algorithm: each with file and line, the traceback once in the log, repeats folded.

`service` and `rescheduling` report here; the scheduler does the same with plugins
(`plugin_failures`). Invariant: memory stays bounded, whatever an algorithm raises.
"""

from __future__ import annotations

from typing import Final

from stowplan.clock import Clock, SystemClock
from stowplan.extender.algorithm import Algorithm
from stowplan.extender.threads import AlgorithmTimeout
from stowplan.extender.writing import BadAnswer
from stowplan.logs import Folding, get_logger, kv
from stowplan.plugin_failures import defined_at, place_of

log = get_logger(__name__)

_MOST_KINDS: Final = 1000
#: Raised by us about a result: their tracebacks show nothing of the algorithm.
_OURS: Final = (AlgorithmTimeout, BadAnswer)


class Failures:
    """The errors of one algorithm."""

    def __init__(self, algorithm: Algorithm, clock: Clock | None = None) -> None:
        self._class = type(algorithm)
        self._clock = clock or SystemClock()
        #: By method, type and place of an error.
        self._lines: dict[tuple[str, str, str], Folding] = {}

    def report(self, method: str, error: BaseException) -> str:
        """Log the error, unless the same was logged lately; return its text for a response."""
        algorithm, kind, is_ours = (
            self._class.__name__,
            type(error).__name__,
            isinstance(error, _OURS),
        )
        place = defined_at(getattr(self._class, method)) if is_ours else place_of(error)
        problem = f"{algorithm}.{method}: {kind}: {_text(error)}{place}"
        key = (method, kind, place)
        is_new = key not in self._lines
        if is_new and len(self._lines) >= _MOST_KINDS:
            self._lines.pop(next(iter(self._lines)))
        folded = self._lines.setdefault(key, Folding()).turn(self._clock.monotonic())
        if folded is not None:
            more: dict[str, object] = {} if is_new else {"othersSinceLast": folded}
            log.error(
                "The algorithm failed",
                exc_info=error if is_new and not is_ours else None,
                extra=kv(algorithm=algorithm, verb=method, err=problem, **more),
            )
        return problem


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "(it has no text)"
