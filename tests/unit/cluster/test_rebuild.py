"""A cache is rebuilt from its objects: rows, order and history stay, derived values are new."""

from __future__ import annotations

import gc
import weakref

import numpy as np

from stowplan.api.resources import SERVICES
from stowplan.api.workload_objects import Service
from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.compare import find_drift
from stowplan.cluster.rebuild import discard, fill, rebuild
from stowplan.testing import node, pod


def _cache() -> ClusterCache:
    """Five rows: one was freed and given to another node, one is free, one is a ghost."""
    cache = ClusterCache()
    for name, zone in (("a", "z2"), ("b", "z1"), ("c", "z1"), ("d", "z2")):
        cache.set_node(node(name, zone=zone, images={f"image-{name}": 5, "all": ord(name)}))
    cache.add_pod(pod("on-ghost", node="ghost", cpu=1))
    cache.add_pod(pod("on-c", node="c", cpu=1))
    cache.assume(pod("assumed", cpu=2), "d")
    cache.remove_node("a")
    cache.remove_node("b")
    cache.set_node(node("e", zone="z0"))
    return cache


def _twin(cache: ClusterCache) -> ClusterCache:
    twin = ClusterCache()
    fill(twin, cache)
    return twin


def test_rows_keep_their_slots_and_pods() -> None:
    cache = _cache()
    table, twin = cache.table, _twin(cache).table
    assert twin.names == table.names
    assert twin.row_of == table.row_of
    assert twin.nodes == table.nodes
    assert [list(pods) for pods in twin.pods] == [list(pods) for pods in table.pods]
    assert list(twin.ghost_names()) == ["ghost"]
    assert np.array_equal(twin.valid, table.valid)
    assert not list(find_drift(twin))


def test_assumed_pods_stay_assumed() -> None:
    cache = _cache()
    twin = _twin(cache)
    assert list(twin.placed()) == list(cache.placed())
    assert twin.assumed_count == cache.assumed_count == 1


def test_the_order_of_nodes_is_kept() -> None:
    cache = _cache()
    assert np.array_equal(_twin(cache).table.order, cache.table.order)


def test_an_order_that_lags_behind_the_zones_is_kept() -> None:
    """As in kube-scheduler, a node that moves changes its place only when another one comes."""
    cache = _cache()
    before = cache.table.order.tolist()
    cache.set_node(node("d", zone="z9"))
    cache.set_node(node("c", zone="z2"))
    twin = _twin(cache)
    assert twin.table.order.tolist() == cache.table.order.tolist() == before
    for each in (cache, twin):
        each.set_node(node("f", zone="z1"))
    assert twin.table.order.tolist() == cache.table.order.tolist() != before


def test_an_order_of_other_nodes_is_not_kept() -> None:
    cache = _cache()
    cache.table.keep_order(cache.table.order[1:])
    assert sorted(_twin(cache).table.order.tolist()) == cache.table.live_rows.tolist()


def test_the_next_node_gets_the_same_row() -> None:
    cache = _cache()
    twin = _twin(cache)
    assert cache.table.set_node(node("next")) == twin.table.set_node(node("next"))


def test_images_keep_the_size_that_was_reported_first() -> None:
    cache = ClusterCache()
    for name, size in (("a", 1), ("b", 2)):
        cache.set_node(node(name, images={"all": size}))
    cache.remove_node("a")
    for each in (cache, _twin(cache)):
        held = each.table.images.get("all")
        assert held is not None
        assert held.size == 1


def test_objects_of_the_catalog_are_shared_and_their_shelves_are_not() -> None:
    cache = _cache()
    service = Service()
    cache.catalog[SERVICES].set(service)
    twin = _twin(cache)
    assert list(twin.catalog[SERVICES]) == [service]
    twin.catalog[SERVICES].remove("")
    assert list(cache.catalog[SERVICES]) == [service]


def test_in_place_wrong_columns_are_right_again_and_readers_rebuild() -> None:
    cache = _cache()
    table = cache.table
    positions = [journal.end for journal in (table.pod_journal, table.node_journal)]
    version = cache.catalog[SERVICES].version
    table.pod_count[:] = 7
    table.resources.hold(0, (("cpu", 99),), 1)
    placed = list(cache.placed())
    rebuild(cache)
    assert cache.table is table
    assert not list(find_drift(table))
    assert list(cache.placed()) == placed
    assert [
        journal.entries_since(position)
        for position, journal in zip(
            positions, (table.pod_journal, table.node_journal), strict=True
        )
    ] == [None, None]
    assert cache.catalog[SERVICES].version > version
    for uid in list(cache.placements()):
        assert cache.remove_pod(uid)
    assert not list(find_drift(table))


def test_a_discarded_cache_is_freed_at_once() -> None:
    cache = _cache()
    gc.collect()
    gc.disable()
    try:
        twin = _twin(cache)
        labels, terms = weakref.ref(twin.table.labels), weakref.ref(twin.table.affinity_terms)
        discard(twin)
        assert labels() is None
        assert terms() is None
    finally:
        gc.enable()
