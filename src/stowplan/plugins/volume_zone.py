"""VolumeZone: a pod goes to a zone and region in which its volumes are.

Only volumes that are bound count, and of those only zone and region labels (node affinity of
volumes is VolumeBinding's). A label may list several zones, as `a__b`. A node without any such
label is in a cluster of one zone and always right. For the column, each label of a volume becomes
a look-up by value id in the node's label column; where a node lacks the beta label that a volume
has, its newer label is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from stowplan.api.objects import Pod
from stowplan.api.resources import (
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
)
from stowplan.api.storage_objects import PersistentVolume, PersistentVolumeClaim, StorageClass
from stowplan.cluster.catalog import Catalog
from stowplan.cluster.csi_migration import BETA_REGION, BETA_ZONE, REGION, ZONE, ZONE_DELIMITER
from stowplan.cluster.label_columns import ABSENT
from stowplan.cluster.pod_volumes import class_of_claim, named_claims, not_found
from stowplan.cluster.table import BoolArray, Int32Array, NodeTable
from stowplan.cluster.views import NodeView, Overlay
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import RowSet, takes_slices
from stowplan.framework.handle import Handle
from stowplan.framework.plugin import Plugin
from stowplan.framework.status import SKIP, Status, unresolvable
from stowplan.queue.events import ActionType, ClusterEvent, EventHint, EventResource
from stowplan.queue.topics import all_or_none, own_claims

_ELSEWHERE = unresolvable("node(s) had no available volume zone")
_NO_CLAIM_NAME = unresolvable("PersistentVolumeClaim had no name")
_NO_CLASS = unresolvable("PersistentVolumeClaim had no pv name and storageClass name")
_NOT_BOUND = unresolvable("PersistentVolume had no name")

_LABELS = (BETA_ZONE, BETA_REGION, ZONE, REGION)
_NEWER = {BETA_ZONE: ZONE, BETA_REGION: REGION}
#: Every node's verdict when PreFilter is disabled and would have refused; 1 is "elsewhere".
_REFUSED_ID = 2
_WAITS = "WaitForFirstConsumer"


class Topology(NamedTuple):
    """A label of a volume: the node's must have one of the values."""

    key: str
    values: frozenset[str]


_Topologies: TypeAlias = tuple[Topology, ...]


class VolumeZone(Plugin):
    name = "VolumeZone"
    looks_up = (PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES)
    overlays = True

    def __init__(self, args: None = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        catalog = handle.catalog if handle else Catalog()
        self._claims = catalog[PERSISTENT_VOLUME_CLAIMS]
        self._volumes = catalog[PERSISTENT_VOLUMES]
        self._classes = catalog[STORAGE_CLASSES]

    def pre_filter(self, cycle: Cycle) -> Status | None:
        if not cycle.info.volumes:
            return SKIP
        found = self._found(cycle)
        if isinstance(found, Status):
            return found
        return None if found else SKIP

    @takes_slices
    def filter_columns(
        self, cycle: Cycle, rows: RowSet, out: Int32Array, overlay: Overlay | None
    ) -> None:
        table, found = cycle.table, self._found(cycle)
        if isinstance(found, Status):
            out[rows] = _REFUSED_ID
            return
        is_anywhere = np.any([table.labels.column(key)[rows] != ABSENT for key in _LABELS], axis=0)
        fits = [_where(table, topology, rows) for topology in found]
        out[rows] = is_anywhere & ~np.all(fits, axis=0)

    def verdict(self, cycle: Cycle, verdict_id: int) -> Status:
        found = self._found(cycle)
        return found if isinstance(found, Status) else _ELSEWHERE

    def filter(self, pod: Pod, node: NodeView, cycle: Cycle) -> Status | None:
        labels, found = node.labels, self._found(cycle)
        if isinstance(found, Status):
            return found
        if labels.keys().isdisjoint(_LABELS):
            return None
        for key, values in found:
            value = labels.get(key)
            if value is None:
                value = labels.get(_NEWER.get(key, key))
            if value not in values:
                return _ELSEWHERE
        return None

    def _found(self, cycle: Cycle) -> _Topologies | Status:
        """What PreFilter found; where that is disabled, its refusal is every node's."""
        if self.name not in cycle.notes:
            cycle.write(self.name, self._topologies_of(cycle.pod))
        found: _Topologies | Status = cycle.read(self.name)
        return found

    def _topologies_of(self, pod: Pod) -> _Topologies | Status:
        """The labels of all volumes that the pod's claims are bound to, or why it must wait."""
        found: list[Topology] = []
        for name in named_claims(pod):
            if not name:
                return _NO_CLAIM_NAME
            claim = self._claims.get(name, pod.metadata.namespace)
            if claim is None:
                return unresolvable(not_found(PERSISTENT_VOLUME_CLAIMS, name))
            volume_name = claim.spec.volume_name
            if not volume_name:
                problem = self._why_unbound(claim)
                if problem is not None:
                    return problem
                continue
            volume = self._volumes.get(volume_name)
            if volume is None:
                return unresolvable(not_found(PERSISTENT_VOLUMES, volume_name))
            found += _topologies(volume)
        return tuple(found)

    def _why_unbound(self, claim: PersistentVolumeClaim) -> Status | None:
        """None for a claim that is only bound once the pod has a node."""
        class_name = class_of_claim(claim)
        if not class_name:
            return _NO_CLASS
        storage_class = self._classes.get(class_name)
        if storage_class is None:
            return unresolvable(not_found(STORAGE_CLASSES, class_name))
        mode = storage_class.volume_binding_mode
        if mode is None:
            return unresolvable(f'VolumeBindingMode not set for StorageClass "{class_name}"')
        return None if mode == _WAITS else _NOT_BOUND

    # Coming back

    def events(self) -> Sequence[EventHint]:
        add, change = ActionType.ADD, ActionType.ADD | ActionType.UPDATE
        node = ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL)
        return (
            EventHint(ClusterEvent(EventResource.STORAGE_CLASS, add), topics=_CLASSES),
            EventHint(node),
            EventHint(ClusterEvent(EventResource.PERSISTENT_VOLUME_CLAIM, change), topics=_CLAIMS),
            EventHint(ClusterEvent(EventResource.PERSISTENT_VOLUME, change), topics=_VOLUMES),
        )


def _topologies(volume: PersistentVolume) -> list[Topology]:
    """A volume's zone and region labels; one that lists an empty zone is not understood."""
    labels = volume.metadata.labels or {}
    found: list[Topology] = []
    for key in _LABELS:
        if key in labels:
            values = frozenset(part.strip() for part in labels[key].split(ZONE_DELIMITER))
            if "" not in values:
                found.append(Topology(key, values))
    return found


def _where(table: NodeTable, topology: Topology, rows: RowSet) -> BoolArray:
    """Which of `rows` have one of the values at the key, or at the newer key that replaced it."""
    fits, column = _has_value(table, topology.key, topology.values, rows)
    newer = _NEWER.get(topology.key)
    if newer is not None:
        fits_newer, _ = _has_value(table, newer, topology.values, rows)
        fits = np.where(column == ABSENT, fits_newer, fits)
    return fits


def _has_value(
    table: NodeTable, key: str, wanted: frozenset[str], rows: RowSet
) -> tuple[BoolArray, Int32Array]:
    column = table.labels.column(key)[rows]
    values = table.labels.values(key)
    # The last entry is for nodes without the label, where `ABSENT` (-1) finds it.
    holds = np.zeros(len(values) + 1, np.bool_)
    holds[[number for value in wanted if (number := values.get(value)) is not None]] = True
    return holds[column], column


def _class_waits(_old: object, new: object) -> bool:
    """Only a class that binds late lets a pod go on with an unbound claim."""
    return not isinstance(new, StorageClass) or new.volume_binding_mode == _WAITS


def _volume_moved(old: object, new: object) -> bool:
    if not isinstance(old, PersistentVolume) or not isinstance(new, PersistentVolume):
        return True
    return _topologies(old) != _topologies(new)


_CLASSES, _VOLUMES = all_or_none(_class_waits), all_or_none(_volume_moved)
_CLAIMS = own_claims(named_claims)
