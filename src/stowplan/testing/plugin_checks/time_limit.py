"""Stop a check whose plugin does not return: a plugin that sleeps would hang the test run.

The alarm signal interrupts the plugin wherever it is, `time.sleep` included. Only the main thread
gets signals, and Windows has no such alarm; there a check has no limit.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class TimeIsUp(BaseException):
    """The time is over; not an Exception, as those are taken for the plugin's."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TimeIsUp within after so many seconds."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or not hasattr(signal, "setitimer"):
        yield
        return

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise TimeIsUp

    handler = signal.signal(signal.SIGALRM, stop)
    began = time.monotonic()
    left, interval = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, handler)
        if left:  # a test runner's own limit, which may be over by now
            left = max(left - (time.monotonic() - began), 0.001)
        signal.setitimer(signal.ITIMER_REAL, left, interval)
