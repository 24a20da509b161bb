"""The node table: rows, columns, ghosts, versions."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stowplan.api.objects import Node
from stowplan.cluster.pod_info import PodInfo, compile_pod
from stowplan.cluster.table import CPU_ROW, MEMORY_ROW, NodeTable
from stowplan.testing import node, pod

GPU = "example.com/gpu"


def standing(uid: str, **kwargs: Any) -> PodInfo:
    return compile_pod(pod(uid, uid=uid, **kwargs))


def test_node_becomes_a_row() -> None:
    table = NodeTable()
    row = table.set_node(
        node("a", cpu="2500m", memory="1Gi", pods=7, resources={GPU: 4}, unschedulable=True)
    )
    assert table.allocatable[[CPU_ROW, MEMORY_ROW], row].tolist() == [2500, 1 << 30]
    assert table.resources.offered_on(GPU, row) == 4
    assert table.allowed_pods[row] == 7
    assert table.unschedulable[row]
    assert (table.live_row("a"), table.live_row("b")) == (row, None)
    assert len(table) == 1


def test_resources_that_a_node_no_longer_offers_are_gone() -> None:
    table = NodeTable()
    row = table.set_node(node("a", resources={GPU: 4}))
    table.set_node(node("a"))
    assert table.resources.offered_on(GPU, row) == 0
    assert not table.resources.is_offered(GPU)


def test_node_without_a_status_offers_nothing() -> None:
    table = NodeTable()
    row = table.set_node(Node(metadata=node("a").metadata))
    assert not table.allocatable[:, row].any()
    assert table.allowed_pods[row] == 0


def test_nodes_with_the_same_taints_share_a_class() -> None:
    table = NodeTable()
    rows = [
        table.set_node(node(name, taints=taints))
        for name, taints in (("a", ["x:NoSchedule"]), ("b", ["x:NoSchedule"]), ("c", []))
    ]
    classes = table.taint_class[rows].tolist()
    assert classes[0] == classes[1] != classes[2]
    assert table.taint_classes.values[classes[2]] == ()


def test_growth_keeps_everything() -> None:
    table = NodeTable(capacity=1)
    for i in range(9):
        offers = {GPU: 1} if i == 3 else {}
        taints = [f"t{i}:NoSchedule"]
        table.set_node(node(f"n{i}", cpu=i, pods=i, taints=taints, resources=offers))
        table.add_pod(f"n{i}", standing(f"p{i}", cpu=f"{i}m", requests={GPU: i}))
    assert table.capacity == 16
    for i in range(9):
        row = table.row_of[f"n{i}"]
        assert table.allocatable[CPU_ROW, row] == 1000 * i
        assert table.requested[CPU_ROW, row] == i
        assert table.resources.held_on(GPU, row) == i
        assert table.allowed_pods[row] == i
        assert table.pod_count[row] == 1
        assert table.taint_classes.values[table.taint_class[row]][0].key == f"t{i}"
    assert {len(column) for column in (table.valid, table.unschedulable, table.taint_class)} == {16}
    assert table.allocatable.shape == table.requested.shape == (4, 16)
    assert table.non_zero.shape == (2, 16)


def test_pods_add_up_and_go() -> None:
    table = NodeTable()
    row = table.set_node(node("a"))
    table.add_pod("a", standing("p", cpu="1", memory=None, requests={GPU: 2}))
    table.add_pod("a", standing("q", cpu=None, memory="1Mi"))
    assert table.requested[[CPU_ROW, MEMORY_ROW], row].tolist() == [1000, 1 << 20]
    assert table.resources.held_on(GPU, row) == 2
    assert table.non_zero[:, row].tolist() == [1100, (200 << 20) + (1 << 20)]
    table.replace_pod(row, standing("p", cpu="3", memory=None))
    assert table.requested[CPU_ROW, row] == 3000
    assert table.resources.held_on(GPU, row) == 0
    assert list(table.pods[row]) == ["p", "q"], "a replaced pod keeps its place"
    table.remove_pod(row, "p")
    table.remove_pod(row, "q")
    assert not table.requested[:, row].any()
    assert not table.non_zero[:, row].any()
    assert table.pod_count[row] == 0


def test_a_pod_that_only_gets_labels_takes_as_much_and_is_told_of() -> None:
    table = NodeTable()
    row = table.set_node(node("a"))
    before = standing("p", cpu="2")
    table.add_pod("a", before)
    sums, position = table.requested[:, row].tolist(), table.pod_journal.end
    after = standing("p", cpu="2", labels={"zone": "z1"})
    table.replace_pod(row, after)
    assert table.requested[:, row].tolist() == sums
    assert table.pod_count[row] == 1
    assert table.pods[row]["p"] is after
    assert table.pod_journal.entries_since(position) == [row]
    table.remove_pod(row, "p")
    assert not table.requested[:, row].any()


def test_pods_before_their_node_make_a_ghost() -> None:
    table = NodeTable()
    row = table.add_pod("later", standing("p", cpu="1"))
    assert table.live_row("later") is None
    assert list(table.ghost_names()) == ["later"]
    assert len(table) == 0
    assert table.order.tolist() == []
    with pytest.raises(AssertionError, match="ghost"):
        table.node(row)
    assert table.set_node(node("later")) == row
    assert table.requested[CPU_ROW, row] == 1000
    assert list(table.ghost_names()) == []
    assert table.order.tolist() == [row]


def test_removed_node_leaves_a_ghost_until_its_pods_are_gone() -> None:
    table = NodeTable()
    row = table.set_node(node("a"))
    table.add_pod("a", standing("p"))
    table.remove_node("a")
    table.remove_node("a")
    assert list(table.ghost_names()) == ["a"]
    assert table.set_node(node("b")) != row
    table.remove_pod(row, "p")
    assert "a" not in table.row_of
    assert table.set_node(node("c", cpu=1)) == row, "an empty row is used again"
    assert table.allocatable[CPU_ROW, row] == 1000


def test_row_of_a_removed_node_is_used_again_without_a_trace() -> None:
    table = NodeTable()
    row = table.set_node(
        node("a", cpu=9, resources={GPU: 1}, taints=["x:NoSchedule"], unschedulable=True)
    )
    table.remove_node("a")
    assert table.set_node(node("b", cpu=1)) == row
    assert table.names[row] == "b"
    assert table.allocatable[CPU_ROW, row] == 1000
    assert table.resources.offered_on(GPU, row) == 0
    assert not table.unschedulable[row]
    assert table.taint_classes.values[table.taint_class[row]] == ()


def test_order_takes_zones_in_turn_and_changes_with_the_set_of_nodes_only() -> None:
    table = NodeTable()
    for name, zone in (("a", "z1"), ("b", "z1"), ("c", "z2")):
        table.set_node(node(name, zone=zone))
    assert [table.names[row] for row in table.order] == ["a", "c", "b"]
    table.set_node(node("a", zone="z2"))
    assert [table.names[row] for row in table.order] == ["a", "c", "b"]
    table.set_node(node("d", zone="z3"))
    assert [table.names[row] for row in table.order] == ["b", "c", "d", "a"]
    table.remove_node("b")
    assert [table.names[row] for row in table.order] == ["c", "d", "a"]


def test_every_change_moves_the_version() -> None:
    table = NodeTable()
    versions = [table.version]

    def moved() -> bool:
        versions.append(table.version)
        return versions[-1] > versions[-2]

    table.set_node(node("a"))
    assert moved()
    row = table.add_pod("a", standing("p"))
    assert moved()
    table.replace_pod(row, standing("p", cpu="2"))
    assert moved()
    table.set_node(node("a", cpu="9"))
    assert moved()
    table.remove_pod(row, "p")
    assert moved()
    table.remove_node("a")
    assert moved()


def test_a_heartbeat_changes_nothing() -> None:
    table = NodeTable()
    first = node("a", labels={"x": "y"})
    row = table.set_node(first)
    before = table.version
    beat = msgspec.structs.replace(
        first, metadata=msgspec.structs.replace(first.metadata, resource_version="77")
    )
    table.set_node(beat)
    assert table.version == before
    assert table.node(row) is beat, "the newer object is shown all the same"


@pytest.mark.parametrize(
    "changed",
    [
        node("a", labels={"x": "y"}),
        node("a", annotations={"x": "y"}),
        node("a", taints=["x:NoSchedule"]),
        node("a", unschedulable=True),
        node("a", cpu="5"),
        node("a", pods=1),
        node("a", images={"web": 1}),
        node("a", conditions=()),
    ],
)
def test_what_scheduling_reads_marks_the_row(changed: Node) -> None:
    table = NodeTable()
    row = table.set_node(node("a"))
    position = table.node_journal.end
    table.set_node(changed)
    assert table.node_journal.entries_since(position) == [row]
