"""Counters, gauges and histograms as plain numbers, by label values.

`metrics` declares the families of the scheduler, `server.metrics` shows them to Prometheus. No
locks: everything belongs to the thread of the event loop.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from typing import Generic, Literal, TypeAlias, TypeVar

Labels: TypeAlias = tuple[str, ...]
Kind: TypeAlias = Literal["counter", "gauge", "histogram"]
Reading: TypeAlias = Mapping[Labels, float]


class Value:
    """A counter or gauge: `child.value += 1`."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: float = 0


class Histogram:
    """Counts per bucket; the last one is +Inf. A bucket holds what is at most its bound."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    @property
    def count(self) -> int:
        return sum(self.counts)

    def cumulative(self) -> Iterator[tuple[float, int]]:
        """(upper bound, observations up to it), the last bound being infinite."""
        total = 0
        for bound, count in zip((*self.bounds, float("inf")), self.counts, strict=True):
            total += count
            yield bound, total


M = TypeVar("M", Value, Histogram)


class Family(Generic[M]):
    """One metric name with its children by label values."""

    def __init__(
        self, name: str, kind: Kind, help_text: str, labels: Labels, make: Callable[[], M]
    ) -> None:
        self.name = name
        self.kind = kind
        self.help_text = help_text
        self.labels = labels
        self.children: dict[Labels, M] = {}
        self._make: Callable[[], M] = make
        if not labels:
            self.at()  # a family without labels shows its zero from the start

    def at(self, *values: str) -> M:
        """The child for these label values; keep it where it is used often."""
        try:
            return self.children[values]
        except KeyError:
            if len(values) != len(self.labels):
                told = f"{self.name} has the labels {self.labels}, not {values}"
                raise ValueError(told) from None
            child = self.children[values] = self._make()
            return child


class Source:
    """A metric whose values are stored elsewhere; `read` fetches them at each scrape."""

    def __init__(self, name: str, kind: Kind, help_text: str, labels: Labels) -> None:
        self.name = name
        self.kind = kind
        self.help_text = help_text
        self.labels = labels
        self.read: Callable[[], Reading] = dict


def exponential(start: float, factor: float, count: int) -> tuple[float, ...]:
    """Bounds as Go computes them, by repeated multiplication."""
    bounds = [start]
    while len(bounds) < count:
        bounds.append(bounds[-1] * factor)
    return tuple(bounds)
