"""Whole shapes: what refreshes a row of them, and what rebuilds them."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.pod_info import PodInfo, compile_pod
from stowplan.cluster.views import NodeView
from stowplan.framework.columns import ColumnCache
from stowplan.framework.cycle import Cycle
from stowplan.framework.diagnosis import Diagnosis
from stowplan.framework.forms import FilterStep, ScoreStep
from stowplan.framework.plugin import Plugin, Reads
from stowplan.framework.shapes import FeasibleRows, Shapes, WeightedScores
from stowplan.framework.status import unschedulable
from stowplan.testing import node, pod


class Few(Plugin):
    """Refuses nodes with more than one pod, and scores by the number of pods."""

    name = "Few"
    reads = Reads.POD_SPECS
    verdicts = (unschedulable("too many"),)

    def sign(self, info: PodInfo) -> Any:
        return ()

    def filter(self, pod: Any, node: NodeView) -> Any:
        return node.pod_count < 2

    def filter_columns(self, cycle: Cycle, rows: Any, out: Any, overlay: Any) -> None:
        out[rows] = cycle.table.pod_count[rows] >= 2

    def score(self, pod: Any, node: NodeView) -> int:
        return node.pod_count

    def score_columns(self, cycle: Cycle, rows: Any, out: Any) -> None:
        out[rows] = cycle.table.pod_count[rows]


class FewWithDetails(Few):
    reads = Reads.PODS


class World:
    def __init__(self, plugin: Plugin | None = None) -> None:
        self.cache = ClusterCache()
        for number in range(32):
            self.cache.set_node(node(f"n{number}"))
        self.cache.add_pod(pod("there", uid="there", node="n0"))
        plugin = plugin or Few()
        self.filter, self.score = FilterStep(plugin), ScoreStep(plugin, 1)
        self.shapes = Shapes(ColumnCache())
        self.look(), self.look()

    def look(self) -> tuple[FeasibleRows, WeightedScores]:
        cycle = Cycle(self.cache.table, compile_pod(pod()))
        feasible, leading = self.shapes.feasible_rows([self.filter], cycle)
        assert leading == 1
        scores, others = self.shapes.weighted_scores([self.score], cycle, feasible)
        assert others == []
        table = self.cache.table
        live = table.live_rows
        assert feasible.alive[live].tolist() == (table.pod_count[live] < 2).tolist()
        assert scores.sums[live].tolist() == table.pod_count[live].tolist()
        return feasible, scores


@pytest.fixture
def world() -> World:
    made = World()
    # Scores are admitted after the feasible rows are cached.
    made.look(), made.look()
    return made


def test_a_pod_that_comes_or_goes_refreshes_both(world: World) -> None:
    before = world.look()
    world.cache.add_pod(pod(node="n3"))
    world.cache.add_pod(pod(node="n3"))
    world.cache.remove_pod("there")
    assert world.look() == before, "the same objects, refreshed"


def test_annotations_and_status_refresh_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Few, "filter", None)
    monkeypatch.setattr(FilterStep, "accepts", None)
    monkeypatch.setattr(ScoreStep, "score_of_row", None)
    world.cache.update_pod(pod("there", uid="there", node="n0", phase="Running"))
    world.look()


def test_annotations_and_status_refresh_a_row_for_plugins_that_read_them() -> None:
    world = World(FewWithDetails())
    world.look(), world.look()
    feasible, scores = world.look()
    assert feasible.reads_details
    assert scores.reads_details
    world.cache.update_pod(pod("there", uid="there", node="n0", phase="Running"))
    assert feasible.changed_rows(world.cache.table) == [world.cache.table.row_of["n0"]]


def test_many_changed_rows_rebuild_both(world: World) -> None:
    feasible, scores = world.look()
    for number in range(20):
        world.cache.add_pod(pod(node=f"n{number}"))
    again = world.look()
    assert again[0] is not feasible
    assert again[1] is not scores


@pytest.mark.parametrize("change", ["comes", "changes", "goes"])
def test_a_node_that_comes_changes_or_goes_rebuilds_both(world: World, change: str) -> None:
    feasible, scores = world.look()
    if change == "comes":
        world.cache.set_node(node("new"))
    elif change == "changes":
        world.cache.set_node(node("n5", labels={"a": "b"}))
    else:
        world.cache.remove_node("n5")
    again = world.look()
    assert again[0] is not feasible
    assert again[1] is not scores


def test_a_table_that_grows_rebuilds_both(world: World) -> None:
    for number in range(100):
        world.cache.add_pod(pod(node=f"unknown-{number}"))
        world.look()
    feasible, scores = world.look()
    assert len(feasible.alive) == len(scores.sums) == world.cache.table.capacity


def test_a_refresh_that_breaks_drops_the_shape(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = world.look()

    def fail(*_: Any) -> bool:
        raise RuntimeError("broken on purpose")

    world.cache.add_pod(pod(node="n3"))
    with monkeypatch.context() as broken:
        broken.setattr(FilterStep, "accepts", fail)
        with pytest.raises(RuntimeError, match="on purpose"):
            world.look()
    assert world.look()[0] is not before[0]


def test_why_no_row_is_feasible_is_known_until_any_row_changes() -> None:
    world = World()
    for number in range(32):
        for name in ("a", "b"):
            world.cache.add_pod(pod(f"{name}{number}", uid=f"{name}{number}", node=f"n{number}"))
    world.look(), world.look()
    feasible, _ = world.look()
    table = world.cache.table
    assert world.shapes.known_failure(feasible, table) is None
    diagnosis = Diagnosis(Cycle(table, compile_pod(pod())), len(table), candidates=table.valid)
    diagnosis.columns = [(world.filter, (~feasible.alive).astype("int32"))]
    diagnosis.settle()
    settled = diagnosis.settled
    assert settled is not None
    world.shapes.keep_failure(feasible, settled, table)
    assert world.shapes.known_failure(feasible, table) is settled
    # It says something else now, although it is not feasible still.
    world.cache.add_pod(pod("more", uid="more", node="n1"))
    feasible, _ = world.look()
    assert not feasible.alive.any()
    assert world.shapes.known_failure(feasible, table) is None
