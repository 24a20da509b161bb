"""Logging belongs to the process: whoever configures it in a test leaves it as it was."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

_NAMES = ("", "__main__", "stowplan", "stowplan.scheduler.binding", "stowplan.api.reachability")


@contextmanager
def kept_logging() -> Iterator[None]:
    root = logging.getLogger()
    levels = {name: logging.getLogger(name).level for name in _NAMES}
    handlers = list(root.handlers)
    try:
        yield
    finally:
        root.handlers[:] = handlers
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
