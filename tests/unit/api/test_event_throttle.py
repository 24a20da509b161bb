"""The recorder asks: how many events may be written while pods are being bound?"""

from __future__ import annotations

import pytest

from stowplan.api.event_throttle import AT_A_TIME, AT_MOST, allowed_at_a_time


@pytest.mark.parametrize("waited_s", [0.0, 5.0, 7.0])
def test_in_quiet_times_a_few_are_written_at_a_time(waited_s: float) -> None:
    assert allowed_at_a_time(waited_s, is_busy=False) == AT_A_TIME


def test_in_quiet_times_more_only_if_there_are_too_many_of_them() -> None:
    assert AT_A_TIME < allowed_at_a_time(7.5, is_busy=False) < AT_MOST
    assert allowed_at_a_time(600.0, is_busy=False) == AT_MOST


@pytest.mark.parametrize("waited_s", [0.0, 1.0, 7.0])
def test_in_a_rush_events_wait(waited_s: float) -> None:
    assert allowed_at_a_time(waited_s, is_busy=True) == 0


def test_but_not_for_long() -> None:
    assert 0 < allowed_at_a_time(7.2, is_busy=True) < AT_MOST // 2
    assert AT_MOST // 2 < allowed_at_a_time(7.7, is_busy=True) < AT_MOST


@pytest.mark.parametrize("waited_s", [8.0, 600.0])
def test_one_that_is_overdue_waits_for_nobody(waited_s: float) -> None:
    assert allowed_at_a_time(waited_s, is_busy=True) == AT_MOST
