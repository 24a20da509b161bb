"""Pods whose attempt was deferred, and whose turn it is: theirs or that of other active pods.

Called by the scheduling queue only.
"""

from __future__ import annotations

from stowplan.queue.heap import PodHeap
from stowplan.queue.pod import QueuedPod


class DeferredPods(dict[str, QueuedPod]):
    """By `namespace/name`, in the order in which they are tried again. They count as active."""

    def __init__(self, active: PodHeap) -> None:
        super().__init__()
        self._active = active
        #: How many active pods are still to be popped before one of these; None: all that there
        #: are at the next pop.
        self._active_before: int | None = None

    def put(self, queued: QueuedPod) -> None:
        if not self:
            self._active_before = None
        self[queued.key] = queued

    def pop_next(self) -> QueuedPod:
        """The next active pod, or a deferred one if the active pods have had their turn.

        Deferred pods are popped in turn, whatever their priority, and between two of them as many
        active pods as there were after the first. So an active pod waits for one of them at most,
        however many there are, and those that keep coming do not put them off for ever.
        """
        if self._active_before is None:
            self._active_before = len(self._active)
        if self._active_before > 0 and (queued := self._active.pop()) is not None:
            self._active_before -= 1
            return queued
        self._active_before = None
        return self.pop(next(iter(self)))

    @property
    def is_next(self) -> bool:
        """True if `pop_next` would return a deferred pod."""
        return bool(self) and (not self._active or self._active_before == 0)
