"""Names of events: what `kubectl describe` sorts by."""

from __future__ import annotations

from stowplan.api.event_series import event_name, in_place, only_event_name

NOW_NS = 1_763_000_000 * 10**9


def test_names_sort_in_the_order_of_a_pods_life() -> None:
    failed = event_name("p", in_place("FailedScheduling", NOW_NS))
    scheduled = [only_event_name("p", f"uid-{number}", "Scheduled") for number in range(50)]
    preempted = event_name("p", in_place("Preempted", NOW_NS))
    assert failed < min(scheduled)
    assert max(scheduled) < preempted


def test_an_event_that_happens_once_has_one_name() -> None:
    assert only_event_name("p", "a", "Scheduled") == only_event_name("p", "a", "Scheduled")
    assert only_event_name("p", "a", "Scheduled") != only_event_name("p", "b", "Scheduled")
