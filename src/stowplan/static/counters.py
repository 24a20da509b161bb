"""The three counters of the static scheduler, under the original's names and labels.

`binder` counts, `exporter` shows. They have a registry of their own, so that nothing but them is on
the page. Every pod has series of its own; the oldest are dropped rather than kept for ever.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from prometheus_client import CollectorRegistry, Counter, generate_latest

from stowplan.errors import ApiError, ApiUnavailable, StowplanError

_LABELS: Final = ("namespace", "node", "pod", "scheduler")
#: Series of each counter, about 1 KiB each.
_MOST_SERIES: Final = 20_000


class BindCounters:
    """Binding requests, and what became of them."""

    def __init__(self, scheduler: str, *, most_series: int = _MOST_SERIES) -> None:
        self._scheduler = scheduler
        self._registry = CollectorRegistry()
        self._requests = _Series(
            Counter("schedule_request", "Total binding requests", _LABELS, registry=self._registry),
            most_series,
        )
        self._successes = _Series(
            Counter(
                "schedule_request_success",
                "Binding successful requests",
                _LABELS,
                registry=self._registry,
            ),
            most_series,
        )
        self._failures = _Series(
            Counter(
                "schedule_request_failure",
                "Binding failed requests",
                (*_LABELS, "http_status", "reason"),
                registry=self._registry,
            ),
            most_series,
        )

    def requested(self, namespace: str, pod: str, node: str) -> None:
        self._requests.count(namespace, node, pod, self._scheduler)

    def succeeded(self, namespace: str, pod: str, node: str) -> None:
        self._successes.count(namespace, node, pod, self._scheduler)

    def failed(self, namespace: str, pod: str, node: str, problem: StowplanError) -> None:
        status, reason = answer_of(problem)
        self._failures.count(namespace, node, pod, self._scheduler, status, reason)

    def text(self) -> bytes:
        """The page, in Prometheus' text format."""
        return generate_latest(self._registry)


class _Series:
    """One counter and the label values it has, the one that was counted last being the last."""

    def __init__(self, counter: Counter, most: int) -> None:
        self._counter = counter
        self._most = most
        self._known: dict[tuple[str, ...], None] = {}

    def count(self, *values: str) -> None:
        self._counter.labels(*values).inc()
        self._known.pop(values, None)
        self._known[values] = None
        if len(self._known) > self._most:
            oldest = next(iter(self._known))
            del self._known[oldest]
            self._counter.remove(*oldest)


def answer_of(problem: StowplanError) -> tuple[str, str]:
    """HTTP status and reason of a failed request; "0" and a word of ours where no answer came."""
    if isinstance(problem, ApiError):
        try:
            return str(problem.status), HTTPStatus(problem.status).phrase
        except ValueError:
            return str(problem.status), problem.reason
    if isinstance(problem, ApiUnavailable):
        if isinstance(problem.__cause__, TimeoutError):
            return "0", "Timeout"
        return "0", "ConnectionLost" if problem.maybe_done else "NotSent"
    return "0", type(problem).__name__
