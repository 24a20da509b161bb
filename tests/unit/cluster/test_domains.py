"""Pods by topology domain: which nodes take part, and what refreshes or rebuilds the sums."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.api.selectors import compile_label_set
from stowplan.cluster import bytes_lru
from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.counters import PodCounters
from stowplan.cluster.domains import DomainCounts, Inclusion, _RowColumn
from stowplan.cluster.pod_classes import CounterKey
from stowplan.cluster.table import NodeTable
from stowplan.testing import node, pod

ZONE = "topology.kubernetes.io/zone"


def counted(app: str) -> CounterKey:
    return CounterKey(frozenset({"default"}), compile_label_set({"app": app}), live=True)


def sums(table: NodeTable, app: str = "a", inclusion: Inclusion | None = None) -> dict[str, int]:
    found = table.domains.counts(counted(app), ZONE, inclusion or Inclusion())
    return {
        value: int(found.counts[number])
        for number, value in enumerate(table.labels.values(ZONE).values)
        if found.are_domains[number]
    }


def a_cluster() -> ClusterCache:
    cache = ClusterCache()
    for name, zone in (("n1", "z1"), ("n2", "z2"), ("n3", None)):
        cache.set_node(node(name, zone=zone))
        cache.add_pod(pod(node=name, labels={"app": "a"}))
    return cache


def test_counts_by_value_and_beside_them() -> None:
    table = a_cluster().table
    found = table.domains.counts(counted("a"), ZONE, Inclusion())
    assert sums(table) == {"z1": 1, "z2": 1}
    assert found.domain_count == 2
    assert found.counts[-1] == 1, "the node without a zone"
    assert table.domains.counts(counted("a"), ZONE, Inclusion(labels=(ZONE,))).counts[-1] == 0


@pytest.fixture
def rebuilt(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Sums by domain and columns that are built from nothing."""
    made: list[str] = []
    for kind in (DomainCounts, _RowColumn):
        rebuild = kind.rebuild

        def counting(self: DomainCounts | _RowColumn, rebuild: Any = rebuild) -> None:
            made.append(type(self).__name__)
            rebuild(self)

        monkeypatch.setattr(kind, "rebuild", counting)
    return made


def test_a_pod_refreshes_sums_without_a_rebuild(rebuilt: list[str]) -> None:
    cache = a_cluster()
    sums(cache.table)
    cache.table.domains.by_row(counted("a"))
    assert rebuilt == ["DomainCounts", "_RowColumn"]
    cache.add_pod(pod(node="n1", labels={"app": "a"}))
    assert sums(cache.table) == {"z1": 2, "z2": 1}
    assert cache.table.domains.by_row(counted("a"))[cache.table.row_of["n1"]] == 2
    assert len(rebuilt) == 2


def test_a_heartbeat_or_new_capacity_of_a_node_rebuilds_nothing(rebuilt: list[str]) -> None:
    cache = a_cluster()
    sums(cache.table)
    cache.set_node(node("n1", zone="z1", conditions=()))
    cache.set_node(node("n1", zone="z1", cpu="64", unschedulable=True))
    assert sums(cache.table) == {"z1": 1, "z2": 1}
    assert rebuilt == ["DomainCounts"]


def test_a_node_label_change_rebuilds_sums(rebuilt: list[str]) -> None:
    cache = a_cluster()
    sums(cache.table)
    cache.set_node(node("n1", zone="z3"))
    assert sums(cache.table) == {"z2": 1, "z3": 1}
    assert len(rebuilt) == 2


def test_a_node_that_comes_or_goes_rebuilds_sums(rebuilt: list[str]) -> None:
    cache = a_cluster()
    sums(cache.table)
    cache.set_node(node("n4", zone="z4"))
    assert sums(cache.table) == {"z1": 1, "z2": 1, "z4": 0}
    cache.remove_node("n2")
    assert sums(cache.table) == {"z1": 1, "z4": 0}
    assert len(rebuilt) == 3


def test_value_ids_that_are_given_out_again_rebuild_sums(rebuilt: list[str]) -> None:
    cache = a_cluster()
    sums(cache.table)
    cache.table.labels.advance(bytes_lru.IDLE_TICKS)
    assert sums(cache.table) == {"z1": 1, "z2": 1}
    assert len(rebuilt) == 2


def test_a_taint_rebuilds_sums_of_pods_that_do_not_tolerate_it() -> None:
    cache = a_cluster()
    strict = Inclusion(tolerations=())
    assert sums(cache.table, inclusion=strict) == {"z1": 1, "z2": 1}
    cache.set_node(node("n1", zone="z1", taints=["k:NoSchedule"]))
    assert sums(cache.table, inclusion=strict) == {"z2": 1}
    assert sums(cache.table) == {"z1": 1, "z2": 1}


def test_a_counter_that_was_evicted_rebuilds_sums() -> None:
    """It misses what happened meanwhile, and the one that replaces it has another history."""
    cache = a_cluster()
    table = cache.table
    table.counters = PodCounters(table.pod_classes, limit_bytes=1)
    assert sums(table) == {"z1": 1, "z2": 1}
    assert table.domains.by_row(counted("a"))[table.row_of["n1"]] == 1
    assert sums(table, "b") == {"z1": 0, "z2": 0}
    cache.add_pod(pod(node="n1", labels={"app": "a"}))
    assert sums(table) == {"z1": 2, "z2": 1}
    assert table.domains.by_row(counted("a"))[table.row_of["n1"]] == 2


def test_many_changes_rebuild_sums() -> None:
    cache = a_cluster()
    assert sums(cache.table) == {"z1": 1, "z2": 1}
    for _ in range(3000):
        cache.add_pod(pod(node="n2", labels={"app": "a"}))
    assert sums(cache.table) == {"z1": 1, "z2": 3001}


def test_a_table_that_grows_rebuilds_columns() -> None:
    cache = a_cluster()
    table = cache.table
    assert sums(table) == {"z1": 1, "z2": 1}
    assert table.domains.by_row(counted("a")).sum() == 3
    for number in range(200):
        cache.add_pod(pod(node=f"late-{number}", labels={"app": "a"}))
    assert sums(table) == {"z1": 1, "z2": 1}
    assert table.domains.by_row(counted("a")).sum() == 203
    cache.set_node(node("late-150", zone="z2"))
    assert sums(table) == {"z1": 1, "z2": 2}
