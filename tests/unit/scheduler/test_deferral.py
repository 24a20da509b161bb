"""Decisions that spend too much are interrupted and go on after other pods."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from stowplan.api.objects import Pod
from stowplan.cluster.table import NodeTable
from stowplan.cluster.work import DECISION_WORK
from stowplan.framework.cycle import Cycle
from stowplan.framework.plugin import Plugin
from stowplan.framework.status import unschedulable
from stowplan.scheduler.eviction import Evictor
from stowplan.scheduler.extender_requests import FilterAnswer, FilterRequest
from stowplan.scheduler.loop import SchedulingLoop
from stowplan.scheduler.outcome import Deferral, Failure, Placement
from stowplan.testing import MemoryCluster, node, pod
from tests.unit.scheduler.engine_bench import Bench
from tests.unit.scheduler.live_bench import live
from tests.unit.scheduler.scheduler_kit import SCHEDULER
from tests.unit.scheduler.test_cycle_extenders import filtering

LIMIT = 1_000


class Pieces(Plugin):
    """Builds as many pieces as the pod's label says, each half of what a decision may spend."""

    name = "Pieces"
    #: Points at which pieces are built.
    where = "pre_filter"

    def __init__(self, args: Any = None, handle: Any = None) -> None:
        super().__init__(args, handle)
        self.kept: set[tuple[str, int]] = set()
        self.built = 0

    def build(self, cycle: Cycle) -> None:
        pod = cycle.pod
        for number in range(int((pod.metadata.labels or {}).get("pieces", "0"))):
            if (pod.uid, number) not in self.kept:
                self.built += 1
                self.kept.add((pod.uid, number))
                cycle.spend(LIMIT // 2)

    def pre_filter(self, cycle: Cycle) -> None:
        if self.where == "pre_filter":
            self.build(cycle)

    def filter(self, pod: Pod, node: Any, cycle: Cycle) -> bool:
        if self.where == "filter":
            self.build(cycle)
        return True

    def pre_score(self, cycle: Cycle, rows: Any) -> None:
        if self.where == "pre_score":
            self.build(cycle)

    def score(self, pod: Pod, node: Any, cycle: Cycle) -> int:
        if self.where == "score":
            self.build(cycle)
        return 0

    def normalize(self, cycle: Cycle, scores: Any) -> Any:
        if self.where == "normalize":
            self.build(cycle)
        return scores


class Endless(Plugin):
    """Nothing that it does stays."""

    name = "Endless"

    def pre_filter(self, cycle: Cycle) -> None:
        if "endless" in (cycle.pod.metadata.labels or {}):
            while True:
                cycle.spend(LIMIT)


def bench(*plugins: Plugin, count: int = 3) -> Bench:
    it = Bench(*plugins, nodes=[node(f"n{number}") for number in range(count)])
    it.engine.decision_work = LIMIT
    return it


def big(name: str = "big", *, pieces: int = 10, **options: Any) -> Pod:
    return pod(name, labels={"pieces": str(pieces)}, **options)


def outcomes(it: Bench) -> Iterator[tuple[str, type]]:
    while (outcome := it.engine.advance()) is not None:
        yield outcome.pod.metadata.name, type(outcome)


@pytest.mark.parametrize("where", ["pre_filter", "filter", "pre_score", "score", "normalize"])
def test_a_deferred_decision_goes_on_where_it_was(where: str) -> None:
    """At every point, so no handler of broken plugins on the way takes it for an error."""
    plugin = Pieces()
    plugin.where = where
    it = bench(plugin)
    it.create(big(pieces=10))
    seen = [kind for _, kind in outcomes(it)]
    assert seen[-1] is Placement
    assert set(seen[:-1]) == {Deferral}
    assert plugin.built == 10, "no piece is built twice"
    assert len(seen) == 4, "three pieces at a time"


def test_a_deferred_post_filter_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    class Room(Pieces):
        def filter(self, pod: Pod, node: Any, cycle: Cycle) -> Any:
            return unschedulable("no")

        def post_filter(self, cycle: Cycle, diagnosis: Any) -> Any:
            self.build(cycle)
            return unschedulable("no room")

    plugin = Room()
    plugin.where = "post_filter"
    it = bench(plugin)
    it.create(big(pieces=4))
    assert isinstance(it.engine.advance(), Deferral)
    outcome = it.engine.advance()
    assert isinstance(outcome, Failure)
    assert "no room" in outcome.message


def test_plain_pods_are_decided_in_between_whatever_the_priority() -> None:
    it = bench(Pieces())
    it.create(big(priority=1000))
    for number in range(3):
        it.create(pod(f"plain{number}"))
    seen = []
    for step, (name, kind) in enumerate(outcomes(it)):
        seen.append((name, kind))
        if kind is Deferral and step:
            it.create(pod(f"late{step}"))
    assert seen == [
        ("big", Deferral),
        *((f"plain{number}", Placement) for number in range(3)),
        ("big", Deferral),
        ("late4", Placement),
        ("big", Deferral),
        ("late6", Placement),
        ("big", Placement),
    ]


def test_it_is_one_attempt_for_metrics_events_and_the_pod() -> None:
    it = bench(Pieces())
    web = it.create(big())
    first = it.engine.advance()
    assert isinstance(first, Deferral)
    assert it.where(web) == "active"
    it.clock.advance(5)
    placement = it.placed()
    it.engine.bound(placement)
    assert it.attempts("scheduled") == 1
    assert it.attempts("error") + it.attempts("unschedulable") == 0
    metrics = it.engine.metrics
    assert metrics.pod_scheduling_attempts.at().counts[0] == 1, "by its first attempt"
    assert metrics.scheduling_attempt_duration.at("scheduled", SCHEDULER).sum == 5
    assert metrics.scheduling_algorithm_duration.at().count == 1


def test_one_that_is_deleted_meanwhile_is_not_tried_again() -> None:
    plugin = Pieces()
    it = bench(plugin)
    web = it.create(big())
    assert isinstance(it.engine.advance(), Deferral)
    built = plugin.built
    it.delete(web)
    assert it.engine.advance() is None
    assert plugin.built == built


def test_the_next_try_sees_the_pod_and_the_cluster_as_they_are_then() -> None:
    it = bench(Pieces(), count=1)
    web = it.create(big(cpu="2"))
    assert isinstance(it.engine.advance(), Deferral)
    it.handlers.update_node(node("n0"), node("n0", unschedulable=True))
    it.handlers.add_node(node("late"))
    newest = it.update(web, labels={"pieces": "9"})
    placement = it.placed()
    assert placement.node == "late"
    assert placement.queued.pod is newest


def test_a_nomination_survives() -> None:
    it = bench(Pieces())
    web = it.create(big(nominated_node="n1"))
    assert isinstance(it.engine.advance(), Deferral)
    assert it.queue.nominator.node_of(web) == "n1"
    assert it.placed().node == "n1"


def test_work_that_never_ends_fails_the_attempt_and_starves_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    it = bench(Endless(), count=5)
    web = it.create(pod("web", labels={"endless": ""}))
    deferrals = 0
    while isinstance(outcome := it.engine.advance(), Deferral):
        deferrals += 1
        it.create(pod(f"plain{deferrals}", cpu=0))
        assert isinstance(it.engine.advance(), Placement)
        assert it.cache.table.work.spent <= 5 * LIMIT * deferrals
    assert isinstance(outcome, Failure)
    assert "given up" in outcome.message
    assert outcome.reason == "SchedulerError"
    assert deferrals == 400
    assert it.where(web) == "error_backoff", "it is tried again, from nothing"
    it.clock.advance(2)
    it.queue.flush_backoff()
    assert isinstance(it.engine.advance(), Deferral)


def test_a_share_that_is_recomputed_each_time_does_not_stop_it() -> None:
    """What a decision cannot cache may eat up its limit: the limit grows."""

    class Waste(Pieces):
        def pre_filter(self, cycle: Cycle) -> None:
            cycle.spend(LIMIT + LIMIT // 2)
            super().pre_filter(cycle)

    it = bench(Waste())
    it.create(big(pieces=2))
    seen = [kind for _, kind in outcomes(it)]
    assert seen == [Deferral] * (len(seen) - 1) + [Placement]
    assert len(seen) < 110


def test_there_is_no_limit_outside_decisions() -> None:
    table = NodeTable()
    for _ in range(10):
        table.work.spend(10**12)
    it = bench(Pieces())
    it.create(big(pieces=2))
    assert isinstance(it.engine.advance(), Placement)
    it.cache.table.work.spend(10**12)
    it.create(big("next"))
    assert isinstance(it.engine.advance(), Deferral)
    it.cache.table.work.spend(10**12)


def test_who_only_wants_decisions_sees_no_deferral() -> None:
    it = bench(Pieces())
    it.create(big())
    assert isinstance(it.engine.attempt(), Placement)


def test_expensive_pods_are_named_by_log_and_metrics(caplog: pytest.LogCaptureFixture) -> None:
    it = bench(Pieces())
    for number in range(20):
        it.create(big(f"big{number}", cpu=0))
    with caplog.at_level(logging.INFO):
        assert [kind for _, kind in outcomes(it)].count(Placement) == 20
    deferred = [record for record in caplog.records if record.msg.startswith("Deferred")]
    assert [record.__dict__["kv"]["pod"] for record in deferred] == ["default/big0"]
    metrics = it.engine.metrics
    assert metrics.decisions_deferred.at(SCHEDULER).value == 60
    shown = metrics.expensive_pod_work.read()
    assert len(shown) == 16, "however many there are"
    assert shown["default", "big19"] == 10 * LIMIT // 2


@pytest.mark.parametrize(("where", "pieces"), [("pre_filter", 3), ("score", 10)])
def test_an_extender_is_asked_once(where: str, pieces: int) -> None:
    """What comes after its answer runs to the end, however expensive it is."""
    plugin = Pieces()
    plugin.where = where
    it = bench(plugin)
    it.engine.extenders = (filtering(),)  # type: ignore[assignment]  # all that a cycle reads
    it.create(big(pieces=pieces))
    asked = deferred = 0
    outcome: Placement | Failure | Deferral | None = None
    while not isinstance(outcome, Placement):
        steps = it.engine.attempt_steps()
        try:
            request = next(steps)
            asked += 1
            assert isinstance(request, FilterRequest)
            steps.send(FilterAnswer(list(request.nodes)))
        except StopIteration as finished:
            outcome = finished.value
            deferred += isinstance(outcome, Deferral)
    assert (asked, deferred) == (1, where == "pre_filter")
    assert plugin.built == pieces


# On the loop


def test_the_loop_decides_plain_pods_and_does_io_in_between() -> None:
    """The watch delivers pods, and their bindings are sent, while an expensive one is decided."""

    class Arrivals(Pieces):
        """Creates a plain pod at the API server in every attempt that builds something."""

        def build(self, cycle: Cycle) -> None:
            before = self.built
            try:
                super().build(cycle)
            finally:
                if self.built > before:
                    created.append(f"plain{self.built}")
                    cluster.add_pod(created[-1], cpu="10m")

    created: list[str] = []
    with MemoryCluster(Arrivals) as cluster:
        cluster.engine.decision_work = LIMIT
        cluster.add_node("n1", cpu="64")
        cluster.add_pod(big(pieces=100))
        order = [outcome.pod.metadata.name for outcome in cluster.attempts]
        assert len(created) > 20
        assert order == [*created[:-1], "big", created[-1]], "the last came with the decision"
        assert set(cluster.placements.values()) == {"n1"}


async def test_one_pass_over_the_queue_finishes_deferred_attempts() -> None:
    async with live(Pieces()) as it:
        evictor = Evictor(it.engine, it.client, it.recorder, it.store.get)
        scheduling = SchedulingLoop(it.engine, it.binder, it.reporter, evictor)
        assert it.engine.decision_work == DECISION_WORK
        it.engine.decision_work = LIMIT
        posted = [it.post(big(cpu="1m")), it.post(pod("plain", cpu="1m"))]
        assert await scheduling.run_once(30)
        assert [await it.node_of(each) for each in posted] == ["n1", "n1"]
