"""Pods that change, go, or come back under the same name, wherever they are."""

from __future__ import annotations

import logging

import msgspec
import pytest

from stowplan.api.objects import Container, ObjectMeta, Pod, ResourceRequirements
from stowplan.queue import QueuedPod
from stowplan.queue.events import ActionType, ClusterEvent, EventResource
from tests.unit.queue.queue_kit import NODE_ADD, Bench, annotate, make_pod, never, on, relabel

PLACES = ["active", "backoff", "error_backoff", "unschedulable", "gated", "in_flight"]


def pod_in(place: str, bench: Bench) -> QueuedPod:
    """The pod `a`, UID 1, in the given place of a queue that is otherwise empty."""
    pod = make_pod("a", uid="1")
    if place == "gated":
        bench.gates["a"] = "Gates"
    bench.queue.add(pod)
    queued = bench.queue.get(pod)
    assert queued is not None
    if place in ("in_flight", "backoff", "error_backoff", "unschedulable"):
        assert bench.pop() is queued
    if place == "error_backoff":
        bench.fail(queued)
    if place in ("backoff", "unschedulable"):
        bench.fail(queued, "Fit")
    if place == "backoff":
        bench.queue.move_all(NODE_ADD, None, object())
    assert bench.where(queued) == place
    bench.gates.clear()
    return queued


@pytest.mark.parametrize("place", PLACES)
def test_delete(place: str) -> None:
    bench = Bench()
    queued = pod_in(place, bench)
    bench.queue.delete(queued.pod)
    bench.queue.delete(queued.pod)
    if place == "in_flight":
        assert bench.where(queued) == "in_flight"  # the cycle has it and ends it
        bench.queue.move_all(NODE_ADD, None, object())
        assert bench.queue.add_unschedulable(queued) is False
    assert bench.queue.counts == (0, 0, 0, 0, 0)
    assert bench.queue.pop() is None
    assert bench.queue.next_wakeup() is None
    assert not any(bench.queue.unschedulable_by.values())
    assert not any(bench.queue.inflight_events.values())


@pytest.mark.parametrize("place", PLACES)
def test_delete_of_another_pod_of_that_name_changes_nothing(place: str) -> None:
    bench = Bench()
    queued = pod_in(place, bench)
    bench.queue.delete(make_pod("a", uid="0"))
    assert bench.where(queued) == place


@pytest.mark.parametrize("place", PLACES)
def test_adding_a_known_pod_again_updates_it(place: str) -> None:
    bench = Bench()
    queued = pod_in(place, bench)
    newer = annotate(queued.pod, touched="yes")
    bench.queue.add(newer)
    assert bench.where(queued) == place
    if place == "in_flight":
        bench.fail(queued, "Fit")
    assert queued.pod is newer
    assert sum(bench.queue.counts) == 1


@pytest.mark.parametrize("how", ["add", "update", "update without old"])
@pytest.mark.parametrize("place", PLACES)
def test_a_new_pod_of_the_same_name_takes_over(place: str, how: str) -> None:
    bench = Bench()
    old = pod_in(place, bench)
    successor = make_pod("a", uid="2")
    if how == "add":
        bench.queue.add(successor)
    else:
        bench.queue.update(old.pod if how == "update" else None, successor)
    fresh = bench.queue.get(successor)
    assert fresh is not None
    assert fresh.uid == "2"
    assert (fresh.attempts, fresh.unschedulable_count) == (0, 0)
    assert bench.where(fresh) == "active"
    if place == "in_flight":
        assert bench.queue.add_unschedulable(old) is False
    assert bench.where(old) == "nowhere"
    assert bench.queue.counts == (1, 0, 0, 0, 0)


def test_both_pods_of_one_name_in_flight() -> None:
    bench = Bench()
    old = pod_in("in_flight", bench)
    bench.queue.add(make_pod("a", uid="2"))
    new = bench.pop()
    bench.fail(old, "Fit")
    assert bench.where(old) == "nowhere"
    assert bench.where(new) == "in_flight"
    bench.fail(new, "Fit")
    assert bench.where(new) == "unschedulable"


def test_a_pod_that_was_believed_gone_and_is_not() -> None:
    bench = Bench()
    queued = pod_in("in_flight", bench)
    bench.queue.delete(queued.pod)
    bench.queue.add(queued.pod)
    bench.fail(queued, "Fit")
    assert sum(bench.queue.counts) == 1


def test_an_unknown_pod_that_is_updated_is_queued() -> None:
    bench = Bench()
    pod = make_pod("a")
    bench.queue.update(pod, annotate(pod, touched="yes"))
    assert bench.names("active") == ["a"]
    assert bench.queue.incoming == {("active", "UnschedulablePodUpdate"): 1}
    bench.queue.update(None, make_pod("b"))
    assert bench.queue.counts.active == 2


def test_a_failed_attempt_of_a_pod_that_is_queued_already_is_dropped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench()
    queued = pod_in("in_flight", bench)
    bench.queue.done(queued.uid)
    bench.queue.update(queued.pod, queued.pod)  # by somebody who did not see it was assumed
    with caplog.at_level(logging.ERROR):
        assert bench.queue.add_unschedulable(queued) is False
    assert "queued already" in caplog.text
    assert bench.queue.counts == (1, 0, 0, 0, 0)


def test_a_changed_priority_changes_the_order() -> None:
    bench = Bench()
    for name in "abc":
        bench.queue.add(make_pod(name))
    bench.queue.update(make_pod("c"), make_pod("c", priority=5))
    assert bench.pop_names() == ["c", "a", "b"]


POD_LABEL = ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_LABEL)
POD_UPDATE = ClusterEvent(EventResource.POD, ActionType.UPDATE)


@pytest.mark.parametrize(
    ("plugin", "waited_s", "place"),
    [("Labels", 0, "backoff"), ("Labels", 5, "active"), ("Stubborn", 5, "unschedulable")],
)
def test_an_update_of_an_unschedulable_pod_asks_the_hints(
    plugin: str, waited_s: float, place: str
) -> None:
    bench = Bench(hints={"Labels": [on(POD_LABEL)], "Stubborn": [on(POD_LABEL, never)]})
    queued = bench.rejected(make_pod("a"), plugin)
    bench.clock.advance(waited_s)
    newer = relabel(queued.pod, app="x")
    bench.queue.update(queued.pod, newer)
    assert bench.where(queued) == place
    assert queued.pod is newer


def test_a_plain_update_moves_only_pods_of_plugins_that_registered_update() -> None:
    bench = Bench(hints={"Labels": [on(POD_LABEL)], "Any": [on(POD_UPDATE)]})
    by_labels = bench.rejected(make_pod("a"), "Labels")
    by_any = bench.rejected(make_pod("b"), "Any")
    for queued in (by_labels, by_any):
        bench.queue.update(queued.pod, annotate(queued.pod, touched="yes"))
    assert bench.where(by_labels) == "unschedulable"
    assert bench.where(by_any) == "backoff"


def test_an_update_does_not_refresh_the_five_minutes() -> None:
    bench = Bench()
    queued = bench.rejected(make_pod("a"), "Fit")
    bench.clock.advance(200)
    bench.queue.update(queued.pod, annotate(queued.pod, touched="yes"))
    assert bench.queue.next_wakeup() == 1300.0


def sized(cpu: str) -> Pod:
    container = Container(resources=ResourceRequirements(requests={"cpu": cpu}))
    pod = make_pod("a")
    return msgspec.structs.replace(
        pod, spec=msgspec.structs.replace(pod.spec, containers=(container,))
    )


def cpus(pod: Pod) -> dict[str, int]:
    resources = (pod.spec.containers or ())[0].resources
    assert resources is not None
    return {name: int(amount) for name, amount in (resources.requests or {}).items()}


@pytest.mark.parametrize(("cpu", "place"), [("8", "unschedulable"), ("1", "backoff")])
def test_the_given_requests_tell_a_scale_down(cpu: str, place: str) -> None:
    scale_down = ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_SCALE_DOWN)
    bench = Bench(hints={"Fit": [on(scale_down)]}, pod_requests=cpus)
    queued = bench.rejected(sized("4"), "Fit")
    bench.queue.update(queued.pod, sized(cpu))
    assert bench.where(queued) == place


def test_pods_without_a_uid_are_told_apart_by_name() -> None:
    bench = Bench()
    for name in "ab":
        bench.queue.add(Pod(metadata=ObjectMeta(name=name, namespace="ns")))
    first, second = bench.pop(), bench.pop()
    bench.queue.done(first.uid)
    assert bench.where(first) == "nowhere"
    assert bench.where(second) == "in_flight"
