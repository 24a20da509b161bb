"""The column cache: kept on second use, refreshed by row, dropped by bytes."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.pod_info import PodInfo, compile_pod
from stowplan.errors import PluginError
from stowplan.framework.columns import ColumnCache
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import FilterStep, ScoreStep, takes_slices
from stowplan.framework.plugin import Plugin, Reads
from stowplan.testing import node, pod


class Watched(Plugin):
    """Copies a column, and remembers which rows it was asked for."""

    name = "Watched"
    reads = Reads.PODS

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[list[int] | None] = []
        self.fails = False

    def sign(self, info: PodInfo) -> Any:
        return info.pod.spec.scheduler_name or None

    def _note(self, rows: Any) -> None:
        if self.fails:
            raise ValueError("broken")
        self.asked.append(None if isinstance(rows, slice) else rows.tolist())

    @takes_slices
    def filter_columns(self, cycle: Cycle, rows: Any, out: Any, overlay: Any) -> None:
        self._note(rows)
        out[rows] = cycle.table.pod_count[rows]

    @takes_slices
    def score_columns(self, cycle: Cycle, rows: Any, out: Any) -> None:
        self._note(rows)
        out[rows] = cycle.table.allocatable[0][rows] // 1000


class NodeOnly(Watched):
    reads = Reads.NODE


class Setup:
    def __init__(self, plugin: Watched | None = None, *, nodes: int = 40) -> None:
        self.cache = ClusterCache()
        for index in range(nodes):
            self.cache.set_node(node(f"n{index}", cpu=index))
        self.plugin = plugin or Watched()
        self.filter = FilterStep(self.plugin)
        self.score = ScoreStep(self.plugin, 1)

    def cycle(self, shape: str = "s") -> Cycle:
        return Cycle(self.cache.table, compile_pod(pod("p", scheduler_name=shape)))

    def put(self, where: str, uid: str) -> int:
        self.cache.add_pod(pod(uid, uid=uid, node=where))
        return self.cache.table.row_of[where]


def test_first_and_second_use_compute_the_third_does_not() -> None:
    setup, columns = Setup(), ColumnCache()
    for expected in (1, 2, 2, 2):
        columns.verdicts(setup.filter, setup.cycle())
        assert len(setup.plugin.asked) == expected
    assert (columns.hits, columns.misses) == (2, 2)


def test_only_changed_rows_are_computed_again() -> None:
    setup, columns = Setup(), ColumnCache()
    for _ in range(2):
        columns.verdicts(setup.filter, setup.cycle())
    rows = sorted([setup.put("n3", "a"), setup.put("n7", "b"), setup.put("n3", "c")])
    values = columns.verdicts(setup.filter, setup.cycle())
    assert setup.plugin.asked[-1] == sorted(set(rows))
    assert values[rows].tolist() == setup.cache.table.pod_count[rows].tolist()
    columns.verdicts(setup.filter, setup.cycle())
    assert setup.plugin.asked[-1] == sorted(set(rows)), "nothing changed since"


def test_changes_of_the_node_count_for_everybody_those_of_pods_for_some() -> None:
    setup, columns = Setup(NodeOnly()), ColumnCache()
    for _ in range(2):
        columns.scores(setup.score, setup.cycle())
    setup.put("n3", "a")
    columns.scores(setup.score, setup.cycle())
    assert setup.plugin.asked == [None, None]
    row = setup.cache.table.set_node(node("n5", cpu=90))
    assert columns.scores(setup.score, setup.cycle())[row] == 90
    assert setup.plugin.asked == [None, None, [row]]


def test_new_nodes_are_changed_rows() -> None:
    setup, columns = Setup(), ColumnCache()
    for _ in range(2):
        columns.scores(setup.score, setup.cycle())
    row = setup.cache.table.set_node(node("new", cpu=77))
    assert columns.scores(setup.score, setup.cycle())[row] == 77
    assert setup.plugin.asked[-1] == [row]


def test_a_grown_table_starts_over() -> None:
    setup, columns = Setup(nodes=64), ColumnCache()
    for _ in range(3):
        columns.scores(setup.score, setup.cycle())
    row = setup.cache.table.set_node(node("one-more", cpu=5))
    values = columns.scores(setup.score, setup.cycle())
    assert len(values) == setup.cache.table.capacity == 128
    assert values[row] == 5
    assert setup.plugin.asked == [None, None, None]
    columns.scores(setup.score, setup.cycle())
    assert len(setup.plugin.asked) == 3, "and is kept at once, as its signature is known"


def test_many_changes_start_over() -> None:
    setup, columns = Setup(), ColumnCache()
    for _ in range(2):
        columns.verdicts(setup.filter, setup.cycle())
    for index in range(20):
        setup.put(f"n{index}", f"p{index}")
    values = columns.verdicts(setup.filter, setup.cycle())
    assert setup.plugin.asked == [None, None, None]
    assert values[:40].sum() == 20


def test_readers_that_are_too_late_start_over() -> None:
    setup, columns = Setup(), ColumnCache()
    setup.cache.table.pod_journal.limit = 2
    for _ in range(2):
        columns.verdicts(setup.filter, setup.cycle())
    for index in range(10):
        setup.put("n1", f"p{index}")
    assert columns.verdicts(setup.filter, setup.cycle())[1] == 10
    assert setup.plugin.asked == [None, None, None]


def test_signatures_and_kinds_have_columns_of_their_own() -> None:
    setup, columns = Setup(), ColumnCache()
    for _ in range(3):
        for shape in ("s", "t"):
            verdicts = columns.verdicts(setup.filter, setup.cycle(shape))
            scores = columns.scores(setup.score, setup.cycle(shape))
            assert (verdicts.itemsize, scores.itemsize) == (4, 8)
    assert len(setup.plugin.asked) == 8
    assert (columns.hits, columns.misses) == (4, 8)


def test_pods_without_a_signature_are_never_kept() -> None:
    setup, columns = Setup(), ColumnCache()
    for _ in range(4):
        columns.verdicts(setup.filter, setup.cycle(shape=""))
    assert len(setup.plugin.asked) == 4
    assert (columns.hits, columns.misses) == (0, 0)


def test_without_room_nothing_is_kept() -> None:
    setup, columns = Setup(), ColumnCache(limit_bytes=0)
    for _ in range(4):
        columns.verdicts(setup.filter, setup.cycle())
    assert columns.hits == 0
    assert len(setup.plugin.asked) == 4


def test_the_least_recently_used_column_makes_room() -> None:
    setup = Setup()
    one = setup.cache.table.capacity * 4
    columns = ColumnCache(limit_bytes=3 * one - 1)
    for shape in ("a", "a", "b", "b", "a", "c", "c"):
        columns.verdicts(setup.filter, setup.cycle(shape))
    before = len(setup.plugin.asked)
    columns.verdicts(setup.filter, setup.cycle("a"))
    columns.verdicts(setup.filter, setup.cycle("c"))
    assert len(setup.plugin.asked) == before, "a was used after b"
    columns.verdicts(setup.filter, setup.cycle("b"))
    assert len(setup.plugin.asked) == before + 1


@pytest.mark.parametrize("changes", [1, 20])
def test_a_column_that_could_not_be_filled_is_not_used(changes: int) -> None:
    """Neither row by row nor, after many changes, as a whole."""
    setup, columns = Setup(), ColumnCache()
    for _ in range(2):
        columns.verdicts(setup.filter, setup.cycle())
    rows = [setup.put(f"n{index}", f"p{index}") for index in range(changes)]
    setup.plugin.fails = True
    with pytest.raises(PluginError):
        columns.verdicts(setup.filter, setup.cycle())
    setup.plugin.fails = False
    assert columns.verdicts(setup.filter, setup.cycle())[rows].tolist() == [1] * changes


@pytest.mark.parametrize("answer", [["unhashable"], ValueError("no")])
def test_a_signature_that_cannot_be_used_names_the_plugin(answer: Any) -> None:
    class Wrong(Watched):
        name = "Wrong"

        def sign(self, info: PodInfo) -> Any:
            if isinstance(answer, Exception):
                raise answer
            return answer

    setup = Setup(Wrong())
    with pytest.raises(PluginError, match=r'"Wrong" filter plugin: (TypeError|ValueError): '):
        ColumnCache().verdicts(setup.filter, setup.cycle())
    with pytest.raises(PluginError, match=r'plugin "Wrong" failed with: (TypeError|ValueError): '):
        ColumnCache().scores(setup.score, setup.cycle())
