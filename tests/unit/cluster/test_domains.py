"""Pods by topology domain: who takes part, and when sums are counted anew."""

from __future__ import annotations

from stowplan.api.selectors import compile_label_set
from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.counters import PodCounters
from stowplan.cluster.domains import Inclusion
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


def test_heartbeats_change_nothing() -> None:
    cache = a_cluster()
    table = cache.table
    before = table.domains.counts(counted("a"), ZONE, Inclusion())
    cache.set_node(node("n1", zone="z1", conditions=()))
    cache.set_node(node("n1", zone="z1", cpu="64", unschedulable=True))
    assert table.domains.counts(counted("a"), ZONE, Inclusion()) is before
    cache.add_pod(pod(node="n1", labels={"app": "a"}))
    assert table.domains.counts(counted("a"), ZONE, Inclusion()) is before
    assert sums(table) == {"z1": 2, "z2": 1}
    cache.set_node(node("n1", zone="z3"))
    assert sums(table) == {"z2": 1, "z3": 2}


def test_taints_matter_only_to_those_who_ask() -> None:
    cache = a_cluster()
    strict = Inclusion(tolerations=())
    assert sums(cache.table, inclusion=strict) == {"z1": 1, "z2": 1}
    cache.set_node(node("n1", zone="z1", taints=["k:NoSchedule"]))
    assert sums(cache.table, inclusion=strict) == {"z2": 1}
    assert sums(cache.table) == {"z1": 1, "z2": 1}


def test_a_counter_that_was_dropped_in_between() -> None:
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


def test_more_changes_than_are_worth_replaying() -> None:
    cache = a_cluster()
    assert sums(cache.table) == {"z1": 1, "z2": 1}
    for _ in range(3000):
        cache.add_pod(pod(node="n2", labels={"app": "a"}))
    assert sums(cache.table) == {"z1": 1, "z2": 3001}


def test_pods_on_unknown_nodes_widen_the_table_and_count_when_the_node_comes() -> None:
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
