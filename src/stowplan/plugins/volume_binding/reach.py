"""Bound volumes: which nodes reach them.

A volume's node affinity decides. If it is a cloud's disk of old (an in-tree volume) and the node
says that its CSI driver has taken over, the affinity is read as the driver's: in terms of the
driver's own topology labels. So a volume is one mask for each of the two readings.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from stowplan.api.resources import CSI_NODES
from stowplan.api.selectors import CompiledNodeSelector
from stowplan.api.storage_objects import CSINode, PersistentVolume
from stowplan.cluster.catalog import Catalog
from stowplan.cluster.csi_migration import (
    SWITCHED_ON,
    CannotTranslateError,
    is_migrated_on,
    plugin_of,
    translate,
)
from stowplan.cluster.journal import Rows
from stowplan.cluster.node_masks import node_selector_mask
from stowplan.cluster.table import BoolArray, NodeTable
from stowplan.plugins.volume_binding.volume_index import affinity_of


class MigratedRows:
    """Which rows' nodes serve an in-tree plugin's volumes by a CSI driver; kept until one changes
    its mind."""

    def __init__(self, catalog: Catalog) -> None:
        self._csi_nodes = catalog[CSI_NODES]
        self._masks: dict[str, BoolArray] = {}
        self._versions = (-1, -1)

    def mask(self, table: NodeTable, plugin: str) -> BoolArray:
        """A mask over all rows of the table."""
        versions = (self._csi_nodes.version, table.layout_journal.end)
        if versions != self._versions:
            self._masks.clear()
            self._versions = versions
        mask = self._masks.get(plugin)
        if mask is None:
            mask = self._masks[plugin] = np.zeros(table.capacity, np.bool_)
            for csi_node in self._csi_nodes:
                row = table.live_row(csi_node.metadata.name)
                if row is not None and is_migrated_on(csi_node, plugin):
                    mask[row] = True
        return mask


def reaches(volume: PersistentVolume, labels: Mapping[str, str], csi_node: CSINode | None) -> bool:
    """True if a node with these labels reaches a volume; ValueError if that is undefined."""
    plugin = _migratable(volume)
    if plugin is not None and is_migrated_on(csi_node, plugin):
        affinity = _as_csi(volume)
    else:
        affinity = affinity_of(volume.spec.node_affinity)
    return affinity is None or affinity.matches(labels, "")


def reach_mask(
    table: NodeTable, volume: PersistentVolume, rows: Rows, migrated: MigratedRows
) -> BoolArray:
    """`reaches` for many rows."""
    mask = affinity_mask(table, affinity_of(volume.spec.node_affinity), rows)
    plugin = _migratable(volume)
    if plugin is not None:
        is_csi = migrated.mask(table, plugin)[rows]
        if is_csi.any():
            mask = np.where(is_csi, affinity_mask(table, _as_csi(volume), rows), mask)
    return mask


def affinity_mask(table: NodeTable, affinity: CompiledNodeSelector | None, rows: Rows) -> BoolArray:
    if affinity is None:
        return np.ones(len(rows), np.bool_)
    return node_selector_mask(table, affinity, rows)


def _migratable(volume: PersistentVolume) -> str | None:
    plugin = plugin_of(volume.spec)
    return plugin if plugin in SWITCHED_ON else None


def _as_csi(volume: PersistentVolume) -> CompiledNodeSelector | None:
    try:
        return affinity_of(translate(volume).spec.node_affinity)
    except CannotTranslateError as problem:
        raise ValueError(f"could not translate pv: {problem}") from problem
