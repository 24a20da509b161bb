"""Limits and reports decisions that cost a lot: deferred pods and slow plugins.

Called by the engine. A pod is logged once an attempt, a plugin for each slow decision, and many of
them are folded into a line per `logs.FOLDED_S`. The metric that names pods shows the last
`_PODS_SHOWN`, so that its size stays bounded whatever users create.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from stowplan.clock import Clock
from stowplan.framework.stopwatch import SLOW_S
from stowplan.logs import V2, Folding, get_logger, kv
from stowplan.queue.pod import QueuedPod
from stowplan.scheduler.metric_families import Reading
from stowplan.scheduler.metrics import SchedulerMetrics

log = get_logger(__name__)

#: After so many deferrals an attempt may spend twice as much at a time, and four times as much
#: after twice as many, in case that it recomputes so much each time that it gets no further.
_DEFERRALS_PER_DOUBLING: Final = 100
_DOUBLINGS: Final = 2
#: Then the attempt fails: about a minute of work that does not lead to a decision.
MAX_DEFERRALS: Final = 400
TOO_EXPENSIVE: Final = (
    "the scheduling decision was given up after a minute of work. Fix: give the pod fewer affinity "
    "terms, topology spread constraints or selector requirements"
)
_PODS_SHOWN: Final = 16


def work_limit(limit: float, deferrals: int) -> float:
    """What the next try of an attempt that was deferred so often may spend."""
    return limit * (1 << min(deferrals // _DEFERRALS_PER_DOUBLING, _DOUBLINGS))


class ExpensiveDecisions:
    """What was deferred lately."""

    def __init__(self, metrics: SchedulerMetrics, clock: Clock) -> None:
        self._deferred_total = metrics.decisions_deferred
        metrics.expensive_pod_work.read = self._read
        self._slow_plugins = metrics.slow_plugins
        self._pod_lines = Folding()
        self._plugin_lines: dict[str, Folding] = {}
        self._clock = clock
        #: (namespace, pod) -> work of its last expensive attempt so far, the newest last.
        self._work: dict[tuple[str, str], int] = {}

    def deferred(self, queued: QueuedPod) -> None:
        """An attempt was deferred; `queued` says how often and after how much work."""
        self._deferred_total.at(queued.scheduler_name).value += 1
        self.spent(queued)
        if queued.deferrals > 1:
            return
        folded = self._pod_lines.turn(self._clock.monotonic())
        if folded is not None:
            log.warning(
                "Deferred an expensive scheduling decision",
                extra=kv(pod=queued.key, work=queued.deferred_work, othersSinceLast=folded),
            )

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

    def plugins_took(self, seconds: Mapping[str, float], pod: str, profile: str) -> None:
        """How long each plugin took in a decision in which one was slow."""
        for plugin, took in seconds.items():
            if took <= SLOW_S:
                continue
            self._slow_plugins.at(plugin, profile).value += 1
            if plugin not in self._plugin_lines:
                self._plugin_lines[plugin] = Folding()
            folded = self._plugin_lines[plugin].turn(self._clock.monotonic())
            if folded is not None:
                log.warning(
                    "A plugin is slow, and every pod waits for it",
                    extra=kv(
                        plugin=plugin,
                        pod=pod,
                        profile=profile,
                        seconds=round(took, 3),
                        othersSinceLast=folded,
                    ),
                )

    def _read(self) -> Reading:
        return {pod: float(work) for pod, work in self._work.items()}
