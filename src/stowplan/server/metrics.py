"""The scheduler's plain counters as Prometheus text.

A custom collector reads `SchedulerMetrics` at each scrape, so that counting costs nothing more
than an addition. The registry is our own: several schedulers may live in one process (tests).
"""

from __future__ import annotations

import math
import platform
import resource
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final

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
from stowplan.config.kubernetes_version import KUBERNETES_VERSION, ShownVersions
from stowplan.scheduler.metric_families import Family, Histogram, Reading, Source, Value
from stowplan.scheduler.metrics import SchedulerMetrics

_NETSTAT: Final = Path("/proc/self/net/netstat")


class SchedulerCollector(Collector):
    """Shows every series of a SchedulerMetrics."""

    def __init__(self, metrics: SchedulerMetrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        yield from _versions(self._metrics.versions)
        for series in self._metrics.all():
            if isinstance(series, Source):
                yield _numbers(series, series.read())
            else:
                yield _family(series)


def _versions(shown: ShownVersions) -> Iterable[Metric]:
    """This build, and as kube-scheduler's series the Kubernetes version that it stands in for.

    Alerts compare the minor versions of all components of a cluster.
    """
    build = InfoMetricFamily("stowplan_build", "The version that runs.")
    build.add_metric([], {"version": stowplan.__version__})
    yield build
    release = KUBERNETES_VERSION.removeprefix("v")
    major, minor, _ = release.split(".")
    kubernetes = GaugeMetricFamily(
        "kubernetes_build_info",
        "[ALPHA] A metric with a constant '1' value. git_version is the version of kube-scheduler "
        "that Stowplan behaves as, followed by its own.",
    )
    labels = {
        "build_date": "",
        "compiler": platform.python_implementation(),
        "git_commit": "",
        "git_tree_state": "",
        "git_version": f"v{ShownVersions().with_own(stowplan.__version__)}",
        "go_version": "",
        "major": major,
        "minor": minor,
        "platform": f"{sys.platform}/{platform.machine()}",
    }
    kubernetes.add_sample("kubernetes_build_info", labels, 1)
    yield kubernetes
    version = GaugeMetricFamily(
        "version_info", "[ALPHA] The Kubernetes version whose behaviour is implemented."
    )
    emulated = {
        "binary": shown.binary,
        "component": "kube",
        "emulation": f"{major}.{minor}",
        "min_compat": shown.min_compatibility,
    }
    version.add_sample("version_info", emulated, 1)
    yield version


class _ProcessExtras(Collector):
    """Series of Go's process collector that prometheus_client does not have; Linux only."""

    def collect(self) -> Iterable[Metric]:
        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        yield GaugeMetricFamily(
            "process_virtual_memory_max_bytes",
            "Maximum amount of virtual memory available in bytes.",
            float(2**64 - 1) if limit == resource.RLIM_INFINITY else float(limit),
        )
        try:
            lines = _NETSTAT.read_text().splitlines()
        except OSError:
            return
        # One line of names and one of values.
        rows = [line.split() for line in lines if line.startswith("IpExt:")]
        octets = dict(zip(*rows, strict=True)) if len(rows) == 2 else {}
        for direction, column in (("receive", "InOctets"), ("transmit", "OutOctets")):
            if column in octets:
                yield CounterMetricFamily(
                    f"process_network_{direction}_bytes_total",
                    f"{column} of the process's network namespace.",
                    float(octets[column]),
                )


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
    if math.isinf(bound):
        return "+Inf"
    text = repr(bound).removesuffix(".0")
    if bound < 1_000_000:
        return text
    return f"{text[0]}.{text[1:].rstrip('0')}".rstrip(".") + f"e+{len(text) - 1:02d}"


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
        self._registry.register(_ProcessExtras())

    def text(self) -> bytes:
        text = generate_latest(self)
        for series in self._metrics.all():
            # prometheus_client adds the suffix to every counter; upstream has some without.
            if series.kind == "counter" and not series.name.endswith("_total"):
                text = text.replace(f"{series.name}_total".encode(), series.name.encode())
        return text

    def collect(self) -> Iterable[Metric]:
        """All families but those that flags leave out; called by `generate_latest`."""
        families = list(self._registry.collect())
        shown = self._metrics.shown
        kept = families if shown is None else list(shown.apply(families))
        return [*kept, *_about(kept, disabled=len(families) - len(kept))]


def _about(families: Iterable[Metric], *, disabled: int) -> Iterable[Metric]:
    """How many families there are, by the stability that their descriptions begin with."""
    levels = Counter(
        family.documentation[1:].partition("]")[0]
        for family in families
        if family.documentation.startswith("[")
    )
    registered = CounterMetricFamily(
        "registered_metrics_total",
        "[BETA] The count of registered metrics broken by stability level and deprecation version.",
        labels=("deprecated_version", "stability_level"),
    )
    for level, count in sorted(levels.items()):
        registered.add_metric(("", level), count)
    yield registered
    counted = (("disabled", disabled), ("hidden", 0))
    for kind, count in counted:
        text = f"[BETA] The count of {kind} metrics."
        yield CounterMetricFamily(f"{kind}_metrics_total", text, count)
