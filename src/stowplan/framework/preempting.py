"""Pods for which others are being evicted at this moment.

While the eviction's requests are under way its pod stays out of the queue (PreEnqueue of
DefaultPreemption). Once only the last victim is left, its deletion releases the pod: that event may
reach the queue before the request has returned, and must not find the pod still held.
"""

from __future__ import annotations

from collections.abc import Callable

from stowplan.api.objects import Pod


class Preempting:
    """`lookup` finds the current version of a pod by namespace/name."""

    def __init__(self, lookup: Callable[[str], Pod | None] | None = None) -> None:
        self.lookup = lookup
        #: How many attempts have searched for victims.
        self.attempts = 0
        #: UID of the waiting pod -> the last victim, once all others are evicted.
        self._last: dict[str, Pod | None] = {}

    def __len__(self) -> int:
        return len(self._last)

    def begin(self, pod: Pod) -> None:
        self._last[pod.uid] = None

    def only_left(self, pod: Pod, victim: Pod) -> None:
        """Note that all victims but this one are evicted."""
        self._last[pod.uid] = victim

    def end(self, pod: Pod) -> None:
        self._last.pop(pod.uid, None)

    def holds(self, pod: Pod) -> bool:
        if pod.uid not in self._last:
            return False
        victim = self._last[pod.uid]
        if victim is None or self.lookup is None:
            return True
        current = self.lookup(victim.key)
        return current is not None and current.uid == victim.uid and not current.is_terminating
