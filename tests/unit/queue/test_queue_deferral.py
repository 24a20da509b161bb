"""Attempts that were deferred: other pods first, and nothing is lost or counted twice."""

from __future__ import annotations

from stowplan.queue import QueuedPod
from tests.unit.queue.queue_kit import NODE_ADD, PROFILE, Bench, make_pod, on, relabel


def deferred(bench: Bench, name: str, priority: int | None = None) -> QueuedPod:
    """A pod whose first attempt was deferred; it must be the next to pop."""
    bench.queue.add(make_pod(name, priority=priority))
    queued = bench.pop()
    assert queued.pod.metadata.name == name
    assert bench.queue.defer(queued)
    return queued


def test_a_deferred_pod_waits_for_those_that_are_active_whatever_its_priority() -> None:
    bench = Bench()
    bench.queue.add(make_pod("big", priority=100))
    big = bench.pop()
    for name in ("a", "b"):
        bench.queue.add(make_pod(name))
    assert bench.queue.defer(big)
    assert bench.where(big) == "active"
    assert bench.pop_names() == ["a", "b", "big"]


def test_pods_that_keep_coming_do_not_put_it_off_for_ever() -> None:
    bench = Bench()
    bench.queue.add(make_pod("big"))
    big = bench.pop()
    bench.queue.add(make_pod("a"))
    bench.queue.add(make_pod("b"))
    bench.queue.defer(big)
    popped: list[str] = []
    for name in ("c", "d", "e"):
        bench.queue.add(make_pod(name, priority=5))
        popped.append(bench.pop().pod.metadata.name)
    assert [*popped, *bench.pop_names()] == ["c", "d", "e", "big", "a", "b"]


def test_deferred_pods_take_turns_and_others_go_in_between() -> None:
    bench = Bench()
    for name in ("x", "y", "z"):
        bench.queue.add(make_pod(name))
    for queued in [bench.pop() for _ in range(3)]:
        bench.queue.defer(queued)
    popped: list[str] = []
    for turn in range(6):
        queued = bench.pop()
        popped.append(queued.pod.metadata.name)
        bench.queue.add(make_pod(f"plain{turn}"))
        bench.queue.defer(queued)
        popped.append(bench.pop().pod.metadata.name)
    assert popped == [
        *("x", "plain0", "y", "plain1", "z", "plain2"),
        *("x", "plain3", "y", "plain4", "z", "plain5"),
    ]


def test_first_deferrals_of_others_do_not_put_it_off() -> None:
    """Pods that are expensive too keep coming; the one that began must be able to end."""
    bench = Bench()
    deferred(bench, "first")
    for number in range(3):
        bench.queue.add(make_pod(f"new{number}"))
    seen: list[str] = []
    for number in range(3, 8):
        queued = bench.pop()
        seen.append(queued.pod.metadata.name)
        bench.queue.defer(queued)
        bench.queue.add(make_pod(f"new{number}"))
    assert seen == ["new0", "new1", "new2", "first", "new3"]


def test_the_attempt_goes_on_under_its_number_without_backoff() -> None:
    bench = Bench()
    queued = deferred(bench, "big")
    timestamp = queued.timestamp
    for _ in range(3):
        assert bench.pop() is queued
        assert queued.attempts == 1
        bench.queue.defer(queued)
    assert (queued.deferrals, queued.timestamp) == (4, timestamp)
    assert bench.queue.next_wakeup() is None
    assert bench.queue.counts.active == 1
    assert bench.queue.incoming.total() == 1
    bench.pop()
    bench.fail(queued, "Fit")
    assert (queued.attempts, queued.deferrals, bench.where(queued)) == (1, 0, "unschedulable")


def test_the_loop_is_woken() -> None:
    bench = Bench()
    bench.queue.add(make_pod("big"))
    queued = bench.pop()
    before = bench.wakeups
    bench.queue.defer(queued)
    assert bench.wakeups == before + 1


def test_one_that_is_deleted_or_replaced_meanwhile_is_not_tried_again() -> None:
    bench = Bench()
    deferred(bench, "gone")
    bench.queue.delete(make_pod("gone"))
    assert bench.queue.pop() is None

    deferred(bench, "replaced")
    bench.queue.add(make_pod("replaced", uid="another"))
    assert bench.pop().uid == "another"
    assert bench.queue.pop() is None


def test_one_that_is_deleted_during_the_attempt_is_not_queued() -> None:
    bench = Bench()
    bench.queue.add(make_pod("big"))
    queued = bench.pop()
    bench.queue.delete(queued.pod)
    assert not bench.queue.defer(queued)
    assert bench.where(queued) == "nowhere"
    assert not bench.queue.inflight_events["PodPopped"]


def test_the_next_try_sees_the_newest_pod() -> None:
    bench = Bench()
    queued = deferred(bench, "big")
    newer = relabel(queued.pod, version="2")
    bench.queue.update(queued.pod, newer)
    assert bench.pop().pod is newer
    newest = relabel(newer, version="3")
    bench.queue.update(newer, newest)
    bench.queue.defer(queued)
    assert bench.pop().pod is newest


def test_events_since_the_last_pop_count_for_a_failure_after_a_deferral() -> None:
    bench = Bench({"Fit": [on(NODE_ADD)]})
    queued = deferred(bench, "big")
    bench.queue.move_all(NODE_ADD, None, object())
    assert bench.pop() is queued
    bench.fail(queued, "Fit")
    assert bench.where(queued) == "unschedulable", "the decision has seen that node"
    assert bench.queue.unschedulable_by["Fit", PROFILE] == 1


def test_it_is_known_whether_the_next_pod_was_deferred() -> None:
    """The loop pauses before it goes on with such a pod."""
    bench = Bench()
    deferred(bench, "big")
    for name in ("a", "b"):
        bench.queue.add(make_pod(name))
    seen = []
    while bench.queue.counts.active:
        expected = bench.queue.is_deferred_next
        queued = bench.pop()
        seen.append(queued.pod.metadata.name)
        assert expected is bool(queued.deferrals)
    assert seen == ["a", "b", "big"]
    assert not bench.queue.is_deferred_next
