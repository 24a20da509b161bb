"""End a command on SIGTERM as on Ctrl-C: the same cleanup, with exit code 143.

A command that handles SIGTERM itself replaces the handler for as long as it runs.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

EXIT_TERMINATED: Final = 143  # 128 + SIGTERM


class Termination:
    """Whether SIGTERM has arrived."""

    def __init__(self) -> None:
        self.has_come = False

    def _on_signal(self, *_: object) -> None:
        self.has_come = True
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background of a script
            raise KeyboardInterrupt
        # The handler of Ctrl-C that is installed now: an event loop's cancels its main task.
        signal.raise_signal(signal.SIGINT)


@contextmanager
def sigterm_as_ctrl_c() -> Iterator[Termination]:
    """Interrupt the block on SIGTERM; only the main thread can."""
    termination = Termination()
    if threading.current_thread() is not threading.main_thread():
        yield termination
        return
    before = signal.signal(signal.SIGTERM, termination._on_signal)
    try:
        yield termination
    finally:
        signal.signal(signal.SIGTERM, before)
