"""The counters by themselves; how they look to Prometheus is tested with the server."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.scheduler.metric_families import Histogram, Source, exponential
from stowplan.scheduler.metrics import SchedulerMetrics


def test_bounds_are_gos() -> None:
    assert exponential(0.001, 2, 4) == (0.001, 0.002, 0.004, 0.008)
    assert exponential(1, 2, 5) == (1, 2, 4, 8, 16)
    assert exponential(0.00001, 1.5, 3) == (0.00001, 0.00001 * 1.5, 0.00001 * 1.5 * 1.5)


def test_a_bucket_holds_its_own_bound() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 2.0, 2.5):
        histogram.observe(value)
    assert histogram.counts == [2, 2, 1]
    assert list(histogram.cumulative()) == [(1.0, 2), (2.0, 4), (float("inf"), 5)]
    assert histogram.sum == 7.5
    assert histogram.count == 5


@given(st.lists(st.floats(min_value=0, max_value=100, allow_nan=False), max_size=50))
def test_cumulative_counts_equal_a_plain_count(values: list[float]) -> None:
    histogram = Histogram(exponential(0.001, 2, 15))
    for value in values:
        histogram.observe(value)
    for bound, count in histogram.cumulative():
        assert count == sum(value <= bound for value in values)


def test_children_are_kept_and_labels_counted() -> None:
    metrics = SchedulerMetrics()
    child = metrics.schedule_attempts.at("scheduled", "p")
    child.value += 2
    assert metrics.schedule_attempts.at("scheduled", "p") is child
    assert metrics.schedule_attempts.at("error", "p").value == 0
    with pytest.raises(ValueError, match="scheduler_schedule_attempts_total has the labels"):
        metrics.schedule_attempts.at("scheduled")


def test_an_attempt_counts_once_and_takes_its_time() -> None:
    metrics = SchedulerMetrics()
    metrics.attempt_ended("unschedulable", "p", 0.003)
    assert metrics.schedule_attempts.at("unschedulable", "p").value == 1
    duration = metrics.scheduling_attempt_duration.at("unschedulable", "p")
    assert (duration.count, duration.sum) == (1, 0.003)


@pytest.mark.parametrize(("attempts", "label"), [(1, "1"), (14, "14"), (15, "15+"), (99, "15+")])
def test_attempts_share_a_label_from_fifteen_on(attempts: int, label: str) -> None:
    metrics = SchedulerMetrics()
    metrics.pod_scheduled(attempts, 2.5)
    assert set(metrics.pod_scheduling_sli_duration.children) == {(label,)}
    assert metrics.pod_scheduling_attempts.at().sum == attempts


def test_two_schedulers_share_nothing() -> None:
    one, two = SchedulerMetrics(), SchedulerMetrics()
    one.preemptions.at("success").value += 1
    assert two.preemptions.at("success").value == 0
    one.pending_pods.read = lambda: {("active",): 1}
    assert two.pending_pods.read() == {}


def test_names_are_unique_and_counters_say_so() -> None:
    series = SchedulerMetrics().all()
    names = [one.name for one in series]
    assert len(set(names)) == len(names)
    assert all(one.name.endswith("_total") == (one.kind == "counter") for one in series)
    assert any(isinstance(one, Source) for one in series)
