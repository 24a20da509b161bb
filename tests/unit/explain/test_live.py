"""Explanations from an engine: places of the queue, recorded attempts, and limited work."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

import stowplan
from stowplan.api.objects import Pod, TopologySpreadConstraint
from stowplan.clock import VirtualClock
from stowplan.errors import Conflict, NotFound, ServerError
from stowplan.explain import live
from stowplan.explain.explanation import State
from stowplan.explain.live import LiveExplainer
from stowplan.scheduler.assembly import build_engine
from stowplan.scheduler.engine import Engine
from stowplan.scheduler.event_handlers import EventHandlers
from stowplan.scheduler.eviction import Evictor
from stowplan.scheduler.ledger import Ledger
from stowplan.scheduler.loop import SchedulingLoop
from stowplan.scheduler.outcome import Failure, Placement
from stowplan.scheduler.stillness import Stillness
from stowplan.server.library import profile_of
from stowplan.testing import node, pod
from tests.unit.scheduler.live_bench import live as live_bench

SPREAD = {
    "maxSkew": 1,
    "topologyKey": "zone",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "web"}},
}


class Hold(stowplan.Plugin):
    """Holds every pod that is labelled."""

    name = "Hold"

    def permit(
        self, cycle: stowplan.Cycle, pod: Pod, node: str
    ) -> tuple[stowplan.Status, float] | None:
        if "hold" in (pod.metadata.labels or {}):
            return stowplan.Status(stowplan.Code.WAIT), 60.0
        return None


class Stage:
    def __init__(self, *, has_ledger: bool = True) -> None:
        config, registry = profile_of([Hold], scheduler_name="default-scheduler")
        self.clock = VirtualClock()
        self.engine: Engine = build_engine(config, registry=registry, clock=self.clock)
        self.engine.ledger = Ledger(self.clock) if has_ledger else None
        self.handlers = EventHandlers(self.engine)
        for number in range(2):
            self.handlers.add_node(node(f"worker-{number}", cpu=4))
        self.pods: dict[str, Pod] = {}
        self.explainer = LiveExplainer(self.engine, self.pods.get)

    def attempt(self, made: Pod) -> Placement | Failure:
        self.add(made)
        outcome = self.engine.attempt()
        assert outcome is not None
        return outcome

    def add(self, made: Pod) -> None:
        self.pods[made.key] = made
        self.handlers.add_pod(made)


def test_a_pod_is_followed_from_the_queue_to_its_node() -> None:
    stage = Stage()
    stage.add(pod("web", cpu=1))
    said = stage.explainer.explain("default/web")
    assert said.waiting is not None
    assert (said.waiting.place, said.waiting.attempts, said.feasible_nodes) == ("active", 0, 2)
    outcome = stage.engine.attempt()
    assert isinstance(outcome, Placement)
    said = stage.explainer.explain("default/web")
    assert said.summary.startswith(f"default/web is being bound to {outcome.node}. Attempt 1 chose")
    assert said.waiting is not None
    assert said.waiting.place == "binding"
    stage.engine.bound(outcome)
    stage.pods["default/web"] = outcome.pod
    said = stage.explainer.explain("default/web")
    assert (said.state, said.node, said.waiting) == (State.SCHEDULED, outcome.node, None)
    with pytest.raises(Conflict, match="has a node"):
        stage.explainer.compare("default/web", "worker-0")


@pytest.mark.parametrize(
    ("has_ledger", "why"),
    [
        (True, "its ledger has no attempt that chose the node"),
        (False, "it keeps no ledger (--ledger-memory=0)"),
    ],
)
def test_a_placed_pod_without_a_recorded_attempt(has_ledger: bool, why: str) -> None:
    stage = Stage(has_ledger=has_ledger)
    stage.add(pod("web", cpu=1, node="worker-1"))
    said = stage.explainer.explain("default/web")
    assert said.summary == f"default/web is on worker-1. The scheduler does not know why: {why}."


def test_a_pod_that_a_plugin_holds() -> None:
    stage = Stage()
    stage.attempt(pod("web", cpu=1, labels={"hold": ""}))
    said = stage.explainer.explain("default/web")
    assert said.waiting is not None
    assert (said.waiting.place, said.waiting.plugins) == ("permit", ("Hold",))
    assert "and waits for Hold." in said.summary
    assert stage.explainer.pending().counts["permit"] == 1


def test_seconds_until_the_next_try_pass() -> None:
    stage = Stage()
    stage.attempt(pod("big", cpu=6))
    stage.clock.advance(10)
    said = stage.explainer.explain("default/big").waiting
    assert said is not None
    assert (said.seconds, said.next_try_seconds, said.backoff_seconds) == (10.0, 290.0, 0.0)


def test_nothing_changes_by_being_asked() -> None:
    stage, other = Stage(), Stage()
    for each in (stage, other):
        each.attempt(pod("big", cpu=6))
    version = stage.engine.cache.table.version
    for _ in range(3):
        stage.explainer.explain("default/big")
        stage.explainer.compare("default/big", "worker-0")
        stage.explainer.pending()
    assert stage.engine.cache.table.version == version
    first = [each.attempt(pod(f"web-{n}", cpu=1)) for n in range(4) for each in (stage, other)]
    nodes = [each.node for each in first if isinstance(each, Placement)]
    assert nodes[::2] == nodes[1::2]


def test_preemption_is_foretold_and_nothing_is_evicted_or_counted() -> None:
    stage = Stage()
    for number in range(2):
        made = pod(f"low-{number}", cpu=3, node=f"worker-{number}")
        stage.handlers.add_pod(made)
    stage.add(pod("high", cpu=3, priority=10))
    state = [handle.rng.getstate() for handle in stage.engine.handles.values()]
    said = stage.explainer.explain("default/high").preemption
    assert said is not None
    assert (said.would_help, said.victim_count) == (True, 1)
    assert said.victims[0] in ("default/low-0", "default/low-1")
    handles = stage.engine.handles.values()
    assert [handle.rng.getstate() for handle in handles] == state
    assert [handle.preempting.attempts for handle in handles] == [0]


def test_a_question_that_is_too_expensive_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    stage.attempt(pod("big", cpu=6))
    constraint = msgspec.convert(SPREAD, TopologySpreadConstraint)
    stage.add(pod("spread", topology_spread_constraints=(constraint,)))
    monkeypatch.setattr(live, "DECISION_WORK", 0)
    with pytest.raises(ServerError, match="too expensive to explain beside scheduling") as raised:
        stage.explainer.explain("default/spread")
    assert raised.value.status == 503
    monkeypatch.undo()
    assert stage.explainer.explain("default/spread").nodes == 2


def test_without_a_ledger_the_queue_still_knows_the_plugins() -> None:
    stage = Stage(has_ledger=False)
    stage.attempt(pod("big", cpu=6))
    (group,) = stage.explainer.pending().groups
    assert (group.pods, group.plugin, group.reason) == (1, "NodeResourcesFit", "refused")
    with pytest.raises(NotFound, match="keeps no ledger"):
        stage.explainer.attempts("default/big")


async def test_a_question_waits_while_an_extender_is_asked() -> None:
    async with live_bench() as it:
        stillness = Stillness()
        evictor = Evictor(it.engine, it.client, it.recorder, it.store.get)
        loop = SchedulingLoop(it.engine, it.binder, it.reporter, evictor, stillness=stillness)
        with stillness:
            asked = asyncio.create_task(loop.between_decisions(lambda: it.engine.queue.counts))
            gone = asyncio.create_task(loop.between_decisions(lambda: 1 // 0))
            await asyncio.sleep(0)
            gone.cancel()
            await asyncio.sleep(0)
            assert not asked.done()
        assert (await asked).active == 0
        with pytest.raises(ZeroDivisionError):
            await loop.between_decisions(lambda: 1 // 0)
