"""Background parts of the extender: how they start, and how they report problems.

`serving` starts the parts that a configuration made (the watch of the cluster, queries to
Prometheus, rescheduling) on its own event loop, and stops them at the end. Invariant: a part whose
source is unreachable delays neither the start nor a response. It reports that on /readyz and
/metrics, and in the log at most once a minute.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Final, Protocol, runtime_checkable

from stowplan.clock import Clock, SystemClock
from stowplan.extender.metrics import Metric, MetricMetadata, MetricRegistry, MetricType
from stowplan.logs import get_logger, kv

log = get_logger(__name__)

_QUIET_S: Final = 60.0

KUBEAPI_SYNCED: Final = "kubeapi_synced"
KUBEAPI_NODES: Final = "kubeapi_nodes"
KUBEAPI_PODS: Final = "kubeapi_pods"
KUBEAPI_ERRORS: Final = "kubeapi_errors"
KUBEAPI_PODS_WITHOUT_APP: Final = "kubeapi_pods_without_app"
KUBEAPI_BAD_QUANTITIES: Final = "kubeapi_bad_quantities"
PROMETHEUS_UP: Final = "prometheus_up"
PROMETHEUS_QUERIES: Final = "prometheus_queries"
PROMETHEUS_ERRORS: Final = "prometheus_errors"
PROMETHEUS_ROWS_SKIPPED: Final = "prometheus_rows_skipped"
PROMETHEUS_STALE_ANSWERS: Final = "prometheus_stale_answers"
PROMETHEUS_UNKNOWN_ANSWERS: Final = "prometheus_unknown_answers"
PROMETHEUS_AGE: Final = "prometheus_oldest_result_seconds"
MUTATIONS: Final = "mutations"
RESCHEDULES: Final = "reschedules"
RESCHEDULED_PODS: Final = "rescheduled_pods"
SPANS_EXPORTED: Final = "spans_exported"
SPANS_DROPPED: Final = "spans_dropped"

_GAUGES: Final = {
    KUBEAPI_SYNCED: "1 if all nodes and pods were listed.",
    KUBEAPI_NODES: "Nodes that are known and not of the control plane.",
    KUBEAPI_PODS: "Pods of the monitored namespaces that are not finished.",
    KUBEAPI_PODS_WITHOUT_APP: "Pods that are ignored because they lack the label app.",
    KUBEAPI_BAD_QUANTITIES: "Nodes whose CPU or memory cannot be read.",
    PROMETHEUS_UP: "1 if the last round of queries was answered.",
    PROMETHEUS_AGE: "Age of the oldest result.",
}
_COUNTERS: Final = {
    KUBEAPI_ERRORS: "Lists and deletions that the API server refused or did not answer.",
    PROMETHEUS_QUERIES: "Queries sent.",
    PROMETHEUS_ERRORS: "Queries without a usable answer.",
    PROMETHEUS_ROWS_SKIPPED: "Rows of responses without a number for an app or node.",
    PROMETHEUS_STALE_ANSWERS: "Times that a result older than max_age was used.",
    PROMETHEUS_UNKNOWN_ANSWERS: "Times that there was no result, or none younger than max_stale.",
    MUTATIONS: "Pods sent to /mutate, by result.",
    RESCHEDULES: "Rescheduling rounds, by result.",
    RESCHEDULED_PODS: "Pods to be moved, by result.",
    SPANS_EXPORTED: "Spans that the collector took.",
    SPANS_DROPPED: "Spans that did not reach the collector, by reason.",
}


@runtime_checkable
class Measured(Protocol):
    """Something with values for /metrics."""

    def measures(self) -> Iterable[Metric]: ...


@runtime_checkable
class Runs(Measured, Protocol):
    """A part of the extender that works in the background."""

    name: str

    async def start(self) -> None:
        """Begin; returns at once, whether or not what it needs can be reached."""

    async def stop(self) -> None:
        """End, and let go of all connections; also where it was never started."""

    def why_not_ready(self) -> str | None:
        """Why no question should be asked yet; None if they may be."""

    def note(self) -> str | None:
        """What is worth knowing though questions are answered; None if all is well."""


def data_lines(parts: Iterable[Measured]) -> Iterator[str]:
    """What the parts have for /metrics, as Prometheus reads it."""
    metadata = {name: MetricMetadata(text, MetricType.GAUGE) for name, text in _GAUGES.items()}
    for name, text in _COUNTERS.items():
        metadata[name] = MetricMetadata(text, MetricType.COUNTER)
    registry = MetricRegistry(metadata)
    for part in parts:
        registry.extend(part.measures())
    return registry.lines()


class Troubles:
    """Counts failures of one kind, and logs at most one a minute."""

    def __init__(self, what: str, clock: Clock | None = None) -> None:
        self.count = 0
        #: Of the last failure; empty once it works again.
        self.last = ""
        self._what = what
        self._clock = clock or SystemClock()
        self._quiet_until = float("-inf")
        self._is_told = False

    def add(self, problem: str) -> None:
        self.count += 1
        self.last = problem
        now = self._clock.monotonic()
        if now >= self._quiet_until:
            self._quiet_until = now + _QUIET_S
            self._is_told = True
            log.warning("Failing", extra=kv(what=self._what, err=problem, failures=self.count))

    def over(self) -> None:
        """What failed works again."""
        self.last = ""
        if self._is_told:
            self._is_told = False
            log.info("Works again", extra=kv(what=self._what, failures=self.count))


async def end(*tasks: asyncio.Task[None] | None) -> None:
    """Cancel tasks, and wait until they are gone."""
    running = [task for task in tasks if task is not None]
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
