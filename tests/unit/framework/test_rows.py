"""`rows` of column plugins: an index array of nodes' rows, however the scheduler asks."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
import pytest

from stowplan import Cycle, Plugin, Reads, takes_slices, unschedulable
from stowplan.cluster.pod_info import PodInfo
from stowplan.framework.profile import make_plugin
from stowplan.plugins.node_resources_fit import NodeResourcesFit
from stowplan.testing import MemoryCluster, check_plugin, node, pod
from tests.unit.scheduler.scheduler_kit import run

ASKED: list[tuple[str, Any, frozenset[int]]] = []


def note(method: str, cycle: Cycle, rows: Any) -> None:
    ASKED.append((method, rows, frozenset(cycle.table.live_rows.tolist())))


class Counting(Plugin):
    """Uses `rows` as a sequence, at every point that gets it."""

    name = "Counting"
    verdicts = (unschedulable("node(s) had the wrong row"),)

    def filter_columns(self, cycle: Cycle, rows: Any, out: Any, overlay: Any) -> None:
        note("filter_columns", cycle, rows)
        out[rows] = np.zeros(len(rows), np.int32)

    def pre_score(self, cycle: Cycle, rows: Any) -> None:
        note("pre_score", cycle, rows)

    def score_columns(self, cycle: Cycle, rows: Any, out: Any) -> None:
        note("score_columns", cycle, rows)
        for row in rows.tolist():
            out[row] = len(cycle.table.node(row).name) % 100
        out[rows] += np.zeros(len(rows), np.int64)


class CountingCached(Counting):
    name = "CountingCached"
    reads = Reads.POD_SPECS

    def sign(self, info: PodInfo) -> Hashable:
        return ()


@pytest.fixture(autouse=True)
def _nothing_asked() -> None:
    ASKED.clear()


@pytest.mark.parametrize("plugin", [Counting, CountingCached])
def test_rows_are_an_array_of_nodes_rows_in_every_decision(plugin: type[Plugin]) -> None:
    with MemoryCluster(plugin) as cluster:
        for index in range(12):
            cluster.add_node(f"n{index}")
        cluster.add_pods(8)
        # A ghost row: its node is gone, its pod is not.
        ghost = cluster.node_of("pod-0")
        cluster.remove_node(ghost)
        cluster.add_pods(4, prefix="later-")
        cluster.decide("asked")
        standing = [node for name, node in cluster.placements.items() if "later" in name]
    assert len(standing) == 4
    assert all(standing)
    assert {method for method, _, _ in ASKED} == {"filter_columns", "pre_score", "score_columns"}
    for _, rows, live in ASKED:
        assert isinstance(rows, np.ndarray)
        assert rows.dtype == np.intp
        found = rows.tolist()
        assert found
        assert len(set(found)) == len(found)
        assert set(found) <= live


def test_a_plugin_that_counts_its_rows_passes_the_checks() -> None:
    found = check_plugin(CountingCached, cases=4, only=["answers", "dtypes", "kept-columns"])
    assert [each.outcome for each in found] == ["passed"] * 3, found


class Declared(Plugin):
    name = "Declared"

    @takes_slices
    def score_columns(self, cycle: Cycle, rows: Any, out: Any) -> None:
        note("score_columns", cycle, rows)
        out[rows] = 1


class FitByArray(NodeResourcesFit):
    """Inherits from a plugin that takes slices, and does not declare that it does."""

    name = "FitByArray"

    def score_columns(self, cycle: Cycle, rows: Any, out: Any) -> None:
        note("score_columns", cycle, rows)
        super().score_columns(cycle, rows, out)


@pytest.mark.parametrize(("plugin", "kind"), [(Declared, slice), (FitByArray, np.ndarray)])
def test_slices_go_to_methods_that_declare_them(plugin: type[Plugin], kind: type) -> None:
    assert run([node("a"), node("b")], pod(), make_plugin(plugin, {})).node is not None
    assert {type(rows) for _, rows, _ in ASKED} == {kind}
