"""What plugins raise: one line with file and line number for people, the traceback once in the log.

The queue, the framework and the scheduler call plugins; each describes a failure with `describe`
and reports it to the engine's `PluginFailures`. A broken plugin fails for every pod, so repeats are
folded into one line per `logs.FOLDED_S`.
"""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path
from traceback import walk_tb
from typing import Any

from stowplan.clock import Clock
from stowplan.errors import PluginError, StatusError
from stowplan.logs import Folding, get_logger, kv

log = get_logger(__name__)

_OURS = f"{Path(__file__).parent}/"
#: Attribute of a method that only calls a plugin author's function: that function.
STANDS_FOR = "_stowplan_stands_for"
#: Files in this folder are shown relative to it. None: the current folder.
shown_from: ContextVar[Path | None] = ContextVar("shown_from", default=None)


def describe(problem: BaseException) -> str:
    """An exception in one line, with the file and line of the plugin that it came from."""
    text = " ".join(str(problem).split())
    name = type(problem).__name__
    return f"{name}: {text}{place_of(problem)}" if text else f"{name}{place_of(problem)}"


def plugin_error(plugin: str, point: str, problem: Exception) -> PluginError:
    """What a plugin raised, as the failure of an extension point."""
    if isinstance(problem, PluginError):
        return problem
    failure = PluginError(plugin, point, describe(problem))
    failure.__cause__ = problem
    return failure


def place_of(problem: BaseException) -> str:
    """` (file:line)` of the plugin's innermost frame; of any frame if no plugin is involved."""
    frames = [(frame.f_code.co_filename, line) for frame, line in walk_tb(problem.__traceback__)]
    theirs = [frame for frame in frames if not frame[0].startswith(_OURS)]
    if theirs:
        # A plugin can span files of a folder. Where it calls a library, its own line is the clue.
        folder = Path(theirs[0][0]).parent
        frames = [frame for frame in theirs if Path(frame[0]).parent == folder]
    return _shown(*frames[-1]) if frames else ""


def defined_at(method: object) -> str:
    """` (file:line)` of a method, for an answer that it must not give."""
    function: Any = getattr(method, "__func__", method)
    function = getattr(function, "__wrapped__", function)
    code = getattr(getattr(function, STANDS_FOR, function), "__code__", None)
    return _shown(code.co_filename, code.co_firstlineno) if code is not None else ""


def _shown(file: str, line: int) -> str:
    with suppress(OSError):  # the current folder may be gone
        file = file.removeprefix(f"{shown_from.get() or Path.cwd()}/")
    return f" ({file}:{line})"


class PluginFailures:
    """Logs failures of plugins at ERROR: the traceback once, then a line for many of the same."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        #: By what failed and where in the code: as many as there are places that can fail.
        self._lines: dict[Hashable, Folding] = {}
        #: The last failure, in words; "" if there was none.
        self.latest = ""
        #: All failures so far, those that were not logged included.
        self.count = 0
        #: Attempts that failed because a plugin answered with an error status.
        self.statuses = 0

    def report(self, message: str, problem: Exception, **fields: object) -> None:
        """Log `message` and the fields, unless the same failure was logged lately.

        An error status is not logged here: the attempt's own log line, the pod's condition and
        its event have it. A wrong answer has no traceback: no frame of it would be the plugin's.
        """
        if isinstance(problem, StatusError):
            self.statuses += 1
            return
        self.count += 1
        self.latest = str(problem) if isinstance(problem, PluginError) else describe(problem)
        cause = problem.__cause__ or problem
        key = (message, fields.get("plugin"), type(cause), place_of(cause))
        lines = self._lines.get(key)
        is_new = lines is None
        if lines is None:
            lines = self._lines[key] = Folding()
        folded = lines.turn(self._clock.monotonic())
        if folded is None:
            return
        fields["err"] = self.latest
        if not is_new:
            fields["othersSinceLast"] = folded
        is_raised = cause is not problem or not isinstance(problem, PluginError)
        log.error(message, exc_info=cause if is_new and is_raised else None, extra=kv(**fields))
