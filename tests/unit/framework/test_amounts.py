"""Amounts as floats: refreshed with pods, rebuilt with nodes."""

from __future__ import annotations

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


def test_a_pod_refreshes_its_row_alone() -> None:
    cache = a_cluster()
    kept = amounts(cache)
    cache.add_pod(pod(node="a", cpu="1"))
    row = cache.table.row_of["a"]
    assert kept.follow(cache.table) == [row]
    assert (kept.held[0, row], kept.free[0, row]) == (1000, 3000)
    assert kept.follow(cache.table) == []


def test_annotations_and_status_refresh_nothing() -> None:
    cache = a_cluster()
    cache.add_pod(pod("p", uid="p", node="a"))
    kept = amounts(cache)
    cache.update_pod(pod("p", uid="p", node="a", annotations={"a": "b"}, phase="Running"))
    assert kept.follow(cache.table) == []


def test_a_node_that_comes_changes_or_goes_rebuilds() -> None:
    cache = a_cluster()
    kept = amounts(cache)
    cache.set_node(node("a", cpu="8", memory="8Gi"))
    assert kept.follow(cache.table) is None
    kept = amounts(cache)
    cache.set_node(node("c"))
    assert kept.follow(cache.table) is None
    kept = amounts(cache)
    cache.remove_node("b")
    assert kept.follow(cache.table) is None


def test_another_table_rebuilds() -> None:
    assert amounts(a_cluster()).follow(a_cluster().table) is None
