"""Claims that get no volume that exists: can one be made on a node?

The claim's class must have a provisioner, must allow the node's topology, and the provisioner must
have room for so large a volume there. Room is known only of CSI drivers that publish it, as
CSIStorageCapacity objects, each for a class and a selector of nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from stowplan.api.labels import make_requirement
from stowplan.api.quantity import value
from stowplan.api.resources import CSI_DRIVERS, CSI_STORAGE_CAPACITIES, STORAGE_CLASSES
from stowplan.api.selectors import CompiledSelector, Requirement, compile_label_selector
from stowplan.api.storage_objects import (
    CSIStorageCapacity,
    PersistentVolumeClaim,
    TopologySelectorTerm,
)
from stowplan.cluster.catalog import Catalog
from stowplan.cluster.journal import Rows
from stowplan.cluster.node_masks import labels_mask
from stowplan.cluster.pod_volumes import class_of_claim
from stowplan.cluster.table import BoolArray, NodeTable
from stowplan.plugins.volume_binding.volume_index import STORAGE

#: Users choose sizes freely, so the cache is bounded.
_MOST_ROOMS = 1024
_NO_PROVISIONER = "kubernetes.io/no-provisioner"


class NodeSet:
    """Nodes that one of some selectors matches; None: all nodes."""

    def __init__(self, selectors: tuple[CompiledSelector, ...] | None) -> None:
        self._selectors = selectors

    def has(self, labels: Mapping[str, str]) -> bool:
        return self._selectors is None or any(each.matches(labels) for each in self._selectors)

    def mask(self, table: NodeTable, rows: Rows) -> BoolArray:
        if self._selectors is None:
            return np.ones(len(rows), np.bool_)
        mask = np.zeros(len(rows), np.bool_)
        for requirements in self._merged:
            mask |= labels_mask(table, requirements, rows)
        return mask

    @cached_property
    def _merged(self) -> list[tuple[Requirement, ...]]:
        return _merged(self._selectors or ())


ALL_NODES = NodeSet(None)
NO_NODES = NodeSet(())


@dataclass(frozen=True, slots=True)
class Provision:
    """Where a claim's volume may be made, and where there is room for it."""

    allowed: NodeSet
    with_room: NodeSet


class Provisioning:
    """Answers from the catalog; compiled capacities are kept until one of them changes."""

    def __init__(self, catalog: Catalog) -> None:
        self._classes = catalog[STORAGE_CLASSES]
        self._drivers = catalog[CSI_DRIVERS]
        self._capacities = catalog[CSI_STORAGE_CAPACITIES]
        self._by_class: dict[str, list[tuple[int, CompiledSelector]]] = {}
        self._version = -1
        #: Answers so far, by class and size.
        self._rooms: dict[tuple[str, int], NodeSet] = {}

    def of(self, claim: PersistentVolumeClaim) -> Provision:
        """ValueError if the claim's class is gone since the claim was looked at."""
        name = class_of_claim(claim)
        storage_class = self._classes.get(name)
        if storage_class is None:
            raise ValueError(f'failed to find storage class "{name}"')
        provisioner = storage_class.provisioner
        if provisioner in ("", _NO_PROVISIONER):
            return Provision(NO_NODES, NO_NODES)
        return Provision(
            _topology(storage_class.allowed_topologies or ()),
            self._with_room(claim, name, provisioner),
        )

    def _with_room(
        self, claim: PersistentVolumeClaim, class_name: str, provisioner: str
    ) -> NodeSet:
        requested = (claim.spec.resources.requests or {}).get(STORAGE)
        driver = self._drivers.get(provisioner)
        if requested is None or driver is None or not driver.spec.storage_capacity:
            return ALL_NODES
        if self._version != self._capacities.version:
            self._by_class = _compiled(self._capacities)
            self._version = self._capacities.version
            self._rooms.clear()
        size = value(requested)
        room = self._rooms.get((class_name, size))
        if room is None:
            pools = self._by_class.get(class_name, ())
            room = NodeSet(tuple(selector for limit, selector in pools if limit >= size))
            if len(self._rooms) < _MOST_ROOMS:
                self._rooms[class_name, size] = room
        return room


def volume_limit(capacity: CSIStorageCapacity) -> int | None:
    """The largest volume that can be made, in bytes, as far as the driver tells."""
    limit = capacity.maximum_volume_size
    if limit is None:
        limit = capacity.capacity
    return None if limit is None else value(limit)


def _compiled(
    capacities: Iterable[CSIStorageCapacity],
) -> dict[str, list[tuple[int, CompiledSelector]]]:
    by_class: dict[str, list[tuple[int, CompiledSelector]]] = {}
    for capacity in capacities:
        limit = volume_limit(capacity)
        if limit is None or capacity.node_topology is None:
            continue
        try:
            selector = compile_label_selector(capacity.node_topology)
        except ValueError:
            continue  # as upstream, which says so in its log and lets no node have access
        by_class.setdefault(capacity.storage_class_name, []).append((limit, selector))
    return by_class


@lru_cache(maxsize=1024)
def _topology(terms: tuple[TopologySelectorTerm, ...]) -> NodeSet:
    """No terms allow all nodes; an empty or invalid term allows none."""
    if not terms:
        return ALL_NODES
    selectors = []
    for term in terms:
        expressions = term.match_label_expressions or ()
        try:
            requirements = tuple(make_requirement(e.key, "In", e.values) for e in expressions)
        except ValueError:
            continue
        if requirements:
            selectors.append(CompiledSelector(requirements))
    return NodeSet(tuple(selectors))


def _merged(selectors: Iterable[CompiledSelector]) -> list[tuple[Requirement, ...]]:
    """The same nodes by fewer selectors: those that name values of one label become one, as
    there may be a pool of storage for each host."""
    merged: list[tuple[Requirement, ...]] = []
    values: dict[str, set[str]] = {}
    for selector in selectors:
        requirements = selector.requirements
        if len(requirements) == 1 and requirements[0].operator == "In":
            values.setdefault(requirements[0].key, set()).update(requirements[0].values)
        else:
            merged.append(requirements)
    merged += [(Requirement(key, "In", tuple(sorted(wanted))),) for key, wanted in values.items()]
    return merged
