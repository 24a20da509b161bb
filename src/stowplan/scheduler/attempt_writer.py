"""Hands ended attempts from the event loop to a thread that writes them somewhere."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from stowplan.scheduler.ledger import Entry

MAX_WAITING: Final = 8_192
PAUSE_S: Final = 0.25
CLOSE_S: Final = 5.0


class AttemptWriter:
    """Scheduling never waits: beyond `MAX_WAITING` attempts the oldest are dropped, and counted."""

    def __init__(self, name: str, run: Callable[[], None]) -> None:
        """Start a thread in which `run` takes attempts from `_waiting` until `_stop` is set."""
        self._waiting: deque[Entry] = deque()
        self._stop = threading.Event()
        self.dropped = 0
        self._thread = threading.Thread(target=run, name=name, daemon=True)
        self._thread.start()

    def put(self, entry: Entry) -> None:
        self._waiting.append(entry)
        while len(self._waiting) > MAX_WAITING:
            self._waiting.popleft()
            self.dropped += 1

    def close(self) -> None:
        """Write what waits, if that is possible soon, and end the thread."""
        self._stop.set()
        self._thread.join(CLOSE_S)
