"""VolumeRestrictions: a disk or claim that is to be used alone is used alone.

Two rules. A pod that names a cloud's disk directly (GCE, AWS, iSCSI, RBD) does not go to a node
where another pod has it, unless both only read; the column marks the rows that the table's index
of used disks names. And a claim with the access mode ReadWriteOncePod serves one pod in the whole
cluster: while another has it, no node will do. Evicting that pod would help, so what-if pods
change the count; as upstream counts them by the claim's name alone, whatever their namespace.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from stowplan.api.objects import Pod
from stowplan.api.resources import PERSISTENT_VOLUME_CLAIMS
from stowplan.cluster.catalog import Catalog
from stowplan.cluster.pod_info import PodInfo
from stowplan.cluster.pod_volumes import named_claims, not_found
from stowplan.cluster.table import Int32Array
from stowplan.cluster.used_volumes import Disk, any_clash, disks_of
from stowplan.cluster.views import NodeView, Overlay
from stowplan.errors import StatusError
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import RowSet, takes_slices
from stowplan.framework.handle import Handle
from stowplan.framework.plugin import Plugin
from stowplan.framework.status import SKIP, Status, unresolvable, unschedulable
from stowplan.queue.events import ActionType, ClusterEvent, EventHint, EventResource, Hint, Topics
from stowplan.queue.topics import own_claims

_DISK_TAKEN = unschedulable("node(s) had no available disk")
_CLAIM_TAKEN = unschedulable(
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
    "already in-use by another pod"
)
_DISK_TAKEN_ID, _CLAIM_TAKEN_ID = 1, 2


@dataclass(slots=True)
class Use:
    """What PreFilter found out about a pod."""

    disks: tuple[Disk, ...]
    #: The claims that want to be used alone.
    lone_claims: frozenset[str]
    #: How often other pods use those.
    conflicts: int
    #: False where PreFilter is disabled: then only disks are known.
    is_prepared: bool = True

    def clone(self) -> Use:
        return Use(self.disks, self.lone_claims, self.conflicts)


class VolumeRestrictions(Plugin):
    name = "VolumeRestrictions"
    looks_up = (PERSISTENT_VOLUME_CLAIMS,)
    overlays = True
    verdicts = (_DISK_TAKEN, _CLAIM_TAKEN)

    def __init__(self, args: None = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        self._claims = (handle.catalog if handle else Catalog())[PERSISTENT_VOLUME_CLAIMS]

    def pre_filter(self, cycle: Cycle) -> Status | None:
        volumes = cycle.info.volumes
        if not volumes:
            return SKIP
        namespace = cycle.pod.metadata.namespace
        lone: set[str] = set()
        for name in named_claims(cycle.pod):
            claim = self._claims.get(name, namespace)
            if claim is None:
                return unresolvable(not_found(PERSISTENT_VOLUME_CLAIMS, name))
            if "ReadWriteOncePod" in (claim.spec.access_modes or ()):
                lone.add(name)
        table = cycle.table
        conflicts = sum(
            any(table.valid[row] for row in table.used_volumes.rows_using(namespace, name))
            for name in lone
        )
        has_disks = any(
            volume.gce_persistent_disk
            or volume.aws_elastic_block_store
            or volume.iscsi
            or volume.rbd
            for volume in volumes
        )
        if not has_disks and not conflicts:
            return SKIP
        cycle.write(Use, Use(disks_of(volumes), frozenset(lone), conflicts))
        return None

    def what_if(self, cycle: Cycle, other: PodInfo, row: int, delta: int) -> None:
        use: Use = cycle.read(Use)
        use.conflicts += delta * sum(name in use.lone_claims for name in named_claims(other.pod))

    @takes_slices
    def filter_columns(
        self, cycle: Cycle, rows: RowSet, out: Int32Array, overlay: Overlay | None
    ) -> None:
        table, use = cycle.table, self._use(cycle)
        taken = np.full(table.capacity, _CLAIM_TAKEN_ID if use.conflicts > 0 else 0, np.int32)
        taken[list(table.used_volumes.rows_clashing(use.disks))] = _DISK_TAKEN_ID
        if overlay is not None:
            for row in overlay.rows.tolist():
                taken[row] = self._verdict(use, NodeView(table, row, overlay))
        out[rows] = taken[rows]
        asked = table.live_rows if isinstance(rows, slice) else rows
        if not use.is_prepared and not out[asked].all():
            raise self._unprepared()

    def filter(self, pod: Pod, node: NodeView, cycle: Cycle) -> Status | None:
        number = self._verdict(self._use(cycle), node)
        return self.verdicts[number - 1] if number else None

    def _verdict(self, use: Use, node: NodeView) -> int:
        if use.disks:
            taken = (disk for other in node.pod_infos for disk in disks_of(other.volumes))
            if any_clash(use.disks, taken):
                return _DISK_TAKEN_ID
        if not use.is_prepared:
            raise self._unprepared()
        return _CLAIM_TAKEN_ID if use.conflicts > 0 else 0

    def _use(self, cycle: Cycle) -> Use:
        return cycle.get(Use) or Use(disks_of(cycle.info.volumes), frozenset(), 0, False)

    def _unprepared(self) -> StatusError:
        """Upstream's answer where PreFilter is disabled and no disk is taken already."""
        message = f'cannot read "PreFilter{self.name}" from cycleState'
        return StatusError(self.name, "Filter", message)

    # Coming back

    def events(self) -> Sequence[EventHint]:
        claim = ClusterEvent(EventResource.PERSISTENT_VOLUME_CLAIM, ActionType.ADD)
        return (
            EventHint(
                ClusterEvent(EventResource.POD, ActionType.DELETE), _shared_a_volume, _VOLUMES
            ),
            EventHint(ClusterEvent(EventResource.NODE, ActionType.ADD)),
            EventHint(claim, topics=_CLAIMS),
        )


def _shared_a_volume(pod: Pod, old: object, _new: object) -> Hint:
    """A pod of the same namespace left that had a disk or claim which this one names."""
    if not isinstance(old, Pod):
        return Hint.QUEUE
    if old.metadata.namespace != pod.metadata.namespace:
        return Hint.SKIP
    if any_clash(disks_of(pod.spec.volumes or ()), disks_of(old.spec.volumes or ())):
        return Hint.QUEUE
    return Hint.SKIP if {*named_claims(pod)}.isdisjoint(named_claims(old)) else Hint.QUEUE


def _volumes_of(pod: Pod) -> set[Hashable]:
    """What another pod of the namespace must have, too, to be in this one's way."""
    disks = (disk.identity for disk in disks_of(pod.spec.volumes or ()))
    return {(pod.metadata.namespace, volume) for volume in (*named_claims(pod), *disks)}


_CLAIMS = own_claims(named_claims)
_VOLUMES = Topics(_volumes_of, lambda old, _: _volumes_of(old) if isinstance(old, Pod) else None)
