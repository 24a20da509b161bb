"""Durations in the metrics of attempts and events: extension points, plugins, hints.

That both schedulers write the same series is tested in tests/e2e/test_metrics.py.
"""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.framework.plugin import PostFilterResult
from stowplan.framework.status import SUCCESS, Status, unschedulable, wait
from stowplan.queue.events import ActionType, ClusterEvent, EventHint, EventResource, Hint
from stowplan.scheduler.outcome import Failure
from stowplan.testing import node, pod
from tests.unit.scheduler.engine_bench import Bench
from tests.unit.scheduler.scheduler_kit import plugin


def points(bench: Bench) -> dict[tuple[str, str], int]:
    """Observations by extension point and status."""
    family = bench.engine.metrics.framework_extension_point_duration
    return {(point, status): each.count for (point, status, _), each in family.children.items()}


def timed(bench: Bench, name: str) -> dict[tuple[str, str], int]:
    """Observations of one plugin by extension point and status."""
    family = bench.engine.metrics.plugin_execution_duration
    return {
        (point, status): each.count
        for (plugin_name, point, status), each in family.children.items()
        if plugin_name == name
    }


def test_a_search_without_a_node_is_a_success_of_filter() -> None:
    bench = Bench(nodes=[node("n1", cpu="1")])
    bench.create(pod("large", cpu="64"))
    bench.failed()
    assert points(bench)["Filter", "Success"] == 1
    assert ("Filter", "Unschedulable") not in points(bench)


@pytest.mark.parametrize(
    ("method", "point"),
    [("pre_filter", "PreFilter"), ("filter", "Filter"), ("pre_score", "PreScore")],
)
def test_a_point_whose_plugin_fails_is_an_error(method: str, point: str) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no")

    bench = Bench(plugin("Broken", **{method: fail}), nodes=[node("n1"), node("n2")])
    bench.create(pod("web"))
    bench.failed()
    assert points(bench)[point, "Error"] == 1
    assert timed(bench, "Broken") == {(point, "Error"): timed(bench, "Broken")[point, "Error"]}


def test_pre_enqueue_counts_each_pod_and_is_always_a_success() -> None:
    bench = Bench(plugin("Gate", pre_enqueue=unschedulable("closed")))
    bench.create(pod("web"))
    assert points(bench) == {("PreEnqueue", "Success"): 1}
    assert timed(bench, "Gate") == {("PreEnqueue", "Unschedulable"): 1}


@pytest.mark.parametrize(
    ("answer", "label"),
    [(None, "Success"), (unschedulable("no"), "Unschedulable"), ((wait("soon"), 5.0), "Wait")],
)
def test_reserve_and_permit_are_counted_with_their_status(answer: Any, label: str) -> None:
    bench = Bench(plugin("Holds", reserve=None, unreserve=None, permit=answer), nodes=[node("n1")])
    bench.create(pod("web"))
    outcome = bench.engine.attempt()
    found = points(bench)
    assert found["Reserve", "Success"] == 1
    assert found["Permit", label] == 1
    assert timed(bench, "Holds")["Permit", label] == 1
    assert (("Unreserve", "Success") in found) == isinstance(outcome, Failure)


def test_one_decision_in_ten_times_its_plugins() -> None:
    bench = Bench(plugin("Any", pre_filter=None), nodes=[node("n1", pods=100)])
    for number in range(21):
        bench.create(pod(f"p{number}"))
        bench.placed()
    assert timed(bench, "Any") == {("PreFilter", "Success"): 3}


@pytest.mark.parametrize(
    ("hint", "label"), [(Hint.QUEUE, "Queue"), (Hint.SKIP, "QueueSkip"), (None, "Error")]
)
def test_hints_are_counted_by_what_they_say(hint: Hint | None, label: str) -> None:
    def on_node(*_: object) -> Hint:
        bench.clock.advance(0.25)
        if hint is None:
            raise RuntimeError("no")
        return hint

    added = EventHint(ClusterEvent(EventResource.NODE, ActionType.ADD), on_node)
    bench = Bench(
        plugin("Waits", filter=unschedulable("not yet"), events=[added]), nodes=[node("n1")]
    )
    bench.create(pod("web"))
    bench.failed()
    bench.handlers.add_node(node("n2"))
    children = bench.engine.metrics.queueing_hint_execution_duration.children
    assert {labels: (each.count, each.sum) for labels, each in children.items()} == {
        ("Waits", "NodeAdd", label): (1, 0.25)
    }
    handled = bench.engine.metrics.event_handling_duration.at("NodeAdd")
    assert (handled.count, handled.sum) == (2, 0.25)


def test_events_of_pods_and_nodes_are_counted_under_upstreams_labels() -> None:
    bench = Bench(nodes=[node("n1")])
    web = bench.create(pod("web"))
    bench.update(web, labels={"a": "b"})
    placement = bench.placed()
    bench.engine.permitted(placement)
    bench.engine.bound(placement)
    bound = bench.update(web, node_name="n1")
    bench.update(bound, labels={"a": "c"})
    bench.delete(bound)
    bench.delete(bench.create(pod("gone")))
    bench.handlers.update_node(node("n1", unschedulable=True), node("n1"))
    bench.handlers.delete_node(node("n1"))
    children = bench.engine.metrics.event_handling_duration.children
    assert {event: each.count for (event,), each in children.items()} == {
        "NodeAdd": 1,
        "UnschedulablePodAdd": 2,
        "UnschedulablePodUpdate": 1,
        "UnschedulablePodUpdatePodLabel": 1,
        "UnschedulablePodDelete": 2,
        "AssignedPodAdd": 1,
        "AssignedPodUpdate": 1,
        "AssignedPodUpdatePodLabel": 1,
        "AssignedPodDelete": 1,
        "NodeUpdateNodeTaint": 1,
        "NodeDelete": 1,
    }


@pytest.mark.parametrize("event", ["none", "node"])
def test_pods_that_were_retried_without_an_event_are_counted_when_scheduled(event: str) -> None:
    answers: list[Status] = [unschedulable("not yet"), SUCCESS]
    bench = Bench(plugin("Once", pre_filter=lambda *_: answers.pop(0)), nodes=[node("n1")])
    bench.create(pod("web"))
    bench.failed()
    if event == "none":
        bench.clock.advance(301)
        bench.queue.flush_unschedulable()
    else:
        bench.handlers.add_node(node("n2"))
    placement = bench.placed()
    bench.engine.permitted(placement)
    bench.engine.bound(placement)
    flushed = bench.engine.metrics.pod_scheduled_after_flush.at().value
    assert flushed == (1 if event == "none" else 0)


def test_post_filter_is_timed_with_its_status() -> None:
    answer = PostFilterResult(unschedulable("no victims"))
    bench = Bench(plugin("Room", post_filter=answer), nodes=[node("n1", cpu="1")])
    bench.create(pod("large", cpu="64"))
    bench.failed()
    assert timed(bench, "Room") == {("PostFilter", "Unschedulable"): 1}
    assert points(bench)["PostFilter", "Unschedulable"] == 1
