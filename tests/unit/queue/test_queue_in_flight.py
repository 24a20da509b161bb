"""Events that arrive while a pod is being scheduled."""

from __future__ import annotations

import pytest

from stowplan.queue import events as ev
from stowplan.queue.events import ActionType, ClusterEvent, EventHint, EventResource, Hint
from tests.unit.queue.queue_kit import (
    NODE_ADD,
    NODE_LABEL,
    POD_DELETE,
    Bench,
    annotate,
    make_pod,
    never,
    on,
    relabel,
)

HINTS: dict[str, list[EventHint]] = {
    "Fit": [on(NODE_ADD)],
    "Affinity": [on(NODE_LABEL)],
    "Volumes": [on(POD_DELETE)],
    "Stubborn": [on(NODE_ADD, never)],
}


def bench_with_flight(name: str = "a") -> Bench:
    bench = Bench(hints={**HINTS})
    bench.queue.add(make_pod(name))
    return bench


@pytest.mark.parametrize(
    ("events", "plugins", "pending", "place"),
    [
        ([], ["Fit"], [], "unschedulable"),
        ([NODE_ADD], ["Fit"], [], "backoff"),
        ([NODE_LABEL], ["Fit"], [], "unschedulable"),
        ([NODE_LABEL, NODE_ADD], ["Fit"], [], "backoff"),
        ([NODE_ADD], ["Stubborn"], [], "unschedulable"),
        ([NODE_ADD], ["Stubborn", "Fit"], [], "backoff"),
        ([NODE_ADD], [], ["Fit"], "active"),
        ([NODE_ADD, ev.ASSIGNED_POD_DELETE], ["Fit"], ["Volumes"], "active"),
        ([NODE_ADD, NODE_LABEL], ["Fit"], ["Volumes"], "backoff"),
        ([], [], [], "error_backoff"),
        ([NODE_ADD], [], [], "error_backoff"),
        ([ev.UNSCHEDULABLE_TIMEOUT], ["Fit"], [], "backoff"),
    ],
)
def test_events_during_the_attempt_are_replayed(
    events: list[ClusterEvent], plugins: list[str], pending: list[str], place: str
) -> None:
    bench = bench_with_flight()
    queued = bench.pop()
    for event in events:
        bench.queue.move_all(event, None, None)
    bench.fail(queued, *plugins, pending=pending)
    assert bench.where(queued) == place
    assert not any(bench.queue.inflight_events.values())


def test_events_before_the_attempt_are_not() -> None:
    bench = bench_with_flight("early")
    bench.pop()
    bench.queue.move_all(NODE_ADD, None, object())
    bench.queue.add(make_pod("late"))
    late = bench.pop()
    assert late.pod.metadata.name == "late"
    bench.fail(late, "Fit")
    assert bench.where(late) == "unschedulable"


def test_the_objects_of_the_event_are_replayed_too() -> None:
    seen: list[tuple[object, object]] = []

    def remember(pod: object, old: object | None, new: object | None) -> Hint:
        seen.append((old, new))
        return Hint.SKIP

    bench = Bench(hints={"Fit": [on(NODE_LABEL, remember)]})
    bench.queue.add(make_pod("a"))
    queued = bench.pop()
    bench.queue.move_all(NODE_LABEL, "old", "new")
    assert seen == []
    bench.fail(queued, "Fit")
    assert seen == [("old", "new")]


def test_events_are_kept_only_while_somebody_may_need_them() -> None:
    bench = Bench()
    bench.queue.move_all(NODE_ADD, None, 0)
    assert not any(bench.queue.inflight_events.values())
    for name in "abc":
        bench.queue.add(make_pod(name))
    a = bench.pop()
    bench.queue.move_all(NODE_ADD, None, 1)
    b = bench.pop()
    bench.queue.move_all(NODE_ADD, None, 2)
    bench.queue.move_all(NODE_ADD, None, 3)
    c = bench.pop()
    assert bench.queue.inflight_events == {"PodPopped": 3, "NodeAdd": 3}
    bench.queue.done(b.uid)  # a still needs all of them
    assert bench.queue.inflight_events == {"PodPopped": 2, "NodeAdd": 3}
    bench.queue.done(a.uid)  # c began after all of them
    assert bench.queue.inflight_events == {"PodPopped": 1, "NodeAdd": 0}
    bench.queue.move_all(NODE_ADD, None, 4)
    bench.fail(c, "Fit")
    assert bench.where(c) == "backoff"
    assert bench.queue.inflight_events == {"PodPopped": 0, "NodeAdd": 0}
    assert bench.queue._in_flight._events == []


def test_a_long_attempt_sees_its_events_while_thousands_come_and_go() -> None:
    bench = Bench(hints={"Fit": [on(NODE_ADD)], "Affinity": [on(NODE_LABEL)]})
    bench.queue.add(make_pod("long"))
    long = bench.pop()
    bench.queue.move_all(NODE_LABEL, object(), object())
    for number in range(300):
        bench.queue.add(make_pod(f"p{number}"))
        short = bench.pop()
        bench.queue.move_all(NODE_ADD, None, number)
        bench.queue.done(short.uid)
    assert bench.queue.inflight_events["NodeAdd"] == 300
    bench.fail(long, "Affinity")
    assert bench.where(long) == "backoff"
    assert bench.queue._in_flight._events == []


def test_activating_a_pod_in_flight_works_when_it_comes_back() -> None:
    bench = bench_with_flight()
    bench.queue.add(make_pod("b"))
    a, b = bench.pop(), bench.pop()
    bench.queue.activate([a.pod])
    assert bench.where(a) == "in_flight"
    bench.fail(b, "Fit")
    assert bench.where(b) == "unschedulable"  # it was not meant
    bench.fail(a, "Fit")
    assert bench.where(a) == "backoff"


POD_LABEL = ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_LABEL)


def test_an_update_in_flight_is_replayed_and_the_newest_pod_is_queued() -> None:
    bench = Bench(hints={"Spread": [on(POD_LABEL)], "Fit": [on(NODE_ADD)]})
    pod = make_pod("a")
    bench.queue.add(pod)
    queued = bench.pop()
    second = relabel(pod, app="x")
    third = annotate(second, touched="yes")
    bench.queue.update(pod, second)
    bench.queue.update(second, third)
    assert queued.pod is pod  # the cycle keeps what it began with
    bench.fail(queued, "Spread")
    assert bench.where(queued) == "backoff"
    assert queued.pod is third


def test_an_update_in_flight_that_does_not_help_changes_nothing_but_the_pod() -> None:
    bench = Bench(hints={"Spread": [on(POD_LABEL)], "Fit": [on(NODE_ADD)]})
    pod = make_pod("a")
    bench.queue.add(pod)
    queued = bench.pop()
    bench.queue.update(pod, relabel(pod, app="x"))
    bench.fail(queued, "Fit")
    assert bench.where(queued) == "unschedulable"
    assert queued.pod.metadata.labels == {"app": "x"}


def test_a_failure_after_done_is_an_error_and_backs_off() -> None:
    bench = bench_with_flight()
    queued = bench.pop()
    bench.queue.done(queued.uid)
    bench.fail(queued)
    assert bench.where(queued) == "error_backoff"


def test_a_rejection_after_done_is_retried_as_its_events_are_unknown() -> None:
    bench = bench_with_flight()
    queued = bench.pop()
    bench.queue.done(queued.uid)
    bench.fail(queued, "Fit")
    assert bench.where(queued) == "backoff"
