"""Rows whose nodes have migrated to a CSI driver: what rebuilds the mask."""

from __future__ import annotations

from stowplan.api.objects import ObjectMeta
from stowplan.api.resources import CSI_NODES
from stowplan.api.storage_objects import CSINode
from stowplan.cluster.cache import ClusterCache
from stowplan.plugins.volume_binding.reach import MigratedRows
from stowplan.testing import node

PLUGIN = "kubernetes.io/aws-ebs"
MIGRATED = {"storage.alpha.kubernetes.io/migrated-plugins": PLUGIN}


def csi_node(name: str, **annotations: str) -> CSINode:
    return CSINode(metadata=ObjectMeta(name=name, annotations=annotations or None))


def migrated(rows: MigratedRows, cache: ClusterCache) -> set[str]:
    mask = rows.mask(cache.table, PLUGIN)
    assert len(mask) == cache.table.capacity
    return {cache.table.names[row] for row in mask.nonzero()[0]}


def test_a_csi_node_that_changes_rebuilds_the_mask() -> None:
    cache = ClusterCache()
    cache.set_node(node("n1"))
    rows = MigratedRows(cache.catalog)
    assert migrated(rows, cache) == set()
    cache.catalog[CSI_NODES].set(csi_node("n1", **MIGRATED))
    assert migrated(rows, cache) == {"n1"}
    cache.catalog[CSI_NODES].set(csi_node("n1"))
    assert migrated(rows, cache) == set()


def test_a_node_that_comes_or_goes_and_a_table_that_grows_rebuild_the_mask() -> None:
    cache = ClusterCache()
    rows = MigratedRows(cache.catalog)
    cache.catalog[CSI_NODES].set(csi_node("n1", **MIGRATED))
    assert migrated(rows, cache) == set()
    cache.set_node(node("n1"))
    assert migrated(rows, cache) == {"n1"}
    for number in range(100):
        cache.set_node(node(f"more-{number}"))
        assert migrated(rows, cache) == {"n1"}
    cache.remove_node("n1")
    assert migrated(rows, cache) == set()


def test_another_table_has_a_mask_of_its_own() -> None:
    cache, other = ClusterCache(), ClusterCache()
    rows = MigratedRows(cache.catalog)
    cache.catalog[CSI_NODES].set(csi_node("n1", **MIGRATED))
    cache.set_node(node("n1"))
    other.set_node(node("n2"))
    other.set_node(node("n1"))
    assert migrated(rows, cache) == migrated(rows, other) == {"n1"}
