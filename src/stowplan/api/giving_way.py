"""How many events may be written at a time while more urgent requests are under way.

Asked by the event recorder before each write. An API server takes longer to store an event than to
bind a pod, and no pod should wait for that: while the API server is the bottleneck events are kept
back, for some seconds, and then as many are written as it takes to keep up. So no event waits here
for longer than that, however long the rush is, and binds have the API server to themselves in a
shorter one. What a killed scheduler kept back is written by the next (`scheduler.missed_events`).
"""

from __future__ import annotations

from typing import Final

#: Writes at a time: in quiet times, and when events are overdue.
AT_A_TIME: Final = 8
AT_MOST: Final = 64
#: So long an event gives way ...
_PATIENCE_S = 7.0
#: ... and one that has waited so much longer waits for nobody.
_OVERDUE_S = 1.0


def allowed_at_a_time(waited_s: float, *, is_busy: bool) -> int:
    """How many may be on their way, the oldest of those that wait having waited so long."""
    lateness = (waited_s - _PATIENCE_S) / _OVERDUE_S
    overdue = round(min(max(lateness, 0.0), 1.0) * AT_MOST)
    return overdue if is_busy else max(overdue, AT_A_TIME)
