"""How long a failed pod waits, to the second, and what may shorten it."""

from __future__ import annotations

import pytest

from tests.unit.queue.queue_kit import NODE_ADD, Bench, make_pod


def seconds_until_retry(bench: Bench) -> float:
    """Sleep as the loop does, until something is active; from the moment of the failure."""
    began = bench.clock.monotonic()
    while not bench.queue.counts.active:
        wakeup = bench.queue.next_wakeup()
        assert wakeup is not None
        assert wakeup > bench.clock.monotonic(), "the loop would spin"
        bench.clock.advance(wakeup - bench.clock.monotonic())
        bench.queue.flush_backoff()
        bench.queue.flush_unschedulable()
    return bench.clock.monotonic() - began


def test_errors_back_off_1_2_4_8_10_10_seconds_and_the_window_they_end_in() -> None:
    bench = Bench()
    bench.queue.add(make_pod("a"))
    waits: list[float] = []
    for _ in range(7):
        bench.fail(bench.pop())
        waits.append(seconds_until_retry(bench))
    # Each failure falls on a whole second; its window ends one second after the backoff.
    assert waits == [2.0, 3.0, 5.0, 9.0, 11.0, 11.0, 11.0]


def test_rejections_back_off_alike() -> None:
    bench = Bench()
    bench.queue.add(make_pod("a"))
    durations: list[float] = []
    for _ in range(6):
        queued = bench.fail(bench.pop(), "Fit")
        bench.queue.move_all(NODE_ADD, None, object())
        assert bench.where(queued) == "backoff"
        assert queued.backoff_expiration is not None
        durations.append(queued.backoff_expiration - bench.clock.monotonic())
        seconds_until_retry(bench)
    assert durations == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


@pytest.mark.parametrize(
    ("failed_at", "freed_at"),
    [
        (1000.0, 1002.0),  # ends at 1001.0, in the window 1001
        (1000.001, 1002.0),
        (1000.999, 1002.0),  # ends at 1001.999: one second later it is over
        (1001.0, 1003.0),
    ],
)
def test_windows_are_whole_seconds(failed_at: float, freed_at: float) -> None:
    bench = Bench()
    bench.clock.advance(failed_at - 1000.0)
    queued = bench.rejected(make_pod("a"))
    assert bench.queue.next_wakeup() == freed_at
    bench.clock.advance(freed_at - 0.001 - bench.clock.monotonic())
    bench.queue.flush_backoff()
    assert bench.where(queued) == "error_backoff"
    bench.clock.advance(freed_at - bench.clock.monotonic())
    bench.queue.flush_backoff()
    assert bench.where(queued) == "active"
    assert bench.queue.incoming["active", "BackoffComplete"] == 1


def test_within_a_window_priority_rules_across_windows_time() -> None:
    bench = Bench()
    for name, priority in (("low", 1), ("high", 9), ("next", 99)):
        bench.queue.add(make_pod(name, priority=priority))
    popped = {queued.pod.metadata.name: queued for queued in (bench.pop() for _ in range(3))}
    for name in ("low", "high", "next"):
        if name == "next":
            bench.clock.advance(1.0)
        bench.fail(popped[name], "Fit")
        bench.clock.advance(0.1)
    bench.queue.move_all(NODE_ADD, None, object())
    assert bench.names("backoff") == ["high", "low", "next"]
    assert bench.pop_names() == ["high", "low", "next"]


def test_idle_queue_pops_early_from_backoff_but_never_after_an_error() -> None:
    bench = Bench()
    rejected = bench.rejected(make_pod("rejected"), "Fit")
    failed = bench.rejected(make_pod("failed"))
    bench.queue.move_all(NODE_ADD, None, object())
    assert bench.where(rejected) == "backoff"
    assert bench.where(failed) == "error_backoff"
    assert bench.queue.counts.backoff == 2
    bench.queue.add(make_pod("fresh", priority=-5))
    assert bench.pop_names() == ["fresh", "rejected"]
    assert bench.queue.incoming["active", "PopFromBackoffQ"] == 1
    assert bench.where(failed) == "error_backoff"


def test_a_rejection_resets_the_count_of_errors_but_an_error_keeps_that_of_rejections() -> None:
    bench = Bench()
    queued = bench.rejected(make_pod("a"), "Fit")
    bench.queue.activate([queued.pod])
    bench.fail(bench.pop())
    bench.queue.activate([queued.pod])
    bench.fail(bench.pop())
    assert (queued.unschedulable_count, queued.consecutive_errors_count) == (1, 2)
    assert queued.backoff_expiration == 1002.0  # by the errors: 2 seconds
    bench.queue.activate([queued.pod])
    bench.fail(bench.pop(), "Fit")
    assert (queued.unschedulable_count, queued.consecutive_errors_count) == (2, 0)
    assert queued.attempts == 4


def test_an_event_after_the_backoff_goes_straight_to_active() -> None:
    bench = Bench()
    queued = bench.rejected(make_pod("a"), "Fit")
    bench.clock.advance(2.0)
    bench.queue.move_all(NODE_ADD, None, object())
    assert bench.where(queued) == "active"


def test_custom_backoff_and_none_at_all() -> None:
    slow = Bench(initial_backoff_s=3.0, max_backoff_s=5.0)
    slow.queue.add(make_pod("a"))
    expirations: list[float | None] = []
    for _ in range(3):
        queued = slow.fail(slow.pop())
        expirations.append(queued.backoff_expiration)
        slow.queue.activate([queued.pod])
    assert expirations == [1003.0, 1005.0, 1005.0]

    off = Bench(max_backoff_s=0.0)
    queued = off.rejected(make_pod("a"))
    assert off.where(queued) == "active"


def test_the_thousandth_failure_still_backs_off_for_the_maximum() -> None:
    bench = Bench()
    queued = bench.rejected(make_pod("a"))
    queued.consecutive_errors_count = 5000
    bench.queue.activate([queued.pod])
    bench.fail(bench.pop())
    assert queued.backoff_expiration == 1010.0


def test_the_backoff_runs_from_the_failure_not_from_the_event() -> None:
    bench = Bench()
    queued = bench.rejected(make_pod("a"), "Fit")
    bench.clock.advance(1.5)
    bench.queue.move_all(NODE_ADD, None, object())
    assert bench.where(queued) == "backoff"
    assert bench.queue.next_wakeup() == 1002.0


def test_an_update_keeps_the_place_in_backoff() -> None:
    bench = Bench()
    rejected = bench.rejected(make_pod("a"), "Fit")
    failed = bench.rejected(make_pod("b"))
    bench.queue.move_all(NODE_ADD, None, object())
    for queued in (rejected, failed):
        newer = make_pod(queued.pod.metadata.name, labels={"a": "b"})
        before = queued.backoff_expiration
        bench.queue.update(queued.pod, newer)
        assert queued.pod is newer
        assert queued.backoff_expiration == before
    assert bench.where(rejected) == "backoff"
    assert bench.where(failed) == "error_backoff"
