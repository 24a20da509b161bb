"""Amounts as floats: a copy that catches up with pods, and is rebuilt with nodes."""

from __future__ import annotations

import numpy as np
import pytest

from stowplan.cluster.cache import ClusterCache
from stowplan.framework.amounts import Amounts
from stowplan.testing import node, pod


def a_cluster() -> ClusterCache:
    cache = ClusterCache()
    for name in ("a", "b"):
        cache.set_node(node(name, cpu="4", memory="8Gi"))
    return cache


def amounts(cache: ClusterCache) -> Amounts:
    return Amounts(cache.table, ["cpu"], as_scored=False)


ALL = slice(None)


def on_row(kept: Amounts, row: int) -> tuple[float, float]:
    """What is held and free there, read in both ways, which must agree."""
    rows = np.array([row])
    offered = kept.offered[:, rows]
    alone = kept.held_at(rows)[0, 0], kept.free_at(rows, offered)[0, 0]
    among_all = kept.held_at(ALL)[0, row], kept.free_at(ALL, kept.offered)[0, row]
    assert alone == among_all
    return alone


def test_a_pod_counts_on_its_row() -> None:
    cache = a_cluster()
    kept = amounts(cache)
    cache.add_pod(pod(node="a", cpu="1"))
    assert on_row(kept, cache.table.row_of["a"]) == (1000, 3000)
    assert on_row(kept, cache.table.row_of["b"]) == (0, 4000)


def test_more_changes_than_the_journal_keeps_copy_all_rows() -> None:
    cache = a_cluster()
    kept = amounts(cache)
    for number in range(3 * cache.table.pod_journal.limit):
        cache.add_pod(pod("p", uid=f"u{number}", node="b", cpu="1"))
        cache.remove_pod(f"u{number}")
    cache.add_pod(pod("q", uid="q", node="a", cpu="1"))
    assert on_row(kept, cache.table.row_of["a"]) == (1000, 3000)
    assert on_row(kept, cache.table.row_of["b"]) == (0, 4000)


def test_only_rows_of_changed_pods_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = a_cluster()
    cache.add_pod(pod("p", uid="p", node="a"))
    kept = amounts(cache)
    copied: list[list[int]] = []
    monkeypatch.setattr(kept, "_copy", copied.append)
    cache.update_pod(pod("p", uid="p", node="a", annotations={"a": "b"}, phase="Running"))
    kept.held_at(ALL)
    assert copied == []
    cache.add_pod(pod("q", uid="q", node="b"))
    kept.held_at(ALL)
    kept.held_at(ALL)
    assert copied == [[cache.table.row_of["b"]]]


def test_a_node_that_comes_changes_or_goes_rebuilds() -> None:
    cache = a_cluster()
    kept = amounts(cache)
    assert kept.has_same_nodes(cache.table)
    cache.set_node(node("a", cpu="8", memory="8Gi"))
    assert not kept.has_same_nodes(cache.table)
    kept = amounts(cache)
    cache.set_node(node("c"))
    assert not kept.has_same_nodes(cache.table)
    kept = amounts(cache)
    cache.remove_node("b")
    assert not kept.has_same_nodes(cache.table)


def test_another_table_rebuilds() -> None:
    assert not amounts(a_cluster()).has_same_nodes(a_cluster().table)
