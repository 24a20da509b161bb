"""Reports decisions that cost a lot: which pods were deferred, by log lines and metrics.

Called by the engine. A pod is logged once an attempt, and many pods are folded into a line per
`_LOG_EVERY_S`. The metric that names pods shows the last `_PODS_SHOWN`, so that its size stays
bounded whatever users create.
"""

from __future__ import annotations

from typing import Final

from stowplan.clock import Clock
from stowplan.logs import V2, get_logger, kv
from stowplan.queue.pod import QueuedPod
from stowplan.scheduler.metrics import Reading, SchedulerMetrics

log = get_logger(__name__)

_LOG_EVERY_S: Final = 10.0
_PODS_SHOWN: Final = 16


class ExpensiveDecisions:
    """What was deferred lately."""

    def __init__(self, metrics: SchedulerMetrics, clock: Clock) -> None:
        self._deferred_total = metrics.decisions_deferred
        metrics.expensive_pod_work.read = self._read
        self._clock = clock
        self._next_log = 0.0
        self._folded = 0
        #: (namespace, pod) -> work of its last expensive attempt so far, the newest last.
        self._work: dict[tuple[str, str], int] = {}

    def deferred(self, queued: QueuedPod) -> None:
        """An attempt was deferred; `queued` says how often and after how much work."""
        self._deferred_total.at(queued.scheduler_name).value += 1
        self.spent(queued)
        if queued.deferrals > 1:
            return
        now = self._clock.monotonic()
        if now < self._next_log:
            self._folded += 1
            return
        log.warning(
            "Deferred an expensive scheduling decision",
            extra=kv(pod=queued.key, work=queued.deferred_work, otherPodsSinceLast=self._folded),
        )
        self._next_log = now + _LOG_EVERY_S
        self._folded = 0

    def finished(self, queued: QueuedPod) -> None:
        """The decision of a deferred attempt was made, or given up."""
        self.spent(queued)
        log.log(
            V2,
            "Finished an expensive scheduling decision",
            extra=kv(pod=queued.key, deferrals=queued.deferrals, work=queued.deferred_work),
        )

    def spent(self, queued: QueuedPod) -> None:
        """Remember what the attempt has cost so far."""
        pod = (queued.pod.metadata.namespace, queued.pod.metadata.name)
        self._work.pop(pod, None)
        self._work[pod] = queued.deferred_work
        if len(self._work) > _PODS_SHOWN:
            del self._work[next(iter(self._work))]

    def _read(self) -> Reading:
        return {pod: float(work) for pod, work in self._work.items()}
