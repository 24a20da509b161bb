"""What /metrics leaves out: `--disabled-metrics` and `--allow-metric-labels`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from prometheus_client.core import Metric
    from prometheus_client.samples import Sample

#: Stands for all values of a label that are not allowed, as upstream.
UNEXPECTED: Final = "unexpected"


@dataclass(frozen=True, slots=True)
class MetricsFilter:
    """Drops whole metrics, and replaces label values that are not allowed."""

    disabled: frozenset[str] = frozenset()
    #: Allowed values by metric and label.
    allowed: Mapping[str, Mapping[str, frozenset[str]]] = field(default_factory=dict)

    def apply(self, metrics: Iterable[Metric]) -> Iterator[Metric]:
        for metric in metrics:
            name = f"{metric.name}_total" if metric.type == "counter" else metric.name
            if name in self.disabled or metric.name in self.disabled:
                continue
            limits = self.allowed.get(name)
            if limits:
                _limit(metric, limits)
            yield metric


def _limit(metric: Metric, limits: Mapping[str, frozenset[str]]) -> None:
    """Replace values that are not allowed; series that become equal are added up."""
    kept: dict[tuple[object, ...], int] = {}
    samples: list[Sample] = []
    for sample in metric.samples:
        labels = {
            label: UNEXPECTED if label in limits and value not in limits[label] else value
            for label, value in sample.labels.items()
        }
        key = (sample.name, *labels.items())
        if key in kept:
            first = samples[kept[key]]
            samples[kept[key]] = first._replace(value=first.value + sample.value)
        else:
            kept[key] = len(samples)
            samples.append(sample._replace(labels=labels))
    metric.samples = samples
