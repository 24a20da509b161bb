"""Counts by row, added up by topology domain."""

from __future__ import annotations

import pytest

from stowplan.cluster import domain_sums
from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.domain_sums import add_domain_sums
from stowplan.cluster.row_counts import RowCounts
from stowplan.cluster.table import Int64Array
from stowplan.testing import node, pod


def cluster(*zones: str | None) -> ClusterCache:
    cache = ClusterCache()
    for index, zone in enumerate(zones):
        cache.set_node(node(f"n{index}", labels={} if zone is None else {"zone": zone}))
    return cache


def counted(*counts: int) -> RowCounts:
    source = RowCounts()
    for row, count in enumerate(counts):
        if count:
            source.change(row, count)
    return source


def sums(cache: ClusterCache, source: RowCounts, key: str = "zone") -> dict[str, int]:
    into: dict[str, Int64Array] = {}
    add_domain_sums(cache.table, source, key, into)
    if not into:
        return {}
    values = cache.table.labels.values(key).values
    *totals, absent = into[key].tolist()
    assert absent == 0
    assert any(totals)
    return {value: total for value, total in zip(values, totals, strict=True) if total}


@pytest.fixture(params=[0, 48], ids=["kept", "anew"], autouse=True)
def few_rows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test with sums that are kept, and with sums that are not."""
    monkeypatch.setattr(domain_sums, "FEW_ROWS", request.param)


def test_rows_of_one_domain_add_up() -> None:
    cache = cluster("a", "b", "a", None)
    assert sums(cache, counted(1, 2, 4, 8)) == {"a": 5, "b": 2}
    assert sums(cache, counted(0, 0, 0, 8)) == {}
    assert sums(cache, counted(0, 0, 3, 8)) == {"a": 3}
    assert sums(cache, counted()) == {}
    assert sums(cache, counted(1, 2, 4), "unheard-of") == {}


def test_sums_follow_counts() -> None:
    cache = cluster("a", "b")
    source = counted(1, 1)
    assert sums(cache, source) == {"a": 1, "b": 1}
    for _ in range(3):
        source.change(0, 1)
        source.change(1, 1)
        source.change(1, -1)
    assert sums(cache, source) == {"a": 4, "b": 1}
    source.change(1, -1)
    source.change(0, 1)
    assert sums(cache, source) == {"a": 5}


def test_changes_of_rows_without_the_label_are_left_out() -> None:
    cache = cluster("a", "b", None)
    source = counted(1, 1)
    assert sums(cache, source) == {"a": 1, "b": 1}
    source.change(2, 5)
    assert sums(cache, source) == {"a": 1, "b": 1}


def test_changes_that_are_forgotten_are_counted_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RowCounts, "_LOG_LIMIT", 2)
    cache = cluster("a", "b")
    source = counted(1, 1)
    assert sums(cache, source) == {"a": 1, "b": 1}
    for _ in range(20):
        source.change(0, 1)
    assert source.since(0) is None
    assert sums(cache, source) == {"a": 21, "b": 1}


def test_counts_of_who_has_come_and_gone_remember_little() -> None:
    source = RowCounts()
    for row in range(5000):
        source.change(row, 1)
    assert source.since(source.position - 1000) is not None, "while they are many, it is a shortcut"
    for row in range(5000):
        source.change(row, -1)
    assert source.counts == {}
    assert source.since(source.position - 100) is None
    assert source.since(source.position - 10) == [(row, -1) for row in range(4990, 5000)]


def test_sums_follow_labels() -> None:
    cache = cluster("a", "b", "b")
    source = counted(1, 2, 4)
    assert sums(cache, source) == {"a": 1, "b": 6}
    cache.set_node(node("n1", labels={"zone": "new"}))
    assert sums(cache, source) == {"a": 1, "b": 4, "new": 2}
    cache.set_node(node("n2", labels={}))
    assert sums(cache, source) == {"a": 1, "new": 2}


def test_ghosts_are_in_no_domain() -> None:
    cache = cluster("a", "b")
    cache.add_pod(pod(node="n1"))
    source = counted(1, 1)
    assert sums(cache, source) == {"a": 1, "b": 1}
    cache.remove_node("n1")
    assert sums(cache, source) == {"a": 1}
    cache.set_node(node("n1", labels={"zone": "c"}))
    assert sums(cache, source) == {"a": 1, "c": 1}


def test_weights_and_several_sources() -> None:
    cache = cluster("a", "b", "a")
    into: dict[str, Int64Array] = {}
    ones = counted(1, 1, 1)
    add_domain_sums(cache.table, ones, "zone", into, 10)
    add_domain_sums(cache.table, counted(0, 3), "zone", into, -10)
    assert into["zone"].tolist() == [20, -20, 0]


def test_what_is_kept_is_shared_and_not_written_to() -> None:
    cache = cluster("a", "b", "a")
    ones = counted(1, 1, 1)
    into: dict[str, Int64Array] = {}
    add_domain_sums(cache.table, ones, "zone", into)
    add_domain_sums(cache.table, counted(0, 3), "zone", into)
    assert into["zone"].tolist() == [2, 4, 0]
    assert sums(cache, ones) == {"a": 2, "b": 1}


def test_labels_that_tell_rows_apart() -> None:
    cache = cluster("a", "b", None)
    labels = cache.table.labels
    assert labels.tells_apart("zone")
    assert labels.tells_apart("unheard-of")
    cache.set_node(node("n3", labels={"zone": "b"}))
    assert not labels.tells_apart("zone")
    cache.set_node(node("n1", labels={"zone": "c"}))
    assert labels.tells_apart("zone")
    cache.add_pod(pod(node="n0"))
    cache.remove_node("n0")
    cache.set_node(node("n4", labels={"zone": "a"}))
    assert labels.tells_apart("zone"), "a ghost has no labels"


def test_label_versions_grow_only_with_the_label() -> None:
    labels = (cache := cluster("a", "b")).table.labels
    before = labels.version("zone")
    cache.set_node(node("n0", labels={"zone": "a", "other": "x"}))
    cache.set_node(node("n1", labels={"zone": "b"}, unschedulable=True))
    assert labels.version("zone") == before
    cache.set_node(node("n1", labels={"zone": "c"}))
    cache.remove_node("n0")
    assert labels.version("zone") == before + 2
