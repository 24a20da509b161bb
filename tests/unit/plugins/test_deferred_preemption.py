"""A search for victims that is deferred goes on where it was, on the cluster as it is then."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from stowplan.api.objects import Pod
from stowplan.clock import VirtualClock
from stowplan.config.defaults import default_config
from stowplan.plugins.default_preemption import dry_run
from stowplan.plugins.default_preemption.dry_run import DryRun
from stowplan.plugins.registry import in_tree_registry
from stowplan.scheduler.assembly import build_engine
from stowplan.scheduler.engine import Engine
from stowplan.scheduler.event_handlers import EventHandlers
from stowplan.scheduler.outcome import Deferral, Failure
from stowplan.testing import node, pod
from tests.unit.scheduler.engine_bench import changed

NODES, PODS = 40, 5
#: Enough for about four rows.
LIMIT = 1_500_000
_APART = {
    "maxSkew": 1,
    "topologyKey": "zone",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "apart"}},
}


def foe(where: str) -> Pod:
    """A pod that keeps the important one out of its zone, and that it cannot evict."""
    return pod(f"foe-{where}", node=where, cpu=1, priority=200, labels={"app": "apart"})


class Crowd:
    """Full nodes, and an important pod whose filters must be asked row by row."""

    def __init__(self, *, limit: int | None = None) -> None:
        self.engine: Engine = build_engine(
            default_config(), registry=in_tree_registry(), clock=VirtualClock(), rng=Random(1)
        )
        self.handlers = EventHandlers(self.engine)
        if limit is not None:
            self.engine.decision_work = limit
        self.standing: list[Pod] = []
        for number in range(NODES):
            labels = {"zone": f"z{number}"}
            self.handlers.add_node(node(f"n{number}", cpu=PODS, labels=labels))
            self.standing += [
                pod(f"p{number}-{place}", node=f"n{number}", cpu=1, priority=(number + place) % 7)
                for place in range(PODS)
            ]
        # Zones may hold one pod more than others, and here is one.
        self.handlers.add_node(node("home", cpu=1, labels={"zone": "home"}))
        for each in (*self.standing, foe("home")):
            self.handlers.add_pod(each)
        self.preemptor = pod(
            "important",
            cpu=3,
            priority=100,
            labels={"app": "apart"},
            topology_spread_constraints=[_APART],
        )
        self.handlers.add_pod(self.preemptor)

    def defer(self, times: int) -> None:
        for _ in range(times):
            assert isinstance(self.engine.advance(), Deferral)

    def evicted(self) -> tuple[str, list[str]]:
        outcome = self.engine.attempt()
        assert isinstance(outcome, Failure)
        assert outcome.eviction is not None, outcome.message
        victims = sorted(victim.metadata.name for victim in outcome.eviction.victims)
        return outcome.eviction.node, victims


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows that were asked for whom they would have to lose."""
    rows: list[int] = []
    original = DryRun._try_row

    def try_row(self: DryRun, row: int) -> Any:
        rows.append(row)
        return original(self, row)

    monkeypatch.setattr(DryRun, "_try_row", try_row)
    monkeypatch.setattr(dry_run, "_PIECE_WORK", 1)
    return rows


def test_no_row_is_asked_twice_and_the_answer_is_the_same(asked: list[int]) -> None:
    expected = Crowd().evicted()
    rows = len(asked)
    assert rows >= NODES
    asked.clear()
    crowd = Crowd(limit=LIMIT)
    crowd.defer(9)
    assert crowd.evicted() == expected
    assert len(set(asked)) == rows
    assert len(asked) == rows + 1, "the chosen row is asked once more"
    (handle,) = crowd.engine.handles.values()
    assert handle.preempting.attempts == 1


def test_many_rows_at_once_are_deferred_too(asked: list[int]) -> None:
    """Where only resources are in doubt, rows are asked in columns."""
    plain = {"labels": None, "topology_spread_constraints": None}
    results = []
    for limit in (None, 100_000):
        crowd = Crowd(limit=limit)
        crowd.handlers.delete_pod(crowd.preemptor)
        crowd.preemptor = changed(crowd.preemptor, **plain)
        crowd.handlers.add_pod(crowd.preemptor)
        if limit is not None:
            crowd.defer(5)
        results.append(crowd.evicted())
    assert results[0] == results[1]
    assert len(asked) == 1, "only the chosen row was asked by itself"


def test_rows_that_change_meanwhile_are_asked_again(asked: list[int]) -> None:
    crowd = Crowd(limit=LIMIT)
    crowd.defer(5)
    row = asked[0]
    crowd.handlers.delete_pod(crowd.standing[row * PODS])
    crowd.evicted()
    assert asked.count(row) == 2


def test_what_happens_elsewhere_does_not_evict_pods_in_vain(asked: list[int]) -> None:
    """A pod comes to another node of the zone, which is out now, whatever a row said before."""
    before, _ = Crowd().evicted()
    crowd = Crowd(limit=LIMIT)
    zone = f"z{before[1:]}"
    crowd.handlers.add_node(node("late", cpu=1, labels={"zone": zone}))
    row = crowd.engine.cache.table.row_of[before]
    asked.clear()
    while row not in asked:
        crowd.defer(1)
    crowd.handlers.add_pod(foe("late"))
    assert crowd.evicted()[0] != before


def test_an_update_of_the_pod_starts_anew(asked: list[int]) -> None:
    crowd = Crowd(limit=LIMIT)
    crowd.defer(5)
    crowd.handlers.update_pod(
        crowd.preemptor, changed(crowd.preemptor, resource_version="2", labels={"app": "other"})
    )
    asked.clear()
    crowd.evicted()
    assert len(set(asked)) >= NODES


def test_searches_of_pods_that_are_gone_are_forgotten(asked: list[int]) -> None:
    crowd = Crowd(limit=LIMIT)
    plugin = next(iter(crowd.engine.profiles.values())).plugins["DefaultPreemption"]
    for number in range(30):
        crowd.defer(1)
        crowd.handlers.delete_pod(crowd.preemptor)
        crowd.preemptor = changed(crowd.preemptor, uid=f"uid-{number}")
        crowd.handlers.add_pod(crowd.preemptor)
    assert len(plugin._unfinished) == 16  # type: ignore[attr-defined]  # DefaultPreemption's own
