"""The scheduler's plain counters as Prometheus text.

A custom collector reads `SchedulerMetrics` at each scrape, so that counting costs nothing more
than an addition. The registry is our own: several schedulers may live in one process (tests).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

import stowplan
from stowplan.scheduler.metrics import Family, Histogram, Reading, SchedulerMetrics, Source, Value


class SchedulerCollector(Collector):
    """Shows every series of a SchedulerMetrics."""

    def __init__(self, metrics: SchedulerMetrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        build = InfoMetricFamily("stowplan_build", "The version that runs.")
        build.add_metric([], {"version": stowplan.__version__})
        yield build
        for series in self._metrics.all():
            if isinstance(series, Source):
                yield _numbers(series, series.read())
            else:
                yield _family(series)


def _family(family: Family[Value] | Family[Histogram]) -> Metric:
    values: dict[tuple[str, ...], float] = {}
    shown = HistogramMetricFamily(family.name, family.help_text, labels=family.labels)
    for labels, child in family.children.items():
        if isinstance(child, Histogram):
            buckets = [(_bound(bound), float(n)) for bound, n in child.cumulative()]
            shown.add_metric(labels, buckets=buckets, sum_value=child.sum)
        else:
            values[labels] = child.value
    return shown if family.kind == "histogram" else _numbers(family, values)


def _bound(bound: float) -> str:
    """A bucket's bound as Go writes it, so that series carry kube-scheduler's exact labels."""
    return "+Inf" if math.isinf(bound) else repr(bound).removesuffix(".0")


def _numbers(series: Source | Family[Value] | Family[Histogram], values: Reading) -> Metric:
    kind = CounterMetricFamily if series.kind == "counter" else GaugeMetricFamily
    shown = kind(series.name, series.help_text, labels=series.labels)
    for labels, value in values.items():
        shown.add_metric(labels, value)
    return shown


class Exposition(Collector):
    """What /metrics answers: the scheduler's series and the process's own."""

    content_type = "text/plain; version=0.0.4; charset=utf-8"

    def __init__(self, metrics: SchedulerMetrics) -> None:
        self._metrics = metrics
        self._registry = CollectorRegistry()
        self._registry.register(SchedulerCollector(metrics))
        ProcessCollector(registry=self._registry)

    def text(self) -> bytes:
        return generate_latest(self)

    def collect(self) -> Iterable[Metric]:
        """All families but those that flags leave out; called by `generate_latest`."""
        families = self._registry.collect()
        shown = self._metrics.shown
        return families if shown is None else shown.apply(families)
