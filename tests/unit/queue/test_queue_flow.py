"""The ordinary life of a pod in the queue, and what people are told of it."""

from __future__ import annotations

import pytest

from stowplan.queue import QueuedPod
from stowplan.queue.pod import PendingCounts
from tests.unit.queue.queue_kit import NODE_ADD, NODE_LABEL, Bench, make_pod, never, on


def test_higher_priority_first_then_first_come_first_served() -> None:
    bench = Bench()
    for name, priority in (("a", None), ("b", 10), ("c", -1), ("d", 10), ("e", 0)):
        bench.queue.add(make_pod(name, priority=priority))
    assert bench.pop_names() == ["b", "d", "a", "e", "c"]
    assert bench.queue.pop() is None


def test_a_retried_pod_stands_behind_its_equals() -> None:
    bench = Bench()
    bench.queue.add(make_pod("first"))
    queued = bench.pop()
    bench.clock.advance(5)
    bench.queue.add(make_pod("second"))
    bench.fail(queued, "Fit")
    bench.queue.activate([queued.pod])
    assert bench.pop_names() == ["second", "first"]


def test_an_order_given_as_less() -> None:
    def by_name(a: QueuedPod, b: QueuedPod) -> bool:
        return a.key > b.key

    bench = Bench(less=by_name)
    for name in "bca":
        bench.queue.add(make_pod(name, priority=ord(name)))
    assert bench.pop_names() == ["c", "b", "a"]


def test_an_order_given_as_a_key() -> None:
    bench = Bench(key=lambda queued: queued.key)
    for name in "bca":
        bench.queue.add(make_pod(name, priority=ord(name)))
    assert bench.pop_names() == ["a", "b", "c"]


def test_a_key_is_preferred_to_a_less() -> None:
    bench = Bench(key=lambda queued: queued.key, less=lambda a, b: a.key > b.key)
    for name in "bca":
        bench.queue.add(make_pod(name))
    assert bench.pop_names() == ["a", "b", "c"]


def test_the_plugins_of_an_attempt_are_copied() -> None:
    bench = Bench(hints={})
    bench.queue.add(make_pod("a"))
    queued = bench.pop()
    found = {"Fit"}
    queued.unschedulable_plugins = found
    bench.queue.add_unschedulable(queued)
    bench.gates["a"] = "Gates"
    bench.queue.activate([queued.pod])
    assert queued.unschedulable_plugins == {"Fit", "Gates"}
    assert found == {"Fit"}


def test_a_popped_pod_is_in_flight_until_done() -> None:
    bench = Bench()
    bench.queue.add(make_pod("a"))
    queued = bench.pop()
    assert queued.attempts == 1
    assert queued.initial_attempt_timestamp == 1000.0
    assert bench.where(queued) == "in_flight"
    assert bench.queue.get(queued.pod) is queued
    bench.queue.done(queued.uid)
    bench.queue.done(queued.uid)
    assert bench.where(queued) == "nowhere"
    assert bench.queue.get(queued.pod) is None


def test_rejected_pods_wait_errors_back_off() -> None:
    bench = Bench()
    assert bench.where(bench.rejected(make_pod("rejected"), "Fit")) == "unschedulable"
    assert bench.where(bench.rejected(make_pod("pending"), pending=["Fit"])) == "unschedulable"
    assert bench.where(bench.rejected(make_pod("failed"))) == "error_backoff"
    assert bench.queue.incoming == {
        ("active", "UnschedulablePodAdd"): 3,
        ("unschedulable", "ScheduleAttemptFailure"): 2,
        ("backoff", "ScheduleAttemptFailure"): 1,
    }


def test_counts_and_reasons() -> None:
    bench = Bench()
    bench.gates["gated"] = "Gates"
    bench.queue.add(make_pod("gated"))
    bench.rejected(make_pod("waiting"), "Fit", "Taints")
    bench.rejected(make_pod("failed"))
    bench.queue.add(make_pod("flying"))
    bench.pop()
    bench.queue.add(make_pod("active"))
    assert bench.queue.counts == PendingCounts(1, 1, 1, 1, 1)
    assert bench.queue.pending().counts == bench.queue.counts
    profile = "default-scheduler"
    assert bench.queue.unschedulable_by == {
        ("Gates", profile): 1,
        ("Fit", profile): 1,
        ("Taints", profile): 1,
    }
    bench.queue.activate([make_pod("waiting")])
    bench.pop_names()
    assert +bench.queue.unschedulable_by == {("Gates", profile): 1}
    bench.queue.delete(make_pod("gated"))
    assert +bench.queue.unschedulable_by == {}


def test_popping_clears_what_the_last_attempt_found() -> None:
    bench = Bench()
    queued = bench.rejected(make_pod("a"), "Fit", pending=["Volumes"])
    bench.queue.activate([queued.pod])
    assert bench.pop() is queued
    assert queued.rejectors == set()
    bench.queue.add_unschedulable(queued)  # without plugins: an error
    assert bench.where(queued) == "error_backoff"


def test_the_loop_is_woken_once_for_each_operation_that_made_a_pod_poppable() -> None:
    bench = Bench()
    bench.queue.add(make_pod("a"))
    assert bench.wakeups == 1
    queued = bench.pop()
    bench.fail(queued, "Fit")
    assert bench.wakeups == 1  # unschedulable: nothing to do
    other = bench.rejected(make_pod("b"), "Fit")
    assert bench.wakeups == 2
    bench.queue.move_all(NODE_ADD, None, object())  # both to backoff, from which an idle loop pops
    assert bench.wakeups == 3
    bench.queue.activate([queued.pod, other.pod])
    assert bench.wakeups == 4
    bench.fail(bench.pop())  # error backoff is not poppable
    assert bench.wakeups == 4
    bench.clock.advance(2)
    bench.queue.flush_backoff()
    assert bench.wakeups == 5
    bench.queue.flush_backoff()
    bench.queue.update(other.pod, other.pod)
    assert bench.wakeups == 5


def test_a_queue_without_a_listener_works() -> None:
    bench = Bench()
    bench.queue.on_ready = None
    bench.queue.add(make_pod("a"))
    assert bench.pop_names() == ["a"]


def test_forgotten_pods_are_retried_after_five_minutes() -> None:
    bench = Bench(hints={"Fit": [on(NODE_ADD, never)]})
    old = bench.rejected(make_pod("old"), "Fit")
    bench.clock.advance(1.5)
    young = bench.rejected(make_pod("young"), "Fit")
    assert bench.queue.next_wakeup() == 1300.0
    bench.clock.advance(298.4)
    bench.queue.flush_unschedulable()
    assert bench.names("unschedulable") == ["old", "young"]
    bench.clock.advance(0.1)
    bench.queue.flush_unschedulable()
    assert bench.where(old) == "active"
    assert bench.where(young) == "unschedulable"
    assert bench.queue.incoming["active", "UnschedulableTimeout"] == 1
    assert bench.queue.next_wakeup() == 1301.5


@pytest.mark.parametrize("start", [0.1, 0.3, 12345.6789, 98765.4321])
def test_sleeping_until_next_wakeup_is_enough(start: float) -> None:
    bench = Bench(max_in_unschedulable_s=300.1)
    bench.clock.advance(start)
    queued = bench.rejected(make_pod("a"), "Fit")
    wakeup = bench.queue.next_wakeup()
    assert wakeup is not None
    bench.clock._now = wakeup  # exactly, whatever rounding a sum of floats does
    bench.queue.flush_unschedulable()
    assert bench.where(queued) == "active"


def test_the_sweep_does_not_free_gated_pods() -> None:
    bench = Bench()
    bench.gates["a"] = "Gates"
    bench.queue.add(make_pod("a"))
    assert bench.queue.next_wakeup() is None
    bench.clock.advance(1000)
    bench.queue.flush_unschedulable()
    assert bench.names("gated") == ["a"]
    assert bench.asked == ["a"]


def test_a_sweep_that_regates_a_pod_stops_there() -> None:
    bench = Bench()
    queued = bench.rejected(make_pod("a"), "Fit")
    bench.gates["a"] = "Gates"
    bench.clock.advance(300)
    bench.queue.flush_unschedulable()
    assert bench.where(queued) == "gated"
    assert bench.queue.next_wakeup() is None


def test_activate_skips_backoff_and_ignores_strangers() -> None:
    bench = Bench()
    waiting = bench.rejected(make_pod("waiting"), "Fit")
    backing_off = bench.rejected(make_pod("failed"))
    asked = len(bench.asked)
    bench.queue.activate([waiting.pod, backing_off.pod, make_pod("stranger")])
    assert bench.names("active") == ["waiting", "failed"]
    assert bench.queue.incoming["active", "ForceActivate"] == 2
    # PreEnqueue was run when the pod entered backoff, so it is not asked again from there.
    assert bench.asked[asked:] == ["waiting"]
    bench.queue.activate([waiting.pod, make_pod("failed", uid="another")])
    assert bench.queue.counts.active == 2


def test_nothing_happens_for_an_event_that_nobody_registered() -> None:
    bench = Bench()
    queued = bench.rejected(make_pod("a"), "Fit")
    bench.queue.add(make_pod("b"))
    bench.pop()
    bench.queue.move_all(NODE_LABEL, object(), object())
    assert bench.where(queued) == "unschedulable"
    assert dict(bench.queue.inflight_events) == {"PodPopped": 1}
