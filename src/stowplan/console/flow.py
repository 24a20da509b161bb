"""Throughput, latency and attempts over the last minutes: one sample a second, in a ring.

Without a scheduler in the process only pods that were seen to be bound, and those that wait, are
known; then attempts, latencies and plugins are empty.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Final

from stowplan.clock import Clock
from stowplan.console.mirror import ClusterMirror
from stowplan.scheduler.engine import Engine
from stowplan.scheduler.metric_families import Histogram

KEPT: Final = 600
RESULTS: Final = ("scheduled", "unschedulable", "error")
PERCENTILES: Final = (0.5, 0.9, 0.99)
#: Latencies and times of plugins are of so many samples: single seconds have few attempts.
_WINDOW: Final = 15
_MOST_PLUGINS: Final = 10


class FlowRecorder:
    """Takes samples; `sample` is called once a second."""

    def __init__(self, mirror: ClusterMirror, engine: Engine | None, clock: Clock) -> None:
        self._mirror = mirror
        self._engine = engine
        self._clock = clock
        self._samples: deque[dict[str, Any]] = deque(maxlen=KEPT)
        self._bound = mirror.bound
        self._attempts = self._count_attempts()
        self._latencies: deque[list[int]] = deque(maxlen=_WINDOW)
        self._plugins: deque[dict[str, float]] = deque(maxlen=_WINDOW)
        self._sampled_at = clock.monotonic()
        self._percentiles()  # what later samples are compared with

    def sample(self) -> dict[str, Any]:
        """Take and keep the next sample."""
        now = self._clock.monotonic()
        passed_s = max(now - self._sampled_at, 1e-3)
        self._sampled_at = now
        bound, attempts = self._mirror.bound, self._count_attempts()
        counts = zip(attempts, self._attempts, strict=True)
        sample = {
            "time": round(self._clock.time(), 1),
            "bound": round((bound - self._bound) / passed_s, 2),
            "pending": len(self._mirror.pending),
            "attempts": [round((new - old) / passed_s, 2) for new, old in counts],
            "latency": self._percentiles(),
        }
        self._bound, self._attempts = bound, attempts
        self._samples.append(sample)
        return sample

    def view(self) -> dict[str, Any]:
        """All samples as columns, and how plugins share their time."""
        samples = list(self._samples)
        return {
            "live": self._engine is not None,
            "results": RESULTS,
            "percentiles": PERCENTILES,
            "time": [each["time"] for each in samples],
            "bound": [each["bound"] for each in samples],
            "pending": [each["pending"] for each in samples],
            "attempts": _columns(samples, "attempts", len(RESULTS)),
            "latency": _columns(samples, "latency", len(PERCENTILES)),
            "plugins": self.plugins(),
        }

    def plugins(self) -> list[dict[str, Any]]:
        """The plugins that took most of the measured time, with their shares."""
        if len(self._plugins) < 2:
            return []
        first, last = self._plugins[0], self._plugins[-1]
        spent = {name: last[name] - first.get(name, 0.0) for name in last}
        total = sum(spent.values())
        if not total:
            return []
        most = sorted(spent, key=lambda name: -spent[name])[:_MOST_PLUGINS]
        return [{"plugin": name, "share": round(spent[name] / total, 4)} for name in most]

    def _count_attempts(self) -> list[float]:
        if self._engine is None:
            return [0.0] * len(RESULTS)
        totals = dict.fromkeys(RESULTS, 0.0)
        for (result, _), count in self._engine.metrics.schedule_attempts.children.items():
            totals[result] = totals.get(result, 0.0) + count.value
        return [totals[result] for result in RESULTS]

    def _percentiles(self) -> list[float | None]:
        if self._engine is None:
            return [None] * len(PERCENTILES)
        metrics = self._engine.metrics
        times = metrics.scheduling_attempt_duration.children.values()
        bounds, counts = _added(times)
        self._latencies.append(counts)
        spent: dict[str, float] = {}
        for (plugin, _, _), times_of in metrics.plugin_execution_duration.children.items():
            spent[plugin] = spent.get(plugin, 0.0) + times_of.sum
        self._plugins.append(spent)
        before = self._latencies[0] or [0] * len(counts)
        since = [new - old for new, old in zip(counts, before, strict=True)]
        return [quantile(bounds, since, share) for share in PERCENTILES]


def _columns(samples: Sequence[dict[str, Any]], name: str, count: int) -> list[list[Any]]:
    return [[each[name][place] for each in samples] for place in range(count)]


def _added(histograms: Iterable[Histogram]) -> tuple[tuple[float, ...], list[int]]:
    """Histograms of one family, added up."""
    bounds: tuple[float, ...] = ()
    counts: list[int] = []
    for each in histograms:
        if not counts:
            bounds, counts = each.bounds, [0] * len(each.counts)
        counts = [one + other for one, other in zip(counts, each.counts, strict=True)]
    return bounds, counts


def quantile(bounds: Sequence[float], counts: Sequence[int], share: float) -> float | None:
    """Seconds below which a share of the observations are, interpolated within their bucket."""
    total = sum(counts)
    if not total:
        return None
    wanted, below, lower = share * total, 0, 0.0
    for bound, count in zip(bounds, counts, strict=False):
        if count and below + count >= wanted:
            return round(lower + (bound - lower) * (wanted - below) / count, 6)
        below, lower = below + count, bound
    return lower
