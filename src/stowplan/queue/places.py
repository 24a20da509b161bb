"""The places of the scheduling queue: where a pending pod is, and until when.

Read-only for its callers. `SchedulingQueue` moves the pods.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from stowplan.api.objects import Pod
from stowplan.clock import Clock
from stowplan.queue.backoff import WINDOW_S, BackoffQueue
from stowplan.queue.deferred import DeferredPods
from stowplan.queue.heap import PodHeap
from stowplan.queue.inflight import InFlight
from stowplan.queue.pod import PendingCounts, PendingPods, Place, QueuedPod, Whereabouts, pod_uid
from stowplan.queue.unschedulable import UnschedulablePods

#: Active pods from which on there is a rush.
_RUSH: Final = 20


class Places:
    """All pending pods, each in one place."""

    def __init__(
        self,
        clock: Clock,
        active: PodHeap,
        backoff: BackoffQueue,
        unschedulable: UnschedulablePods,
        max_in_unschedulable_s: float,
    ) -> None:
        self._clock = clock
        self._active = active
        self._deferred = DeferredPods(active)
        self._backoff = backoff
        self._unschedulable = unschedulable
        self._in_flight = InFlight()
        self._max_in_unschedulable_s = max_in_unschedulable_s

    def get(self, pod: Pod) -> QueuedPod | None:
        """The queued pod of that name, or the one in flight with that UID."""
        queued = self._find(pod.key)
        if queued is not None:
            return queued
        attempt = self._in_flight.get(pod_uid(pod))
        return None if attempt is None else attempt.queued

    def whereabouts(self, pod: Pod) -> Whereabouts | None:
        """Where a pod waits, and until when; None if it is neither queued nor in flight."""
        queued = self.get(pod)
        if queued is None:
            return None
        backoff_until, retry_by = self.retry_times(queued)
        key = queued.key
        if key in self._unschedulable.gated:
            return Whereabouts(Place.GATED, queued, None, None)
        if self._backoff.get(key) is queued:
            return Whereabouts(Place.BACKOFF, queued, backoff_until, backoff_until)
        if key in self._unschedulable.waiting:
            return Whereabouts(Place.UNSCHEDULABLE, queued, backoff_until, retry_by)
        place = Place.ACTIVE if self._find(key) is queued else Place.IN_FLIGHT
        return Whereabouts(place, queued, None, None)

    def retry_times(self, queued: QueuedPod) -> tuple[float | None, float]:
        """Monotonic times of a pod that failed: when its backoff is over, if it has one, and when
        it is tried although no event has helped.
        """
        end = self._backoff.expiration(queued) + WINDOW_S
        is_over = end <= self._clock.monotonic()
        return None if is_over else end, queued.timestamp + self._max_in_unschedulable_s

    @property
    def counts(self) -> PendingCounts:
        return PendingCounts(
            len(self._active) + len(self._deferred),
            len(self._backoff),
            len(self._unschedulable.waiting),
            len(self._unschedulable.gated),
            len(self._in_flight),
        )

    @property
    def has_rush(self) -> bool:
        """Whether so many pods wait to be tried that the next ones follow at once."""
        return len(self._active) > _RUSH

    def pending(self, *, in_order: bool = True) -> PendingPods:
        """Active and backing off pods in the order in which they would be popped.

        Without it, listing takes no comparisons: a QueueSort plugin's may be slow.
        """
        listed = PodHeap.in_order if in_order else PodHeap.values
        return PendingPods(
            active=[*listed(self._active), *self._deferred.values()],
            backoff=listed(self._backoff.rejected),
            error_backoff=listed(self._backoff.failed),
            unschedulable=list(self._unschedulable.waiting.values()),
            gated=list(self._unschedulable.gated.values()),
            in_flight=[attempt.queued for attempt in self._in_flight],
        )

    @property
    def is_deferred_next(self) -> bool:
        """Whether the next pod to pop is one whose attempt was deferred."""
        return self._deferred.is_next

    @property
    def inflight_events(self) -> Mapping[str, int]:
        """Recorded events by label, and the pods in flight as `PodPopped`."""
        return self._in_flight.by_label

    def _find(self, key: str) -> QueuedPod | None:
        # Each event of a pod asks, so without a call of each place.
        backoff, parked = self._backoff, self._unschedulable
        entry = (
            self._active.entries.get(key)
            or backoff.rejected.entries.get(key)
            or backoff.failed.entries.get(key)
        )
        if entry is not None:
            return entry[2]
        return parked.waiting.get(key) or parked.gated.get(key) or self._deferred.get(key)

    def _is_pending(self, pod: Pod) -> bool:
        attempt = self._in_flight.get(pod_uid(pod))
        if attempt is not None:
            return not attempt.gone
        queued = self._find(pod.key)
        return queued is not None and queued.uid == pod_uid(pod)
