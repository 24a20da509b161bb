"""How many volumes of each CSI driver are attached to each row, and how many may be.

NodeVolumeLimits asks; one index serves all profiles (`catalog.shared(AttachedVolumes)`). Only rows
whose CSINode names a limit are counted, and a row is counted again only when its pods with
volumes, its CSINode, its VolumeAttachments or something that one of its volumes leads to changes.
What must stay true after `refresh`: `limit` and `attached` equal a recount over the table's pods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import numpy as np

from stowplan.api.resources import (
    CSI_NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
    VOLUME_ATTACHMENTS,
    Resource,
)
from stowplan.api.storage_objects import CSINode, VolumeAttachment
from stowplan.cluster.attachable import Attachable, AttachableReader, AttachError, Key
from stowplan.cluster.catalog import Catalog, Cataloged
from stowplan.cluster.derived import Derived
from stowplan.cluster.table import BoolArray, Int64Array, NodeTable

#: More than any driver allows.
NO_LIMIT = 2**62
_LOOKED_UP: tuple[Resource[Any], ...] = (
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
)
_K = TypeVar("_K", bound=Hashable)


def limits_of(csi_node: CSINode | None) -> dict[str, int]:
    """How many volumes of each driver a node may have; drivers without a limit are absent."""
    drivers = csi_node.spec.drivers if csi_node is not None else None
    return {
        driver.name: driver.allocatable.count
        for driver in drivers or ()
        if driver.allocatable is not None and driver.allocatable.count is not None
    }


def count_by_driver(
    by_pods: Attachable, attachments: Iterable[VolumeAttachment], reader: AttachableReader
) -> Counter[str]:
    """Volumes that a node has because pods there use them, or because they are still attached."""
    counts = Counter(by_pods.values())
    attached = {}
    for attachment in attachments:
        spec = attachment.spec
        volume = reader.attachment(spec.attacher, spec.source.persistent_volume_name)
        if volume is not None and volume not in by_pods:
            attached[volume] = spec.attacher
    counts.update(attached.values())
    return counts


class Driver:
    """A driver's columns: what each row may have attached, and what it has."""

    def __init__(self, capacity: int) -> None:
        self.limit: Int64Array = np.full(capacity, NO_LIMIT, np.int64)
        self.attached: Int64Array = np.zeros(capacity, np.int64)


@dataclass(slots=True)
class _Row:
    """A row's counted volumes, to subtract before it is counted again."""

    name: str
    limits: dict[str, int]
    by_pods: Attachable = field(default_factory=dict)
    looked_at: set[Key] = field(default_factory=set)


class AttachedVolumes(Derived[int]):
    """Columns by driver, and where each volume is attached because a pod there uses it."""

    def __init__(self, catalog: Catalog) -> None:
        super().__init__()
        self._catalog = catalog
        #: Attachments by node and name.
        self._attachments: dict[str, dict[str, VolumeAttachment]] = {}
        #: Nodes and rows to be counted again.
        self._stale_nodes: set[str] = set()
        self._stale: set[int] = set()
        self.reset(self)
        catalog[VOLUME_ATTACHMENTS].listeners.append(self._attachment_changed)
        catalog[CSI_NODES].listeners.append(self._csi_node_changed)
        for resource in _LOOKED_UP:
            catalog[resource].listeners.append(partial(self._object_changed, resource.plural))

    def reset(self, like: AttachedVolumes) -> None:
        """Read the attachments again, and count all rows when the next decision asks."""
        super().__init__()
        self._attachments.clear()
        for attachment in self._catalog[VOLUME_ATTACHMENTS]:
            self._attachment_changed(None, attachment)
        self._start(None)

    # Asking

    def driver(self, name: str) -> Driver | None:
        """A driver's columns; None when no row limits it."""
        return self._drivers.get(name)

    @property
    def has_csi_node(self) -> BoolArray:
        """Rows whose node has a CSINode."""
        return self._has_csi_node

    @property
    def problems(self) -> Mapping[int, str]:
        """Limited rows whose attached volumes are unknown, with the reason."""
        return self._problems

    def rows_with(self, volume: str) -> Collection[int]:
        """The limited rows where some pod uses a volume, by its unique name."""
        return self._users.get(volume, ())

    def attachments_on(self, node: str) -> Collection[VolumeAttachment]:
        return self._attachments.get(node, {}).values()

    # What happened

    def _object_changed(self, plural: str, old: Cataloged | None, new: Cataloged | None) -> None:
        """Count the rows again that depend on a changed claim, volume or class."""
        thing = new or old
        assert thing is not None
        key = (plural, thing.metadata.namespace, thing.metadata.name)
        self._stale.update(self._dependents.get(key, ()))

    def _csi_node_changed(self, old: CSINode | None, new: CSINode | None) -> None:
        thing = new or old
        assert thing is not None
        self._stale_nodes.add(thing.metadata.name)

    def _attachment_changed(
        self, old: VolumeAttachment | None, new: VolumeAttachment | None
    ) -> None:
        if old is not None:
            there = self._attachments[old.spec.node_name]
            del there[old.metadata.name]
            if not there:
                del self._attachments[old.spec.node_name]
            self._stale_nodes.add(old.spec.node_name)
        if new is not None:
            self._attachments.setdefault(new.spec.node_name, {})[new.metadata.name] = new
            self._stale_nodes.add(new.spec.node_name)

    # Catching up

    def follow(self, table: NodeTable) -> None:
        """Apply changes of the table and the catalog; cheap if there are none."""
        journals = (table.used_volumes.journal, table.node_journal)
        rows = self.changes(None, journals)
        if rows is None:
            self._start(table)
            self.stamp(None, journals)
            rows = table.live_rows.tolist()
        self._stale.update(rows)
        self.confirm(None)
        for name in self._stale_nodes:
            row = table.row_of.get(name)
            if row is not None:
                self._stale.add(row)
        self._stale_nodes.clear()
        for row in self._stale:
            self._count(table, row)
        self._stale.clear()

    def _start(self, table: NodeTable | None) -> None:
        self._capacity = table.capacity if table is not None else 0
        self._drivers: dict[str, Driver] = {}
        self._has_csi_node: BoolArray = np.zeros(self._capacity, np.bool_)
        self._users: dict[str, set[int]] = {}
        self._problems: dict[int, str] = {}
        self._rows: dict[int, _Row] = {}
        self._dependents: dict[Key, set[int]] = {}
        self._stale.clear()

    def _count(self, table: NodeTable, row: int) -> None:
        self._take_back(row)
        if not table.valid[row]:
            return
        name = table.names[row]
        csi_node = self._catalog[CSI_NODES].get(name)
        self._has_csi_node[row] = csi_node is not None
        known = self._rows[row] = _Row(name, limits_of(csi_node))
        if not known.limits:
            return
        reader = AttachableReader(self._catalog)
        try:
            for info in table.used_volumes.pods_on(row).values():
                known.by_pods.update(reader.of_standing(info))
        except AttachError as problem:
            self._problems[row] = str(problem)
        counts = count_by_driver(known.by_pods, self.attachments_on(name), reader)
        known.looked_at = reader.looked_at
        for key in known.looked_at:
            self._dependents.setdefault(key, set()).add(row)
        for volume in known.by_pods:
            self._users.setdefault(volume, set()).add(row)
        for driver_name, limit in known.limits.items():
            driver = self._drivers.get(driver_name)
            if driver is None:
                driver = self._drivers[driver_name] = Driver(self._capacity)
            driver.limit[row] = limit
            driver.attached[row] = counts[driver_name]

    def _take_back(self, row: int) -> None:
        self._has_csi_node[row] = False
        self._problems.pop(row, None)
        known = self._rows.pop(row, None)
        if known is None:
            return
        for driver_name in known.limits:
            self._drivers[driver_name].limit[row] = NO_LIMIT
            self._drivers[driver_name].attached[row] = 0
        for volume in known.by_pods:
            _discard(self._users, volume, row)
        for key in known.looked_at:
            _discard(self._dependents, key, row)


def _discard(rows_by: dict[_K, set[int]], key: _K, row: int) -> None:
    rows = rows_by[key]
    rows.discard(row)
    if not rows:
        del rows_by[key]
