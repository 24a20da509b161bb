"""A node as per-node plugins see it, as it is and as it might be."""

from __future__ import annotations

from unittest.mock import Mock

import numpy as np
import pytest

from stowplan.cluster.pod_info import PodInfo, compile_pod
from stowplan.cluster.table import NodeTable
from stowplan.cluster.views import NodeView, Overlay
from stowplan.testing import node, pod

GPU = "example.com/gpu"


def standing(uid: str, cpu: str = "1", gpu: int = 0) -> PodInfo:
    return compile_pod(pod(uid, uid=uid, cpu=cpu, memory=None, requests={GPU: gpu} if gpu else {}))


def two_nodes() -> tuple[NodeTable, int, int]:
    table = NodeTable()
    a = table.set_node(node("a", cpu="4", pods=3, zone="z", annotations={"k": "v"}))
    b = table.set_node(node("b", cpu="8", taints=["t:NoSchedule"], unschedulable=True))
    table.add_pod("a", standing("p1"))
    table.add_pod("a", standing("p2", cpu="2"))
    return table, a, b


def test_view_shows_the_row() -> None:
    table, a, b = two_nodes()
    view = NodeView(table, a)
    assert (view.name, view.row, view.node) == ("a", a, table.node(a))
    assert view.labels["topology.kubernetes.io/zone"] == "z"
    assert view.annotations == {"k": "v"}
    assert (view.pod_count, view.allowed_pods) == (2, 3)
    assert [info.uid for info in view.pod_infos] == ["p1", "p2"]
    assert [shown.metadata.name for shown in view.pods] == ["p1", "p2"]
    assert (view.allocatable("cpu"), view.requested("cpu"), view.free("cpu")) == (4000, 3000, 1000)
    assert (view.non_zero(0), view.non_zero(1)) == (3000, 400 << 20)
    assert (view.allocatable(GPU), view.requested(GPU), view.free(GPU)) == (0, 0, 0)
    other = NodeView(table, b)
    assert other.unschedulable
    assert [taint.key for taint in other.taints] == ["t"]
    assert other.annotations == {}


def test_overlay_adds_and_removes_on_its_own_rows_only() -> None:
    table, a, b = two_nodes()
    victims = [table.pods[a]["p2"]]
    overlay = Overlay(table, {a: [standing("new", cpu="500m", gpu=1)]}, {a: victims})
    view = NodeView(table, a, overlay)
    assert [info.uid for info in view.pod_infos] == ["p1", "new"]
    assert view.pod_count == 2
    assert (view.requested("cpu"), view.requested(GPU)) == (1500, 1)
    assert view.non_zero(0) == 1500
    untouched = NodeView(table, b, overlay)
    assert (untouched.pod_count, untouched.requested("cpu"), untouched.pods) == (0, 0, [])
    assert untouched.non_zero(1) == 0
    assert NodeView(table, a).requested("cpu") == 3000, "the table itself is as before"


def test_overlay_tells_the_table_of_resources_before_anybody_looks() -> None:
    table, a, _ = two_nodes()
    overlay = Overlay(table, {a: [standing("new", gpu=1)]})
    assert NodeView(table, a, overlay).requested(GPU) == 1


@pytest.mark.parametrize("has_been_looked_at", [False, True])
def test_pods_that_stay_after_all_and_go_again(has_been_looked_at: bool) -> None:
    table, a, _ = two_nodes()
    p1, p2 = table.pods[a]["p1"], table.pods[a]["p2"]
    overlay = Overlay(table, {}, {a: [p1, p2]})
    view = NodeView(table, a, overlay)
    if has_been_looked_at:
        assert (view.requested("cpu"), view.pod_count) == (0, 0)
    overlay.put_back({a: p2})
    assert (view.requested("cpu"), view.pod_count, view.pod_infos) == (2000, 1, [p2])
    overlay.take_away({a: p2})
    overlay.put_back({a: p1})
    assert (view.requested("cpu"), view.pod_count, view.pod_infos) == (1000, 1, [p1])


def test_overlay_costs_no_arrays_until_somebody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod that the row's taints turn away need not know how full it would be."""
    table, a, _ = two_nodes()
    made = Mock(wraps=np.zeros)
    monkeypatch.setattr(np, "zeros", made)
    overlay = Overlay(table, {a: [standing("new")]}, {a: [table.pods[a]["p1"]]})
    assert [info.uid for info in NodeView(table, a, overlay).pod_infos] == ["p2", "new"]
    made.assert_not_called()
    assert NodeView(table, a, overlay).requested("cpu") == 3000
    made.assert_called()


def test_overlay_columns_for_any_rows() -> None:
    table, a, b = two_nodes()
    overlay = Overlay(table, {b: [standing("new", cpu="2")]}, {a: [table.pods[a]["p1"]]})
    assert overlay.rows.tolist() == sorted([a, b])
    some = np.array([b, a, b])
    assert overlay.held("cpu", some, overlay.places(some)).tolist() == [2000, 2000, 2000]
    everywhere = slice(None)
    whole = overlay.held("cpu", everywhere, overlay.places(everywhere))
    assert len(whole) == table.capacity
    assert {row: int(held) for row, held in enumerate(whole) if held} == {a: 2000, b: 2000}
    assert overlay.pod_count[overlay.places(np.array([a, b, 7]))].tolist() == [-1, 1, 0]


@pytest.mark.parametrize("is_offered", [True, False])
def test_overlay_of_a_resource_whether_or_not_a_node_offers_it(is_offered: bool) -> None:
    table, a, b = two_nodes()
    if is_offered:
        table.set_node(node("c", resources={GPU: 9}))
    table.add_pod("a", standing("holder", gpu=2))
    overlay = Overlay(table, {b: [standing("new", gpu=5)]}, {a: [table.pods[a]["holder"]]})
    assert [NodeView(table, row, overlay).requested(GPU) for row in (a, b)] == [0, 5]
    rows = np.array([a, b])
    assert overlay.held(GPU, rows, overlay.places(rows)).tolist() == [0, 5]


def test_empty_overlay_changes_nothing() -> None:
    table, a, b = two_nodes()
    overlay = Overlay(table, {})
    assert overlay.places(np.array([a, b])).tolist() == [-1, -1]
    assert NodeView(table, a, overlay).requested("cpu") == 3000
