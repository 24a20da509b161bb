"""What /metrics leaves out: disabled metrics, and label values that are not allowed."""

from __future__ import annotations

import pytest

from stowplan.scheduler.metrics import SchedulerMetrics
from stowplan.scheduler.metrics_filter import MetricsFilter
from stowplan.server.metrics import Exposition

ATTEMPTS = "scheduler_schedule_attempts_total"
DURATION = "scheduler_scheduling_attempt_duration_seconds"


@pytest.fixture
def metrics() -> SchedulerMetrics:
    metrics = SchedulerMetrics()
    for result, times in (("scheduled", 3), ("unschedulable", 2), ("error", 1)):
        metrics.schedule_attempts.at(result, "p").value = times
        for _ in range(times):
            metrics.scheduling_attempt_duration.at(result, "p").observe(0.5)
    return metrics


def lines(metrics: SchedulerMetrics, name: str) -> list[str]:
    text = Exposition(metrics).text().decode()
    return [line for line in text.splitlines() if line.startswith(name)]


def test_disabled_metrics_are_left_out(metrics: SchedulerMetrics) -> None:
    metrics.shown = MetricsFilter(disabled=frozenset({ATTEMPTS}))
    assert lines(metrics, ATTEMPTS) == []
    assert len(lines(metrics, f"{DURATION}_count")) == 3


def test_values_that_are_not_allowed_are_added_up(metrics: SchedulerMetrics) -> None:
    allowed = {"result": frozenset({"scheduled"})}
    metrics.shown = MetricsFilter(allowed={ATTEMPTS: allowed, DURATION: allowed})
    assert lines(metrics, ATTEMPTS) == [
        f'{ATTEMPTS}{{profile="p",result="scheduled"}} 3.0',
        f'{ATTEMPTS}{{profile="p",result="unexpected"}} 3.0',
    ]
    assert lines(metrics, f"{DURATION}_count") == [
        f'{DURATION}_count{{profile="p",result="scheduled"}} 3.0',
        f'{DURATION}_count{{profile="p",result="unexpected"}} 3.0',
    ]
    assert f'{DURATION}_bucket{{le="+Inf",profile="p",result="unexpected"}} 3.0' in lines(
        metrics, f"{DURATION}_bucket"
    )
