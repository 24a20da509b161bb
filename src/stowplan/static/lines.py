"""The log as the static scheduler has always written it: format, logger name, levels by `-v`.

  2020-04-03 13:29:47,153 - __main__ - INFO - Pod web-0 scheduled on node kind-control-plane

Lines that existing tools parse go through `log` here. The rest of Stowplan logs in the same format
under its own names, one level less verbose: at INFO, users expect only the original's lines.
"""

from __future__ import annotations

import logging
from typing import Final, TextIO

from stowplan.logs import V4, fields_text, install, printable

#: The name that the original's log carried when it ran as a script.
log: Final = logging.getLogger("__main__")

_LEVELS: Final = (logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG)
_LEVELS_OF_THE_REST: Final = (logging.ERROR, logging.WARNING, logging.WARNING, logging.INFO, V4)
#: Silenced: it warns about failed bindings, which `binder` reports in the original's words.
_TOLD_ALREADY: Final = "stowplan.scheduler.binding"
#: Never silenced: it reports once that the API server is unreachable. Without that line, a daemon
#: that does nothing would be hard to diagnose.
_ALWAYS_TOLD: Final = "stowplan.api.reachability"
_DEBUG_COUNT: Final = 3


def configure(verbosity: int, stream: TextIO | None = None) -> None:
    """`verbosity` is how often `-v` was given: errors, warnings, INFO, DEBUG, and ever more."""
    install(_LineFormatter(verbosity), stream, unfolded=log.name)
    level = _LEVELS[min(verbosity, len(_LEVELS) - 1)]
    log.setLevel(level)
    logging.getLogger().setLevel(max(level, logging.WARNING))
    rest = _LEVELS_OF_THE_REST[min(verbosity, len(_LEVELS_OF_THE_REST) - 1)]
    logging.getLogger("stowplan").setLevel(rest)
    told_already = rest if verbosity >= _DEBUG_COUNT else logging.ERROR
    logging.getLogger(_TOLD_ALREADY).setLevel(told_already)
    logging.getLogger(_ALWAYS_TOLD).setLevel(min(rest, logging.WARNING))


class _LineFormatter(logging.Formatter):
    """`%(asctime)s - %(name)s - %(levelname)s - %(message)s`, then key/values if there are any."""

    def __init__(self, verbosity: int) -> None:
        super().__init__()
        self._verbosity = verbosity

    def format(self, record: logging.LogRecord) -> str:
        # Our own levels between INFO and DEBUG have no names that would be known here.
        level = record.levelname if record.levelno >= logging.INFO else "DEBUG"
        message = printable(record.getMessage())
        return (
            f"{self.formatTime(record)} - {record.name} - {level} - {message}"
            f"{fields_text(record, self._verbosity)}"
        )
