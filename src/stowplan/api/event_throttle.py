"""The number of concurrent event writes while binds are under way.

The event recorder asks before each write. An API server takes longer to store an event than to bind
a pod. While the API server is the bottleneck, events are delayed for some seconds; after that, as
many are written as it takes to keep up. The delay is bounded however long the load lasts. Events
that a killed scheduler had not written yet are written by the next one (`scheduler.missed_events`).
"""

from __future__ import annotations

from typing import Final

#: Concurrent writes without other load, and when events are overdue.
AT_A_TIME: Final = 8
AT_MOST: Final = 64
#: An event yields to binds for this long ...
_PATIENCE_S = 7.0
#: ... and is written without regard to binds after this much more.
_OVERDUE_S = 1.0


def allowed_at_a_time(waited_s: float, *, is_busy: bool) -> int:
    """Return how many event writes may run, given how long the oldest event has waited."""
    lateness = (waited_s - _PATIENCE_S) / _OVERDUE_S
    overdue = round(min(max(lateness, 0.0), 1.0) * AT_MOST)
    return overdue if is_busy else max(overdue, AT_A_TIME)
