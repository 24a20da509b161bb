"""What claims cost: a crafted claim must not stall other pods, and a search stops when it may."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from stowplan.api.device_objects import ResourceClaim
from stowplan.api.objects import Pod
from stowplan.api.resources import RESOURCE_CLAIMS
from stowplan.cluster.journal import Rows
from stowplan.cluster.pod_info import compile_pod
from stowplan.cluster.table import Int32Array
from stowplan.cluster.views import Overlay
from stowplan.cluster.work import DECISION_WORK, DecisionDeferred
from stowplan.config.defaults import default_config
from stowplan.config.durations import Duration
from stowplan.config.plugin_args import DynamicResourcesArgs
from stowplan.framework.cycle import Cycle
from stowplan.lab.bench.devices import pod_with_claim
from stowplan.plugins.dra.facts import DeviceFacts
from stowplan.plugins.dra.hints import DeviceHints
from stowplan.plugins.dra.requests import Request
from stowplan.plugins.registry import in_tree_registry
from stowplan.queue.events import ActionType, EventResource, Hint
from stowplan.scheduler.assembly import build_engine
from stowplan.scheduler.cycle import decide
from stowplan.scheduler.decision import Decision
from stowplan.scheduler.event_handlers import EventHandlers
from stowplan.testing import node
from tests.unit.plugins.dra.device_kit import Scene, claim, device_class, gpus, request, using
from tests.unit.plugins.plugin_kit import hint, made
from tests.unit.scheduler.scheduler_kit import profile_of

#: Another kind of request than one without selectors, so that counting devices is not enough.
ANY = "true"


def hostile(*, devices: int, nodes: int = 1, **more: Any) -> Scene:
    """A claim for which every half of the devices is tried, in vain."""
    names = [f"n{number}" for number in range(nodes)]
    slices = [gpus(name, *(f"gpu-{each:02}" for each in range(devices))) for name in names]
    half = devices // 2
    wanted = claim("gpu", request("half", count=half), request("more", ANY, count=half + 1))
    return Scene(map(node, names), device_class(), *slices, wanted, **more)


def decided(scene: Scene, *, work: int = DECISION_WORK) -> tuple[Decision, int]:
    """The decision and how many turns it took, each of about so much work."""
    profile = profile_of(scene.plugin, made("DefaultBinder"))
    budget = scene.cache.table.work
    turns = 0
    while True:
        turns += 1
        before = budget.spent
        budget.limit(work)
        try:
            decision = decide(scene.cache.table, compile_pod(using("gpu")), profile)
        except DecisionDeferred:
            assert budget.spent - before < 2 * work + 1_000_000, "one turn took too long"
            continue
        finally:
            budget.unlimit()
        return decision, turns


def test_a_hostile_claim_is_searched_in_turns() -> None:
    at_once = hostile(devices=12)
    decision, turns = decided(at_once, work=10**12)
    total = at_once.cache.table.work.spent
    assert (decision.node, turns) == (None, 1)
    in_turns = hostile(devices=12)
    again, turns = decided(in_turns, work=total // 20)
    assert again.message == decision.message
    assert 10 < turns < 40
    assert in_turns.cache.table.work.spent < 1.5 * total, "each turn goes on where the last stopped"
    assert not in_turns.plugin._paused


def test_the_answers_of_earlier_nodes_are_kept() -> None:
    scene = hostile(devices=8, nodes=10)
    _, turns = decided(scene, work=10**12)
    total = scene.cache.table.work.spent
    again = hostile(devices=8, nodes=10)
    _, turns = decided(again, work=total // 5)
    assert turns > 4
    assert again.cache.table.work.spent < 1.5 * total


def test_a_change_of_the_facts_starts_over() -> None:
    scene = hostile(devices=12)
    budget = scene.cache.table.work
    budget.limit(1_000_000)
    with pytest.raises(DecisionDeferred):
        scene.filter(using("gpu"))
    budget.unlimit()
    assert scene.plugin._paused
    scene.put(gpus("n0", "gpu-0", name="n0-gpus"))
    assert scene.filter(using("gpu")) == {"n0": "cannot allocate all claims"}


def test_a_search_that_takes_too_long_ends_with_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = hostile(devices=12, args=DynamicResourcesArgs(filter_timeout=Duration(10)))
    clock = scene.clock
    tick = clock.monotonic

    def slow() -> float:
        clock.advance(0.5)
        return tick()

    monkeypatch.setattr(clock, "monotonic", slow)
    profile = profile_of(scene.plugin, made("DefaultBinder"))
    decision = decide(scene.cache.table, compile_pod(using("gpu")), profile)
    assert decision.status.message == (
        'running "DynamicResources" filter plugin: node n0: timed out trying to allocate devices'
    )


def test_no_more_nodes_are_searched_than_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"n{number:03}" for number in range(400)]
    slices = [gpus(name, "gpu-0") for name in names]
    scene = Scene(map(node, names), device_class(), *slices, claim())
    asked: list[int] = []
    plain = scene.plugin.filter_columns

    def counting(cycle: Cycle, rows: Rows, out: Int32Array, overlay: Overlay | None) -> None:
        asked.append(len(rows))
        plain(cycle, rows, out, overlay)

    monkeypatch.setattr(scene.plugin, "filter_columns", counting)
    profile = profile_of(scene.plugin, made("DefaultBinder"))
    profile.percentage_of_nodes_to_score = 25
    decision = decide(scene.cache.table, compile_pod(using("gpu")), profile)
    assert decision.node is not None
    assert (decision.feasible_nodes, decision.evaluated_nodes) == (100, 100)
    assert sum(asked) == 101


def test_classes_with_the_same_selectors_share_what_is_known_of_devices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    evaluated: list[str] = []
    selects = Request.selects

    def counted(self: Request, *arguments: Any) -> tuple[bool, int]:
        evaluated.append(self.details.device_class_name)
        return selects(self, *arguments)

    monkeypatch.setattr(Request, "selects", counted)
    names = [f"n{number}" for number in range(20)]
    slices = [gpus(name, "gpu-0", "gpu-1") for name in names]
    classes = [device_class(name, ANY) for name in ("gpu", "twin")]
    claims = [claim(name, request("r", deviceClassName=name)) for name in ("gpu", "twin", "other")]
    none = device_class("other", 'device.driver == "nobody.example.com"')
    scene = Scene(map(node, names), *classes, none, *slices, *claims)
    profile = profile_of(scene.plugin, made("DefaultBinder"))
    table = scene.cache.table

    def fits(name: str) -> bool:
        evaluated.clear()
        return decide(table, compile_pod(using(name)), profile).node is not None

    assert fits("gpu")
    assert len(evaluated) == 40
    assert fits("twin")
    assert evaluated == []
    assert not fits("other"), "a class with other selectors"
    assert len(evaluated) == 40


def test_a_claim_of_another_pod_costs_a_waiting_pod_no_lookup(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene([node("a")], claim(), claim("other"))
    looked_up: list[str] = []
    find = DeviceFacts.claim

    def counted(self: DeviceFacts, name: str, namespace: str) -> ResourceClaim | None:
        looked_up.append(name)
        return find(self, name, namespace)

    monkeypatch.setattr(DeviceFacts, "claim", counted)
    resource, added = EventResource.RESOURCE_CLAIM, ActionType.ADD
    assert hint(scene.plugin, resource, added, using("gpu"), None, claim("other")) is Hint.SKIP
    assert looked_up == []
    assert hint(scene.plugin, resource, added, using("gpu"), None, claim()) is Hint.QUEUE
    assert looked_up == ["gpu"]


def test_claims_that_come_after_their_pods_are_judged_once_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At a start pods are often listed before claims: pods times claims would be seconds."""
    judged: list[str] = []
    after_claim = DeviceHints.after_claim

    def counted(self: DeviceHints, pod: Pod, old: object | None, new: object | None) -> Hint:
        judged.append(pod.metadata.name)
        return after_claim(self, pod, old, new)

    monkeypatch.setattr(DeviceHints, "after_claim", counted)
    engine = build_engine(default_config(), registry=in_tree_registry(), rng=Random(1))
    handlers = EventHandlers(engine)
    made = [pod_with_claim("one GPU", number) for number in range(40)]
    for _, pod in made:
        handlers.add_pod(pod)
    assert engine.queue.counts.gated == 40
    for claim_of_pod, _ in made:
        handlers.set_object(RESOURCE_CLAIMS, claim_of_pod)
    assert judged == [pod.metadata.name for _, pod in made]
    assert engine.queue.counts.active == 40
