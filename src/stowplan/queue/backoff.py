"""Pods that wait out their backoff, and how long that is.

Called by the scheduling queue only. Backoff ends are cut to whole seconds and those windows end
together, so that pods of one window leave in the order of the active queue. Pods that failed with
an error (no plugin rejected them) wait apart: the backoff protects the API server, so they are
never popped early.
"""

from __future__ import annotations

from math import floor, inf

from stowplan.clock import Clock
from stowplan.queue.heap import PodHeap, SortKey
from stowplan.queue.pod import QueuedPod

WINDOW_S = 1.0


class BackoffQueue:
    """DIVERGES: windows are whole seconds of the monotonic clock, upstream's of the wall clock,
    so that a step of the wall clock neither frees nor strands a pod."""

    def __init__(
        self, clock: Clock, active_order: SortKey, *, initial_s: float, max_s: float
    ) -> None:
        self._clock = clock
        self._initial_s = initial_s
        self._max_s = max_s
        self.rejected = PodHeap(lambda queued: (self.expiration(queued), active_order(queued)))
        self.failed = PodHeap(self.expiration)

    def __len__(self) -> int:
        return len(self.rejected) + len(self.failed)

    def duration(self, count: int) -> float:
        """1, 2, 4, 8, 10, 10... seconds with the default settings."""
        # Past 62 doublings any initial backoff is beyond any maximum; the bound keeps it a float.
        return min(self._initial_s * 2.0 ** min(count - 1, 62), self._max_s)

    def expiration(self, queued: QueuedPod) -> float:
        """The window in which the backoff ends; minus infinity if there is none."""
        count = queued.consecutive_errors_count or queued.unschedulable_count
        if self._max_s == 0 or count == 0:
            return -inf
        if queued.backoff_expiration is None:
            end = queued.timestamp + self.duration(count)
            queued.backoff_expiration = floor(end / WINDOW_S) * WINDOW_S
        return queued.backoff_expiration

    def is_backing_off(self, queued: QueuedPod) -> bool:
        """True also during the window in which the backoff ends: a window is freed as a whole."""
        now_window = floor(self._clock.monotonic() / WINDOW_S) * WINDOW_S
        return self.expiration(queued) >= now_window

    def add(self, queued: QueuedPod) -> None:
        (self.rejected if queued.rejectors else self.failed).add(queued)

    def get(self, key: str) -> QueuedPod | None:
        return self.rejected.get(key) or self.failed.get(key)

    def refresh(self, queued: QueuedPod) -> None:
        heap = self.rejected if self.rejected.get(queued.key) is queued else self.failed
        heap.refresh(queued)

    def remove(self, key: str) -> QueuedPod | None:
        return self.rejected.remove(key) or self.failed.remove(key)

    def pop_completed(self) -> list[QueuedPod]:
        done: list[QueuedPod] = []
        for heap in (self.rejected, self.failed):
            while (head := heap.peek()) is not None and not self.is_backing_off(head):
                heap.pop()
                done.append(head)
        return done

    def next_completion(self) -> float | None:
        """When the next window has passed, if anything waits."""
        heads = [head for heap in (self.rejected, self.failed) if (head := heap.peek())]
        return min((self.expiration(head) + WINDOW_S for head in heads), default=None)
