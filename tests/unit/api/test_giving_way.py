"""The recorder asks: how many events may be written while pods are being bound?"""

from __future__ import annotations

from stowplan.api.giving_way import AT_A_TIME, AT_MOST, GivingWay


def rushing(seconds: float, *, since: float = 0.0) -> GivingWay:
    """After a rush that long, during which it was asked again and again."""
    policy = GivingWay()
    for tick in range(int(seconds * 50) + 1):
        now = since + tick / 50
        policy.allowed(now, now, is_busy=True)
    return policy


def test_in_quiet_times_a_few_are_written_at_a_time() -> None:
    policy = GivingWay()
    assert policy.allowed(100.0, 0.0, is_busy=False) == AT_A_TIME
    assert policy.allowed(100.0, 100.0, is_busy=False) == AT_A_TIME


def test_when_a_rush_begins_events_keep_pace() -> None:
    policy = GivingWay()
    assert policy.allowed(50.0, 50.0, is_busy=True) == 1
    assert policy.allowed(50.5, 50.0, is_busy=True) > 1


def test_only_in_a_rush_that_goes_on_do_events_wait() -> None:
    age = 2.0
    assert rushing(5.0).allowed(5.0, 5.0 - age, is_busy=True) == AT_MOST
    assert 1 < rushing(6.5).allowed(6.5, 6.5 - age, is_busy=True) < AT_MOST
    assert rushing(8.0).allowed(8.0, 8.0 - age, is_busy=True) == 1


def test_however_long_it_lasts_an_event_is_overdue_after_some_seconds() -> None:
    policy = rushing(600.0)
    assert policy.allowed(600.0, 593.0, is_busy=True) == 1
    assert policy.allowed(600.0, 592.4, is_busy=True) > AT_MOST // 2
    assert policy.allowed(600.0, 592.0, is_busy=True) == AT_MOST


def test_a_moment_without_requests_does_not_end_a_rush_but_a_pause_does() -> None:
    policy = rushing(12.0)
    assert policy.allowed(12.2, 12.2, is_busy=False) == AT_A_TIME
    assert policy.allowed(12.5, 9.5, is_busy=True) == 1
    assert policy.allowed(14.0, 11.0, is_busy=True) == AT_MOST
