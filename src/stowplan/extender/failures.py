"""Report errors of an algorithm: every one with file and line, one traceback, repeats folded.

`service` and `rescheduling` report here. An error that one pod causes is caused by thousands, so
each kind of error is logged with its traceback once, and after that at most once a minute with the
number of repeats. Invariant: memory stays bounded, whatever an algorithm raises.
"""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, TypeAlias

from stowplan.clock import Clock, SystemClock
from stowplan.extender.algorithm import Algorithm
from stowplan.extender.threads import AlgorithmTimeout
from stowplan.extender.writing import BadAnswer
from stowplan.logs import get_logger, kv

log = get_logger(__name__)

_QUIET_S: Final = 60.0
_MOST_KINDS: Final = 1000
#: Raised by us about a result: their tracebacks show nothing of the algorithm.
_OURS: Final = (AlgorithmTimeout, BadAnswer)

_Kind: TypeAlias = tuple[str, str, str]


@dataclass(slots=True)
class _Seen:
    logged_at: float
    repeats: int = 0


class Failures:
    """The errors of one algorithm."""

    def __init__(self, algorithm: Algorithm, clock: Clock | None = None) -> None:
        self._class = type(algorithm)
        self._clock = clock or SystemClock()
        self._seen: dict[_Kind, _Seen] = {}

    def report(self, method: str, error: BaseException) -> str:
        """Log the error, unless it is a recent repeat; return its text for a response."""
        where = self._place_of(method, error)
        problem = f"{self._class.__name__}.{method}: {type(error).__name__}: {_text(error)}{where}"
        fields = {"algorithm": self._class.__name__, "verb": method, "err": problem}
        now = self._clock.monotonic()
        kind = (method, type(error).__name__, where)
        seen = self._seen.get(kind)
        if seen is None:
            if len(self._seen) >= _MOST_KINDS:
                self._seen.pop(next(iter(self._seen)))
            self._seen[kind] = _Seen(now)
            shown = None if isinstance(error, _OURS) else error
            log.error("The algorithm failed", exc_info=shown, extra=kv(**fields))
        else:
            seen.repeats += 1
            if now - seen.logged_at >= _QUIET_S:
                log.error("The algorithm failed again", extra=kv(**fields, repeats=seen.repeats))
                self._seen[kind] = _Seen(now)
        return problem

    def _place_of(self, method: str, error: BaseException) -> str:
        """The line in the algorithm's own files; for an error about a result, its method."""
        if isinstance(error, _OURS):
            return _place_of_method(getattr(self._class, method, None))
        modules = (sys.modules.get(each.__module__) for each in self._class.mro())
        return place_of(error, {getattr(module, "__file__", None) for module in modules})


def place_of(error: BaseException, files: Collection[str | None] = ()) -> str:
    """` (file:line)` of the deepest frame in `files`, else of the deepest of all."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<frozen ")  # the import machinery
    ]
    for frame in ([frame for frame in frames if frame.filename in files] or frames)[-1:]:
        return f" ({frame.filename}:{frame.lineno})"
    return ""


def _place_of_method(method: object) -> str:
    code = getattr(inspect.unwrap(method), "__code__", None) if callable(method) else None
    return "" if code is None else f" ({code.co_filename}:{code.co_firstlineno})"


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "(it has no text)"
