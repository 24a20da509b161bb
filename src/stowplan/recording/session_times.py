"""Times of a recording across its sessions."""

from __future__ import annotations

from typing import Final

from stowplan.clock import parse_rfc3339
from stowplan.recording.entries import Header

#: Longer pauses are shortened to this: replaying an idle day takes a third of a second.
LONGEST_PAUSE_S: Final = 86_400.0
#: All pauses that are longer than a short one count as this at most, and further ones as short.
MOST_PAUSED_S: Final = 366 * 86_400.0
SHORT_PAUSE_S: Final = 60.0


class SessionTimes:
    """Seconds since the first session began, across sessions.

    Times never decrease, and long pauses are shortened: a clock that was set, or a fabricated file,
    must not make a replay last for centuries.
    """

    def __init__(self) -> None:
        self._first: float | None = None
        self._began = 0.0
        self.latest = 0.0
        #: Seconds by which the pause before the latest entry was shortened.
        self.cut = 0.0
        #: Seconds by which all pauses were shortened, and those that long pauses counted as.
        self._all_cut = 0.0
        self._paused = 0.0

    def begin(self, header: Header) -> None:
        """Begin a session, after a pause unless it is the first one."""
        wall = _wall(header)
        if self._first is None:
            self._first = wall
            return
        pause = max(wall - self._first - self._all_cut - self.latest, 0.0)
        self._shorten(pause)
        self._began = self.latest = self.latest + pause - self.cut

    def at(self, seconds: float) -> float:
        """The time of an entry, given its seconds since its session began."""
        self._shorten(self._began + seconds - self.latest)
        self._began -= self.cut
        self.latest = max(self.latest, round(self._began + seconds, 3))
        return self.latest

    def _shorten(self, pause: float) -> None:
        """Set `cut` for the next pause."""
        counted = min(pause, LONGEST_PAUSE_S)
        if counted > SHORT_PAUSE_S:
            counted = max(min(counted, MOST_PAUSED_S - self._paused), SHORT_PAUSE_S)
            self._paused += counted
        self.cut = pause - counted
        self._all_cut += self.cut


def _wall(header: Header) -> float:
    try:
        return parse_rfc3339(header.started_at)
    except (ValueError, OverflowError):
        return 0.0
