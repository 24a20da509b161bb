"""Metrics that DynamicResources counts, with kube-scheduler's names and labels."""

from __future__ import annotations

from stowplan.scheduler.metric_families import Family, Histogram, Value, exponential

_LABELS = ("profile", "driver", "status")


class DeviceMetrics:
    """Plugins reach it by `Handle.observe`."""

    def __init__(self) -> None:
        self._counters = (
            Family(
                "scheduler_resourceclaim_creates_total",
                "counter",
                "[ALPHA] Number of ResourceClaims creation requests within scheduler",
                ("status",),
                Value,
            ),
            Family(
                "scheduler_dra_bindingconditions_allocations_total",
                "counter",
                "[ALPHA] Number of allocations using devices with BindingConditions, counted per "
                "driver per scheduling attempt",
                _LABELS,
                Value,
            ),
        )
        bounds = exponential(0.1, 2, 14)
        self._wait = Family(
            "scheduler_dra_bindingconditions_wait_duration_seconds",
            "histogram",
            "[ALPHA] Time in seconds spent waiting for BindingConditions to be satisfied during "
            "PreBind.",
            _LABELS,
            lambda: Histogram(bounds),
        )

    def all(self) -> tuple[Family[Value] | Family[Histogram], ...]:
        return (*self._counters, self._wait)

    def observe(self, name: str, labels: tuple[str, ...], value: float) -> None:
        """Add to the counter of this name, or observe the value in the histogram."""
        if name == self._wait.name:
            self._wait.at(*labels).observe(value)
            return
        for family in self._counters:
            if family.name == name:
                family.at(*labels).value += value
                return
        raise ValueError(f"there is no metric {name} that plugins count")
