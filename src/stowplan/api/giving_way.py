"""How many events may be written at a time while more urgent requests are under way.

Asked by the event recorder before each write. An API server takes longer to store an event than to
bind a pod, and nobody's pod should wait for that. In a short rush events keep pace; one that goes
on they sit out, for some seconds, and then as many are written as it takes to keep up. So after a
short rush nothing is left to write, and in a long one no event is later than that.
"""

from __future__ import annotations

from typing import Final

#: Writes at a time: in quiet times, and when events are overdue.
AT_A_TIME: Final = 8
AT_MOST: Final = 64
#: After so much of a rush events begin to wait, for at most so long ...
_PROMPT_S, _PATIENCE_S = 5.0, 7.0
#: ... and one that has waited so much longer waits for nobody.
_OVERDUE_S = 1.0
#: A pause that ends a rush.
_LULL_S = 1.0


class GivingWay:
    """Follows rushes; to be asked at least every second while events wait."""

    def __init__(self) -> None:
        self._rush_began = self._rush_seen = float("-inf")

    def allowed(self, now: float, oldest_at: float, *, is_busy: bool) -> int:
        """How many may be on their way, the oldest that waits being queued at `oldest_at`."""
        if not is_busy:
            return AT_A_TIME
        if now - self._rush_seen > _LULL_S:
            self._rush_began = now
        self._rush_seen = now
        patience = min(max(now - self._rush_began - _PROMPT_S, 0.0), _PATIENCE_S)
        lateness = (now - oldest_at - patience) / _OVERDUE_S
        return 1 + int(min(max(lateness, 0.0), 1.0) * (AT_MOST - 1))
