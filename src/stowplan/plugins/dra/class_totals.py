"""How many devices of a class each node has, and how many of them are taken.

NodeResourcesFit and NodeResourcesBalancedAllocation score extended resources that devices stand for
by these numbers (`cluster.extended_resources`). As upstream, they count what slices list, whether
or not the allocator could use it: pools may be incomplete, devices tainted.

DIVERGES: a device that changes is matched again. Upstream remembers for ever that a device of a
name matched, and NodeResourcesBalancedAllocation crashes if the class has selectors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from stowplan.api.device_objects import Device, DeviceClass, ResourceSlice
from stowplan.api.objects import NodeSelector
from stowplan.api.resources import RESOURCE_SLICES
from stowplan.cluster.catalog import Catalog
from stowplan.cluster.extended_resources import Totals
from stowplan.cluster.journal import Rows
from stowplan.cluster.table import BoolArray, Int64Array, NodeTable
from stowplan.cluster.work import STEP, Work
from stowplan.plugins.dra.facts import DeviceFacts
from stowplan.plugins.dra.pools import DeviceId, device_id, node_matches

#: Classes that are counted at a time; more are counted again and again.
_MOST_CLASSES = 16


class ClassTotals:
    """The numbers of all classes, kept up to date by change."""

    def __init__(self, catalog: Catalog, facts: DeviceFacts) -> None:
        self._slices = catalog[RESOURCE_SLICES]
        self._facts = facts
        self._of_class: dict[str, _Counted] = {}

    def of(self, table: NodeTable, device_class: DeviceClass) -> Totals:
        """Devices and taken devices by row. Read only."""
        name = device_class.metadata.name
        generation = (table.node_journal.end, self._slices.version)
        counted = self._of_class.get(name)
        if counted is None or counted.device_class is not device_class:
            if len(self._of_class) >= _MOST_CLASSES:
                self._of_class.clear()
            counted = self._of_class[name] = _Counted(device_class)
        if counted.generation != generation:
            counted.count(table, self._slices)
            counted.generation = generation
        counted.follow(self._facts)
        return Totals(counted.devices, counted.taken)


class _Counted:
    """The numbers of one class."""

    def __init__(self, device_class: DeviceClass) -> None:
        self.device_class = device_class
        self.generation: tuple[int, int] | None = None
        self.devices: Int64Array = np.zeros(0, np.int64)
        self.taken: Int64Array = np.zeros(0, np.int64)
        #: Devices that match; None: a selector failed.
        self._matches: dict[str, tuple[ResourceSlice, list[Device] | None]] = {}
        #: By slice: two generations of a pool can list the same device.
        self._rows_of: dict[DeviceId, list[Rows]] = {}
        self._held: set[DeviceId] = set()
        self._position = -1

    def count(self, table: NodeTable, slices: Iterable[ResourceSlice]) -> None:
        self.devices = np.zeros(table.capacity, np.int64)
        failed: BoolArray = np.zeros(table.capacity, np.bool_)
        self._rows_of = {}
        known, self._matches = self._matches, {}
        for one in slices:
            entry = known.get(one.metadata.name)
            if entry is None or entry[0] is not one:
                entry = known[one.metadata.name] = one, self._matching(one, table.work)
            self._matches[one.metadata.name] = entry
            for device, rows in _rows_of_devices(one, entry[1], table):
                if device is None:
                    failed[rows] = True
                else:
                    self._rows_of.setdefault(device_id(one, device), []).append(rows)
                    self.devices[rows] += 1
        self.devices[failed] = 0
        self._position = -1

    def _matching(self, one: ResourceSlice, work: Work) -> list[Device] | None:
        # CEL is loaded with the first pod that needs it.
        from stowplan.plugins.dra.requests import AllocationError, class_selects

        found: list[Device] = []
        for device in one.spec.devices or ():
            try:
                selects, cost = class_selects(self.device_class, one, device)
            except AllocationError:
                return None
            if selects:
                found.append(device)
            work.spend(STEP * cost)
        return found

    def follow(self, facts: DeviceFacts) -> None:
        log = facts.allocated.log
        changed = log.entries_since(self._position)
        self._position = log.end
        if changed is None:
            self._held = set()
            self.taken = np.zeros(len(self.devices), np.int64)
            changed = list(self._rows_of)
        for device in set(changed):
            is_held = device in facts.allocated
            if is_held != (device in self._held):
                for rows in self._rows_of.get(device, ()):
                    self.taken[rows] += 1 if is_held else -1
                (self._held.add if is_held else self._held.discard)(device)


def _rows_of_devices(
    one: ResourceSlice, devices: list[Device] | None, table: NodeTable
) -> Iterator[tuple[Device | None, Rows]]:
    """The devices of a slice with the rows that can use them; None for a slice that failed."""
    spec = one.spec
    if spec.per_device_node_selection:
        for device in (spec.devices or ()) if devices is None else devices:
            rows = _rows(table, device.node_name, device.all_nodes, device.node_selector)
            yield None if devices is None else device, rows
        return
    if spec.node_name or spec.all_nodes or spec.node_selector is not None:
        rows = _rows(table, spec.node_name, spec.all_nodes, spec.node_selector)
    else:
        rows = table.live_rows
    if devices is None:
        yield None, rows
    for device in devices or ():
        yield device, rows


def _rows(
    table: NodeTable, name: str | None, all_nodes: bool | None, selector: NodeSelector | None
) -> Rows:
    if all_nodes:
        return table.live_rows
    if name:
        row = table.live_row(name)
        return np.array([] if row is None else [row], np.intp)
    chosen = [
        row
        for row in table.live_rows.tolist()
        if node_matches(table.node(row), name, all_nodes, selector)
    ]
    return np.array(chosen, np.intp)
