"""`workqueue_*`: how often the port's certificates, CAs and proxy headers were loaded again.

Upstream loads them by controllers with work queues. Here a change is handled when it is noticed, so
that queues are empty, and nothing waits in them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from stowplan.scheduler.metric_families import Family, Histogram, Kind, Value, exponential

CLIENT_CAS: Final = "DynamicConfigMapCABundle-client-ca"
CERTIFICATES: Final = "DynamicServingCertificateController"
PROXY_HEADERS: Final = "RequestHeaderAuthRequestController"
_BOUNDS: Final = exponential(10e-9, 10, 10)


class WorkQueues:
    """The families, with a series for each of the three queues."""

    def __init__(self) -> None:
        self._adds = _family("adds_total", "counter", "Total number of adds handled by workqueue")
        self._depth = _family("depth", "gauge", "Current depth of workqueue")
        self._longest = _family(
            "longest_running_processor_seconds",
            "gauge",
            "How many seconds has the longest running processor for workqueue been running.",
        )
        self._retries = _family(
            "retries_total", "counter", "Total number of retries handled by workqueue"
        )
        self._unfinished = _family(
            "unfinished_work_seconds",
            "gauge",
            "How many seconds of work has been done that is in progress and hasn't been observed "
            "by work_duration.",
        )
        self._waits = _histogram(
            "queue_duration_seconds",
            "How long in seconds an item stays in workqueue before being requested.",
        )
        self._work = _histogram(
            "work_duration_seconds",
            "How long in seconds processing an item from workqueue takes.",
        )

    def all(self) -> tuple[Family[Value] | Family[Histogram], ...]:
        return (
            self._adds,
            self._depth,
            self._longest,
            self._retries,
            self._unfinished,
            self._waits,
            self._work,
        )

    @contextmanager
    def work(self, queue: str) -> Iterator[None]:
        """Count what is done inside."""
        for family in (self._depth, self._longest, self._retries, self._unfinished):
            family.at(queue)
        self._adds.at(queue).value += 1
        self._waits.at(queue).observe(0.0)
        started = time.perf_counter()
        try:
            yield
        finally:
            self._work.at(queue).observe(time.perf_counter() - started)


def _family(name: str, kind: Kind, help_text: str) -> Family[Value]:
    return Family(f"workqueue_{name}", kind, f"[BETA] {help_text}", ("name",), Value)


def _histogram(name: str, help_text: str) -> Family[Histogram]:
    text = f"[BETA] {help_text}"
    return Family(f"workqueue_{name}", "histogram", text, ("name",), lambda: Histogram(_BOUNDS))
