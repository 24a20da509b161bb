"""What the extender counts, and its page of metrics, under the WCA scheduler's names.

`service` counts requests in `ServiceMetrics`; algorithms keep what they know of apps and nodes in a
`MetricRegistry`. The names have no `_total`, because dashboards made for the WCA scheduler look
for them without; that is why the page is written here and not by the Prometheus client.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from typing import Final, TypeAlias

from stowplan.scheduler.metric_families import Histogram

PREFIX: Final = "wca_scheduler_"
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
VERBS: Final = ("filter", "prioritize", "preempt", "bind")

Labels: TypeAlias = tuple[tuple[str, str], ...]
#: Seconds. kube-scheduler gives an extender 5 s unless told otherwise.
_BOUNDS: Final = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
)  # fmt: skip


class MetricType(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"


@dataclass(frozen=True)
class MetricMetadata:
    help: str
    type: MetricType


@dataclass(frozen=True)
class Metric:
    """One value; the name is without the prefix that all have."""

    name: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)


class MetricRegistry:
    """Values by name and labels: a gauge replaces the one before, a counter adds to it."""

    def __init__(self, metadata: Mapping[str, MetricMetadata]) -> None:
        self._metadata = dict(metadata)
        self._values: dict[str, dict[Labels, float]] = {}

    def add(self, metric: Metric) -> None:
        """KeyError for a name that the registry was not made for."""
        metadata = self._metadata[metric.name]
        labels = tuple(sorted((str(k), str(v)) for k, v in metric.labels.items()))
        values = self._values.setdefault(metric.name, {})
        before = values.get(labels, 0.0) if metadata.type is MetricType.COUNTER else 0.0
        values[labels] = before + metric.value

    def extend(self, metrics: Iterable[Metric]) -> None:
        for metric in metrics:
            self.add(metric)

    def table(self, name: str) -> dict[Labels, float]:
        """The values of one metric, for callers that write thousands of them; labels are sorted."""
        if name not in self._metadata:
            raise KeyError(name)
        return self._values.setdefault(name, {})

    def clean(self) -> None:
        """Forget all values."""
        self._values.clear()

    def get_names(self) -> list[str]:
        """The names that have values."""
        return [name for name, values in self._values.items() if values]

    def as_dict(self) -> dict[str, dict[Labels, float]]:
        return {name: dict(self._values[name]) for name in self.get_names()}

    def lines(self) -> Iterator[str]:
        """As Prometheus reads them."""
        for name in self.get_names():
            metadata = self._metadata[name]
            yield from _lines(name, metadata.help, metadata.type, self._values[name])


class ServiceMetrics:
    """Requests, and what became of them."""

    def __init__(self) -> None:
        self.requests = dict.fromkeys(VERBS, 0)
        self.ignored = dict.fromkeys(VERBS[:3], 0)
        self.clamped_scores = 0
        #: Of the algorithm, by verb.
        self.errors = dict.fromkeys(VERBS, 0)
        #: By HTTP status.
        self.refused: dict[int, int] = {}
        self.request_seconds = {verb: Histogram(_BOUNDS) for verb in VERBS}
        self.algorithm_seconds = {verb: Histogram(_BOUNDS) for verb in VERBS}

    def count_refused(self, status: int) -> None:
        self.refused[status] = self.refused.get(status, 0) + 1

    def lines(self) -> Iterator[str]:
        for verb, count in self.requests.items():
            yield from _counter(verb, f"Requests to {verb}.", {(): count})
        for verb, count in self.ignored.items():
            name = f"pod_ignore_{verb}"
            yield from _counter(name, f"Pods of other namespaces in {verb}.", {(): count})
        yield from _counter(
            "clamped_scores", "Scores beyond 0 to 10, cut off.", {(): self.clamped_scores}
        )
        by_verb: dict[Labels, float] = {
            (("verb", verb),): count for verb, count in self.errors.items()
        }
        yield from _counter("errors", "Requests that the algorithm failed.", by_verb)
        by_code: dict[Labels, float] = {
            (("code", str(code)),): count for code, count in sorted(self.refused.items())
        }
        yield from _counter("refused_requests", "Requests that were not understood.", by_code)
        yield from _histograms(
            "request_duration_seconds",
            "From the last byte of a request to its answer.",
            self.request_seconds,
        )
        yield from _histograms(
            "algorithm_duration_seconds",
            "What the algorithm took of a request.",
            self.algorithm_seconds,
        )


def page(
    service: ServiceMetrics, algorithm: MetricRegistry | None, more: Iterable[str] = ()
) -> bytes:
    """What /metrics answers; `more` are lines of what runs beside the service."""
    lines = [*service.lines(), *more]
    if algorithm is not None:
        lines += algorithm.lines()
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "replace") + _process()


def _process() -> bytes:
    """Memory, CPU time and descriptors of the process."""
    from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest

    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    return generate_latest(registry)


def _counter(name: str, text: str, values: Mapping[Labels, float]) -> Iterator[str]:
    return _lines(name, text, MetricType.COUNTER, values)


def _lines(name: str, text: str, kind: MetricType, values: Mapping[Labels, float]) -> Iterator[str]:
    yield f"# HELP {PREFIX}{name} {_help(text)}"
    yield f"# TYPE {PREFIX}{name} {kind}"
    for labels, value in values.items():
        yield f"{PREFIX}{name}{_labels(labels)} {_number(value)}"


def _histograms(name: str, text: str, by_verb: Mapping[str, Histogram]) -> Iterator[str]:
    full = f"{PREFIX}{name}"
    yield f"# HELP {full} {text}"
    yield f"# TYPE {full} histogram"
    for verb, histogram in by_verb.items():
        for bound, total in histogram.cumulative():
            le = "+Inf" if bound == inf else f"{bound:g}"
            yield f'{full}_bucket{{le="{le}",verb="{verb}"}} {total}'
        yield f'{full}_count{{verb="{verb}"}} {histogram.count}'
        yield f'{full}_sum{{verb="{verb}"}} {histogram.sum!r}'


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _number(value: float) -> str:
    if type(value) is int:
        return str(value)
    text = repr(float(value))
    return {"inf": "+Inf", "-inf": "-Inf", "nan": "NaN"}.get(text, text)
