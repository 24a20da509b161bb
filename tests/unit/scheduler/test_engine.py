"""Attempts and their ends: placed, refused, broken, skipped, dropped."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.api.objects import Pod
from stowplan.clock import VirtualClock
from stowplan.cluster.cache import ClusterCache
from stowplan.errors import ConfigError
from stowplan.framework.plugin import PostFilterResult
from stowplan.framework.status import SUCCESS, error, unschedulable, wait
from stowplan.scheduler.decision import Decision
from stowplan.scheduler.engine import Engine
from stowplan.scheduler.outcome import Failure
from stowplan.testing import node, pod
from tests.unit.scheduler.engine_bench import Bench, changed
from tests.unit.scheduler.scheduler_kit import plugin, raises, without_place


def full(**methods: Any) -> Bench:
    """A cluster without room, and perhaps a plugin."""
    extra = [plugin("Extra", **methods)] if methods else []
    return Bench(*extra, nodes=[node("n1", cpu=0)])


# Outcomes


def test_nothing_to_do() -> None:
    assert Bench().engine.attempt() is None


def test_a_pod_that_fits_occupies_its_node_at_once() -> None:
    it = Bench(nodes=[node("n1", cpu="1")])
    web = it.create(pod("web", cpu="600m"))
    it.create(pod("next", cpu="600m"))
    placement = it.placed()
    assert (placement.node, placement.pod.spec.node_name) == ("n1", "n1")
    assert placement.pod.uid == web.uid
    assert web.spec.node_name == "", "the pod of the API server is not touched"
    assert it.cache.is_assumed(web.uid)
    assert it.where(web) == "in_flight"
    assert it.failed().message == "0/1 nodes are available: 1 Insufficient cpu."


def test_a_bound_pod_is_counted_and_done() -> None:
    it = Bench(nodes=[node()])
    web = it.create(pod("web"))
    placement = it.placed()
    it.clock.advance(0.5)
    it.engine.permitted(placement)
    assert it.where(web) == "nowhere"
    it.engine.bound(placement)
    metrics = it.engine.metrics
    assert it.attempts("scheduled") == 1
    assert metrics.pod_scheduling_attempts.at().count == 1
    assert metrics.pod_scheduling_sli_duration.at("1").sum == 0.5
    assert it.cache.is_assumed(web.uid), "until the API server confirms it"


def test_a_refused_pod_waits_with_the_plugins_that_refused_it() -> None:
    it = full()
    web = it.create(pod("web"))
    failure = it.failed()
    assert (failure.reason, failure.is_pending) == ("Unschedulable", True)
    assert failure.message == "0/1 nodes are available: 1 Insufficient cpu."
    assert failure.decision is not None
    assert it.where(web) == "unschedulable"
    queued = it.queue.get(web)
    assert queued is not None
    assert queued.unschedulable_plugins == {"NodeResourcesFit"}
    assert (it.attempts("unschedulable"), it.attempts("error")) == (1, 0)


def test_without_nodes_only_time_helps() -> None:
    it = Bench()
    web = it.create(pod("web"))
    failure = it.failed()
    assert (failure.message, failure.reason) == (
        "no nodes available to schedule pods",
        "Unschedulable",
    )
    assert it.where(web) == "error_backoff"


def test_a_broken_plugin_costs_one_attempt() -> None:
    it = Bench(plugin("Bad", filter=raises), nodes=[node()])
    web = it.create(pod("web"))
    failure = it.failed()
    assert failure.reason == "SchedulerError"
    told = 'running "Bad" filter plugin: ValueError: broken on purpose'
    assert without_place(failure.message) == told
    assert it.where(web) == "error_backoff"
    assert it.attempts("error") == 1


def test_a_pod_that_cannot_be_read_costs_one_attempt() -> None:
    it = Bench(nodes=[node()])
    odd = it.create(pod("odd", cpu="many"))
    it.create(pod("even"))
    failure = it.failed()
    assert failure.reason == "SchedulerError"
    assert "many" in failure.message
    assert it.where(odd) == "error_backoff"
    assert it.placed().pod.metadata.name == "even"


def test_a_defect_of_ours_costs_one_attempt_and_no_room() -> None:
    it = Bench(plugin("Hold", permit=wait()), nodes=[node()])
    it.engine.handles.clear()
    web = it.create(pod("web"))
    failure = it.failed()
    assert failure.reason == "SchedulerError"
    assert without_place(failure.message) == "KeyError: 'default-scheduler'"
    assert it.cache.pod_count == 0
    assert it.where(web) == "error_backoff"


def test_profiles_are_needed() -> None:
    with pytest.raises(ConfigError, match="at least one profile is needed"):
        Engine({}, cache=ClusterCache(), clock=VirtualClock(), handles={})


def test_only_pods_of_our_profiles_are_served() -> None:
    it = Bench()
    assert it.engine.serves(pod())
    assert not it.engine.serves(pod(scheduler_name="other"))


def test_the_cursor_goes_on_from_pod_to_pod() -> None:
    it = Bench(nodes=[node(f"n{i}") for i in range(300)])
    it.engine.profiles["default-scheduler"].percentage_of_nodes_to_score = 40
    decisions: list[Decision] = []
    for _ in range(3):
        it.create(pod())
        decisions.append(it.placed().decision)
    assert [decision.node for decision in decisions] == ["n0", "n120", "n240"]
    assert it.engine.cursor == 60


# Skipping


def test_a_pod_that_is_going_away_is_not_tried() -> None:
    it = Bench(nodes=[node()])
    web = it.create(pod("web", terminating=True))
    failure = it.failed()
    assert failure.message == "skip schedule deleting pod: default/web"
    assert not failure.is_pending
    assert failure.nominated_node is None
    assert it.where(web) == "nowhere"
    assert it.attempts("error") == it.attempts("unschedulable") == 0


def test_a_pod_that_is_assumed_is_not_tried_again() -> None:
    it = Bench(nodes=[node()])
    web = it.create(pod("web"))
    placement = it.placed()
    it.engine.permitted(placement)
    it.queue.add(web)
    failure = it.failed()
    assert (failure.message, failure.is_pending) == ("", False)
    assert it.where(web) == "nowhere"
    assert it.cache.node_of(web.uid) is not None


# What the API server says meanwhile


@pytest.mark.parametrize("fate", ["gone", "bound", "replaced"])
@pytest.mark.parametrize("when", ["deciding", "binding"])
def test_a_pod_that_needs_no_scheduling_any_more_is_dropped(fate: str, when: str) -> None:
    """The lookup knows before the handlers are told: a watch event is on its way."""
    web = pod("web")

    def change(*_: Any) -> None:
        if fate == "gone":
            del it.store[web.key]
        elif fate == "bound":
            it.store[web.key] = changed(web, node_name="elsewhere")
        else:
            it.store[web.key] = pod("web")

    if when == "deciding":
        it = full(pre_filter=change)
        it.create(web)
        failure = it.failed()
    else:
        it = Bench(nodes=[node()])
        it.create(web)
        placement = it.placed()
        it.engine.permitted(placement)
        change()
        failure = it.engine.bind_failed(placement, error("conflict"))
    assert not failure.is_pending
    assert it.where(web) == "nowhere"
    assert it.cache.pod_count == 0
    assert len(it.queue.nominator) == 0


def test_a_failed_pod_is_queued_as_the_api_server_has_it() -> None:
    """Changes of an assumed pod are not told to the queue; they are found when it comes back."""
    it = Bench(nodes=[node()])
    web = it.create(pod("web"))
    placement = it.placed()
    it.engine.permitted(placement)
    it.update(web, labels={"version": "2"})
    failure = it.engine.bind_failed(placement, error("no answer"))
    assert failure.pod.metadata.labels == {"version": "2"}
    queued = it.queue.get(web)
    assert queued is not None
    assert queued.pod is it.store[web.key]


def test_a_held_pod_is_queued_as_the_api_server_has_it() -> None:
    """The same while it is still in flight: its attempt has an older version."""
    it = Bench(plugin("Hold", permit=wait()), nodes=[node()])
    web = it.create(pod("web"))
    placement = it.placed()
    it.update(web, labels={"version": "2"})
    it.engine.bind_failed(placement, unschedulable("no").by("Hold"))
    queued = it.queue.get(web)
    assert queued is not None
    assert queued.pod is it.store[web.key]


def test_without_a_lookup_the_queue_decides() -> None:
    it = full()
    it.engine.lookup = None
    web = it.create(pod("web"))
    assert it.failed().is_pending
    assert it.where(web) == "unschedulable"


# Failed binds


def test_a_failed_bind_frees_the_node_and_wakes_others() -> None:
    log: list[str] = []
    undo = plugin("Undo", unreserve=lambda cycle, pod, node: log.append(f"{pod.key} {node}"))
    it = Bench(undo, nodes=[node("n1", pods=1)])
    web = it.create(pod("web"))
    placement = it.placed()
    other = it.create(pod("other"))
    it.failed()
    it.engine.permitted(placement)
    it.clock.advance(5)
    failure = it.engine.bind_failed(placement, error("no answer"))
    assert (failure.reason, failure.message) == ("SchedulerError", "no answer")
    assert log == ["default/web n1"]
    assert it.cache.pod_count == 0
    assert it.where(web) == "error_backoff"
    assert it.where(other) == "active", "its backoff is over and there is room"
    assert it.attempts("error") == 1


def test_a_pod_that_is_confirmed_meanwhile_stays_where_it_is() -> None:
    """The bind's answer was lost and the watch has already shown its effect."""
    it = Bench(nodes=[node("n1")])
    web = it.create(pod("web"))
    placement = it.placed()
    it.engine.permitted(placement)
    it.update(web, node_name="n1")
    failure = it.engine.bind_failed(placement, error("no answer"))
    assert not failure.is_pending
    assert it.cache.node_of(web.uid) == "n1"
    assert it.where(web) == "nowhere"


# Nominations


def nominated_to(it: Bench, web: Pod) -> str | None:
    return it.queue.nominator.node_of(web)


def test_post_filter_nominates() -> None:
    it = full(post_filter=PostFilterResult(SUCCESS, "n1"))
    web = it.create(pod("web"))
    failure = it.failed()
    assert failure.nominated_node == "n1"
    assert nominated_to(it, web) == "n1"


@pytest.mark.parametrize(
    ("answer", "in_status", "expected"),
    [
        (PostFilterResult(unschedulable("x"), ""), "n1", None),
        (PostFilterResult(unschedulable("x"), None), "n1", "n1"),
        (PostFilterResult(unschedulable("x"), None), "", None),
    ],
)
def test_a_nomination_is_kept_or_ended(
    answer: PostFilterResult, in_status: str, expected: str | None
) -> None:
    it = full(post_filter=answer)
    web = it.create(pod("web", nominated_node=in_status))
    it.queue.nominator.add(web, "n1")
    assert it.failed().nominated_node == answer.nominated_node
    assert nominated_to(it, web) == expected


@pytest.mark.parametrize("how", ["error", "no nodes", "no post filter", "permit", "bind"])
def test_other_failures_end_a_nomination(how: str) -> None:
    extra = {
        "error": [plugin("Bad", filter=raises)],
        "permit": [plugin("No", permit=unschedulable("no"))],
    }.get(how, [])
    nodes = {"no nodes": [], "no post filter": [node("n1", cpu=0)]}.get(how, [node("n1")])
    it = Bench(*extra, nodes=nodes)
    web = it.create(pod("web", nominated_node="n1"))
    assert nominated_to(it, web) == "n1"
    outcome = it.engine.attempt()
    if how == "bind":
        assert outcome is not None
        assert not isinstance(outcome, Failure)
        assert nominated_to(it, web) is None, "an assumed pod needs no promise"
        outcome = it.engine.bind_failed(outcome, error("no answer"))
    assert isinstance(outcome, Failure)
    assert outcome.nominated_node == ""
    assert nominated_to(it, web) is None


@pytest.mark.parametrize(("priority", "fits"), [(9, False), (10, False), (11, True)])
def test_a_promise_to_one_pod_is_kept_by_those_below_it(priority: int, fits: bool) -> None:
    it = full(post_filter=PostFilterResult(SUCCESS, "n1"))
    it.create(pod("first", cpu="2", priority=10))
    it.failed()
    it.cache.set_node(node("n1", cpu="3"))
    it.create(pod("next", cpu="2", priority=priority))
    if fits:
        assert it.placed().node == "n1"
    else:
        assert it.failed().message == "0/1 nodes are available: 1 Insufficient cpu."


# PreEnqueue


def test_a_gate_keeps_a_pod_out_until_it_is_gone() -> None:
    it = Bench(nodes=[node()])
    web = it.create(pod("web", gates=["example.com/a"]))
    assert it.where(web) == "gated"
    assert it.engine.attempt() is None
    it.update(web, scheduling_gates=None)
    assert it.placed().pod.uid == web.uid


def test_the_plugin_that_gated_is_asked_first_next_time() -> None:
    asked: list[str] = []

    def asking(name: str) -> Any:
        def pre_enqueue(pod: Pod) -> Any:
            asked.append(name)
            return unschedulable("closed") if name == "B" else None

        return plugin(name, pre_enqueue=pre_enqueue)

    it = Bench(asking("A"), asking("B"))
    web = it.create(pod("web"))
    queued = it.queue.get(web)
    assert queued is not None
    assert (queued.gating_plugin, queued.gating_message) == ("B", "closed")
    it.queue.activate([web])
    assert asked == ["A", "B", "B"]


def test_plugins_are_counted_where_they_had_a_say() -> None:
    """Filter and Score count nodes. A plugin that skips in PreScore is not counted at Score."""
    bench = Bench(nodes=[node("n1"), node("n2")])
    bench.create(pod("asks", cpu="1"))
    bench.engine.attempt()
    bench.create(pod("best-effort", cpu=None, memory=None))
    bench.engine.attempt()

    def count(plugin: str, point: str) -> float:
        counts = bench.engine.metrics.plugin_evaluation
        return counts.at(plugin, point, bench.handle.profile).value

    assert count("TaintToleration", "Filter") == 4
    assert count("TaintToleration", "Score") == 4
    assert count("TaintToleration", "PreScore") == 2
    assert count("NodeResourcesBalancedAllocation", "Score") == 2, "it skips pods that ask nothing"
    assert count("NodeResourcesFit", "PreFilter") == 2
