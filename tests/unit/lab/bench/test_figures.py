"""Medians, ratios, and rounds that do not count."""

from __future__ import annotations

import pytest

from stowplan.lab.bench.figures import (
    KUBE,
    RAW,
    STOWPLAN,
    Spread,
    WorkloadRuns,
    over_time,
    percentile,
)
from stowplan.lab.bench.figures import throughput as rate_of
from tests.unit.lab.bench.runs import run


def test_throughput_counts_the_intervals_between_first_and_last() -> None:
    assert rate_of([10.0, 12.0, 11.0, 10.5, 11.5]) == 2.0
    assert rate_of([10.0]) == 0.0
    assert rate_of([]) == 0.0


@pytest.mark.parametrize(
    ("share", "expected"), [(0.5, 50.0), (0.99, 99.0), (1.0, 100.0), (0.0, 1.0), (0.991, 100.0)]
)
def test_percentile_is_a_value_that_was_measured(share: float, expected: float) -> None:
    assert percentile([float(value) for value in range(100, 0, -1)], share) == expected


def test_percentile_of_one_value() -> None:
    assert percentile([7.0], 0.5) == 7.0


def test_binds_over_time_begin_with_the_first_and_lose_none() -> None:
    assert over_time([10.0, 10.1, 11.2, 10.6]) == (2, 1, 1)
    assert over_time([]) == ()
    assert sum(over_time([0.5 * number for number in range(9)])) == 9


def test_ratios_are_taken_round_by_round() -> None:
    outcome = WorkloadRuns(
        [
            run(STOWPLAN, 900, 1),
            run(KUBE, 300, 1),
            run(STOWPLAN, 400, 2),
            run(KUBE, 200, 2),
            run(KUBE, 100, 3),
            run(STOWPLAN, 500, 3),
            run(STOWPLAN, 999, 4),
        ]
    )
    assert outcome.ratio(KUBE) == Spread(3.0, 2.0, 5.0)
    assert outcome.ratio(RAW) is None
    assert outcome.rate(KUBE) == Spread(200, 100, 300)


def test_no_ratio_to_a_contestant_that_never_got_going() -> None:
    assert WorkloadRuns([run(STOWPLAN, 300), run(KUBE, 0)]).ratio(KUBE) is None


def test_a_figure_that_no_round_has_is_none() -> None:
    outcome = WorkloadRuns([run(RAW, 300, last_event_s=None)])
    assert outcome.spread(RAW, lambda each: each.last_event_s) is None


def test_whoever_beats_the_limit_makes_the_round_invalid() -> None:
    outcome = WorkloadRuns(
        [run(STOWPLAN, 900, 1), run(RAW, 1000, 1), run(RAW, 800, 2), run(KUBE, 801, 2)]
    )
    assert list(outcome.invalid) == [2]
    assert "kube-scheduler bound 801 pods/s, more than raw with 800 " in outcome.invalid[2]
    assert "0.1 and 0.1 cores" in outcome.invalid[2]
    assert [each.round for each in outcome.runs] == [1, 1]
    assert outcome.is_valid
    assert outcome.rate(RAW) == Spread(1000, 1000, 1000)


def test_with_no_valid_round_nothing_is_valid() -> None:
    outcome = WorkloadRuns([run(STOWPLAN, 1001), run(RAW, 1000)])
    assert not outcome.is_valid
    assert outcome.ratio(RAW) is None
    assert outcome.contestants == [STOWPLAN, RAW]


def test_without_the_limit_nothing_is_known_to_be_wrong() -> None:
    assert WorkloadRuns([run(STOWPLAN, 900)]).invalid == {}


def test_a_shared_machine_is_noticed() -> None:
    outcome = WorkloadRuns([run(STOWPLAN, 900), run(KUBE, 300, others_cores=0.8)])
    assert [each.contestant for each in outcome.disturbed] == [KUBE]


def test_contestants_are_shown_in_one_order() -> None:
    outcome = WorkloadRuns([run(RAW, 900), run("another", 1), run(STOWPLAN, 300), run(KUBE, 100)])
    assert outcome.contestants == [STOWPLAN, KUBE, RAW, "another"]
