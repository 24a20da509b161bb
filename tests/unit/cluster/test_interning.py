"""Interned values and label columns."""

from __future__ import annotations

from stowplan.cluster.interning import Interner
from stowplan.cluster.label_columns import ABSENT
from stowplan.cluster.pod_info import compile_pod
from stowplan.cluster.table import NodeTable
from stowplan.testing import node, pod


def test_values_are_numbered_as_they_come() -> None:
    interner = Interner(["a", "b", "a"])
    assert len(interner) == 2
    assert (interner.id("b"), interner.id("c"), interner.id("a")) == (1, 2, 0)
    assert interner.values == ["a", "b", "c"]
    assert interner.get("c") == 2
    assert interner.get("z") is None
    assert dict(interner.items()) == {"a": 0, "b": 1, "c": 2}


def shown(table: NodeTable, key: str) -> dict[str, str | None]:
    column, values = table.labels.column(key), table.labels.values(key).values
    return {
        name: None if column[row] == ABSENT else values[column[row]]
        for name, row in table.row_of.items()
    }


def test_columns_follow_the_nodes() -> None:
    table = NodeTable(capacity=2)
    table.set_node(node("a", labels={"disk": "ssd"}))
    assert shown(table, "disk") == {"a": "ssd"}
    for name, value in (("b", "hdd"), ("c", "ssd"), ("d", "")):
        table.set_node(node(name, labels={"disk": value}))
    table.set_node(node("e"))
    assert shown(table, "disk") == {"a": "ssd", "b": "hdd", "c": "ssd", "d": "", "e": None}
    table.set_node(node("a", labels={"disk": "hdd"}))
    table.set_node(node("b"))
    assert shown(table, "disk") == {"a": "hdd", "b": None, "c": "ssd", "d": "", "e": None}
    assert len(table.labels.column("disk")) == table.capacity


def test_asking_late_gives_the_same_column() -> None:
    table = NodeTable(capacity=2)
    for name in "abc":
        table.set_node(node(name, zone=f"z{name}"))
    table.remove_node("b")
    assert shown(table, "topology.kubernetes.io/zone") == {"a": "za", "c": "zc"}


def test_ghosts_and_reused_rows_have_no_old_labels() -> None:
    table = NodeTable()
    table.labels.column("disk")
    row = table.set_node(node("a", labels={"disk": "ssd"}))
    table.add_pod("a", compile_pod(pod("p", uid="p")))
    table.remove_node("a")
    assert shown(table, "disk") == {"a": None}
    table.remove_pod(row, "p")
    assert table.add_pod("stranger", compile_pod(pod("q"))) == row
    assert shown(table, "disk") == {"stranger": None}
