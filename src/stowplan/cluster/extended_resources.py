"""Extended resources that devices stand for: which DeviceClass answers for a resource name.

A pod that asks for `example.com/gpu` in its containers can get devices of a class with that
`spec.extendedResourceName`, on nodes that do not offer the resource by a device plugin. Every class
also answers for `deviceclass.resource.kubernetes.io/NAME`. Read by NodeResourcesFit, which leaves
such resources to DynamicResources, and by DynamicResources itself.

DIVERGES: the answer depends on the classes that exist, not on the order of their changes. Upstream
forgets a resource when one of two classes with its name is deleted, and keeps the old version of a
class that changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from stowplan.api.device_objects import DeviceClass
from stowplan.api.resources import DEVICE_CLASSES
from stowplan.cluster.catalog import Catalog
from stowplan.cluster.journal import Rows
from stowplan.cluster.requests import is_extended
from stowplan.cluster.table import Int64Array, NodeTable

#: The prefix of the name by which every class can be asked for.
CLASS_PREFIX: Final = "deviceclass.resource.kubernetes.io/"


def can_be_devices(name: str) -> bool:
    """Whether a resource of this name can be backed by devices."""
    return is_extended(name) or name.startswith(CLASS_PREFIX)


class Totals(NamedTuple):
    """How many devices of a class each row has, and how many of them are taken. Read only."""

    devices: Int64Array
    taken: Int64Array

    def in_place_of(
        self, offered: Int64Array, held: Int64Array, rows: Rows | slice
    ) -> tuple[Int64Array, Int64Array]:
        """Offered and held amounts with devices where nothing is offered by a device plugin."""
        devices = self.devices[rows]
        is_used = (offered == 0) & (devices > 0)
        return np.where(is_used, devices, offered), np.where(is_used, self.taken[rows], held)

    def of_row(self, row: int, offered: int, held: int) -> tuple[int, int]:
        """`in_place_of` for one row."""
        if offered or not self.devices[row]:
            return offered, held
        return int(self.devices[row]), int(self.taken[row])


class DeviceClassByResource:
    """Resource name -> class, for all profiles: `catalog.shared(DeviceClassByResource)`."""

    def __init__(self, catalog: Catalog) -> None:
        self._classes = catalog[DEVICE_CLASSES]
        self._classes.listeners.append(self._changed)
        #: Explicit names: the classes that have one, by the class's name.
        self._named: dict[str, dict[str, DeviceClass]] = {}
        #: Read only. Callers check first whether it is empty, as it is in most clusters.
        self.by_resource: dict[str, DeviceClass] = {}
        #: Counts the devices of a class; set by DynamicResources.
        self.count: Callable[[NodeTable, DeviceClass], Totals] | None = None
        self.reset(self)

    def reset(self, like: DeviceClassByResource) -> None:
        self._named, self.by_resource = {}, {}
        for one in self._classes:
            self._changed(None, one)

    def __len__(self) -> int:
        return len(self.by_resource)

    def get(self, resource: str) -> DeviceClass | None:
        """The class whose devices stand for a resource."""
        return self.by_resource.get(resource)

    def totals(self, table: NodeTable, resource: str) -> Totals | None:
        """The devices that stand for a resource; None if none do."""
        found = self.by_resource.get(resource)
        if found is None or self.count is None or not can_be_devices(resource):
            return None
        return self.count(table, found)

    def among(self, resources: tuple[tuple[str, int], ...]) -> tuple[str, ...]:
        """The names of a pod's request that a class answers for."""
        if not self.by_resource:
            return ()
        return tuple(name for name, amount in resources if amount and name in self.by_resource)

    def _changed(self, old: DeviceClass | None, new: DeviceClass | None) -> None:
        touched: set[str] = set()
        if old is not None:
            self.by_resource.pop(CLASS_PREFIX + old.metadata.name, None)
            if old.spec.extended_resource_name:
                touched.add(old.spec.extended_resource_name)
                self._named[old.spec.extended_resource_name].pop(old.metadata.name, None)
        if new is not None:
            self.by_resource[CLASS_PREFIX + new.metadata.name] = new
            if new.spec.extended_resource_name:
                touched.add(new.spec.extended_resource_name)
                named = self._named.setdefault(new.spec.extended_resource_name, {})
                named[new.metadata.name] = new
        for name in touched:
            classes = self._named[name]
            if classes:
                self.by_resource[name] = _preferred(classes)
            else:
                del self._named[name]
                self.by_resource.pop(name, None)


def _preferred(classes: dict[str, DeviceClass]) -> DeviceClass:
    """The newest class; of equally old ones the first by name."""
    newest = max(one.metadata.creation_timestamp or "" for one in classes.values())
    name = min(
        name for name, one in classes.items() if (one.metadata.creation_timestamp or "") == newest
    )
    return classes[name]
