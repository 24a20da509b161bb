"""NodeVolumeLimits: no more volumes on a node than its CSI drivers can attach.

A CSINode says how many volumes of each driver its node takes. What counts is what the pods there
use (each volume once, in-tree ones as their CSI driver's, unbound claims as their provisioner's)
and whatever is attached besides. The columns come from `cluster.attached_volumes`, which counts a
row only when something about it changed: limit and attached volumes by driver. A volume that a pod
on the node uses already needs no room; one that is only attached there does, as upstream has it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stowplan.api.objects import Pod
from stowplan.api.resources import (
    CSI_NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
    VOLUME_ATTACHMENTS,
)
from stowplan.api.storage_objects import CSINode, VolumeAttachment
from stowplan.cluster.attachable import Attachable, AttachableReader, AttachError
from stowplan.cluster.attached_volumes import AttachedVolumes, count_by_driver, limits_of
from stowplan.cluster.catalog import Catalog
from stowplan.cluster.csi_migration import DRIVERS, CannotTranslateError, inline_handle, plugin_of
from stowplan.cluster.pod_info import PodInfo
from stowplan.cluster.pod_volumes import claim_names, claims_of
from stowplan.cluster.table import Int32Array
from stowplan.cluster.views import NodeView, Overlay
from stowplan.errors import StatusError
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import RowSet, takes_slices
from stowplan.framework.handle import Handle
from stowplan.framework.plugin import Plugin
from stowplan.framework.status import SKIP, Status, error, unresolvable, unschedulable
from stowplan.queue.events import ActionType, ClusterEvent, EventHint, EventResource, Hint
from stowplan.queue.topics import all_or_none, own_claims

_FULL = unschedulable("node(s) exceed max volume count")
#: The verdict "full", and that of a pod with a claim that does not exist.
_FULL_ID, _MISSING_ID = 1, 2


@dataclass(frozen=True, slots=True)
class Needs:
    """The volumes a pod needs attached, or the problem that hides them."""

    volumes: Attachable
    problem: Status | None = None


@dataclass(frozen=True, slots=True)
class _Demand:
    """In-tree volumes count only where a node has a CSINode at all."""

    with_csi: Needs
    without_csi: Needs


class NodeVolumeLimits(Plugin):
    name = "NodeVolumeLimits"
    looks_up = (
        PERSISTENT_VOLUME_CLAIMS,
        PERSISTENT_VOLUMES,
        STORAGE_CLASSES,
        CSI_NODES,
        VOLUME_ATTACHMENTS,
    )
    overlays = True

    def __init__(self, args: None = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        self._catalog = handle.catalog if handle else Catalog()
        self._attached = self._catalog.shared(AttachedVolumes)

    def pre_filter(self, cycle: Cycle) -> Status | None:
        return None if _may_attach(cycle.info) else SKIP

    @takes_slices
    def filter_columns(
        self, cycle: Cycle, rows: RowSet, out: Int32Array, overlay: Overlay | None
    ) -> None:
        table, demand, index = cycle.table, self._demand(cycle), self._attached
        index.follow(table)
        verdicts = np.zeros(table.capacity, np.int32)
        asked = np.zeros(table.capacity, np.bool_)
        asked[rows] = True
        asked &= table.valid
        for needs, is_there in (
            (demand.with_csi, index.has_csi_node),
            (demand.without_csi, ~index.has_csi_node),
        ):
            if needs.problem is not None and (asked & is_there).any():
                self._give_up_unless_missing(needs.problem)
                verdicts[is_there] = _MISSING_ID
        if demand.with_csi.problem is None and demand.with_csi.volumes:
            self._judge_rows(cycle, demand.with_csi.volumes, verdicts)
            touched = overlay.rows if overlay is not None else ()
            broken = {row for row in index.problems if asked[row]}.difference(touched)
            if broken:
                first = next(row for row in table.order.tolist() if row in broken)
                raise StatusError(self.name, "Filter", index.problems[first])
        if overlay is not None:
            for row in overlay.rows.tolist():
                if asked[row]:
                    status = self._judge_node(cycle, NodeView(table, row, overlay))
                    verdicts[row] = 0 if status is None else self._id_of(status)
        out[rows] = verdicts[rows]

    def _judge_rows(self, cycle: Cycle, needed: Attachable, verdicts: Int32Array) -> None:
        """Mark the rows where some driver has no room for what is not there yet."""
        for driver_name, count in Counter(needed.values()).items():
            driver = self._attached.driver(driver_name)
            if driver is None:
                continue
            new = np.full(cycle.table.capacity, count, np.int64)
            for volume, its_driver in needed.items():
                if its_driver == driver_name:
                    new[list(self._attached.rows_with(volume))] -= 1
            verdicts[(new > 0) & (driver.attached + new > driver.limit)] = _FULL_ID

    def filter(self, pod: Pod, node: NodeView, cycle: Cycle) -> Status | None:
        return self._judge_node(cycle, node)

    def _judge_node(self, cycle: Cycle, node: NodeView) -> Status | None:
        csi_node = self._catalog[CSI_NODES].get(node.name)
        demand = self._demand(cycle)
        needs = demand.with_csi if csi_node is not None else demand.without_csi
        limits = limits_of(csi_node)
        if needs.problem is not None or not needs.volumes or not limits:
            return needs.problem
        reader = AttachableReader(self._catalog)
        by_pods: Attachable = {}
        try:
            for other in node.pod_infos:
                by_pods.update(reader.of_standing(other))
        except AttachError as problem:
            return error(str(problem))
        counts = count_by_driver(by_pods, self._attached.attachments_on(node.name), reader)
        new = Counter(driver for volume, driver in needs.volumes.items() if volume not in by_pods)
        is_full = any(
            driver in limits and counts[driver] + count > limits[driver]
            for driver, count in new.items()
        )
        return _FULL if is_full else None

    def verdict(self, cycle: Cycle, verdict_id: int) -> Status:
        if verdict_id == _FULL_ID:
            return _FULL
        demand = self._demand(cycle)
        problems = (demand.with_csi.problem, demand.without_csi.problem)
        return next(problem for problem in problems if problem and problem.is_rejected)

    def _demand(self, cycle: Cycle) -> _Demand:
        demand = cycle.get(_Demand)
        if demand is None:
            demand = _Demand(
                self._needs(cycle.info, on_csi_node=True),
                self._needs(cycle.info, on_csi_node=False),
            )
            cycle.write(_Demand, demand)
        return demand

    def _needs(self, info: PodInfo, *, on_csi_node: bool) -> Needs:
        try:
            return Needs(AttachableReader(self._catalog).of_new(info, on_csi_node=on_csi_node))
        except AttachError as problem:
            status = unresolvable if problem.is_missing else error
            return Needs({}, status(str(problem)))

    def _give_up_unless_missing(self, problem: Status) -> None:
        """A claim that does not exist may still come; anything else ends the attempt."""
        if not problem.is_rejected:
            raise StatusError(self.name, "Filter", problem.message)

    def _id_of(self, status: Status) -> int:
        self._give_up_unless_missing(status)
        return _FULL_ID if status is _FULL else _MISSING_ID

    # Coming back

    def events(self) -> Sequence[EventHint]:
        csi_node, attachment = EventResource.CSI_NODE, EventResource.VOLUME_ATTACHMENT
        claim = ClusterEvent(EventResource.PERSISTENT_VOLUME_CLAIM, ActionType.ADD)
        return (
            EventHint(ClusterEvent(csi_node, ActionType.ADD)),
            EventHint(ClusterEvent(csi_node, ActionType.UPDATE), topics=_RAISED_LIMITS),
            EventHint(ClusterEvent(EventResource.POD, ActionType.DELETE), topics=_FREED_VOLUMES),
            EventHint(claim, topics=_CLAIMS),
            EventHint(ClusterEvent(attachment, ActionType.DELETE), _may_have_made_room),
        )


def _may_attach(info: PodInfo) -> bool:
    return any(
        volume.persistent_volume_claim is not None
        or volume.ephemeral is not None
        or plugin_of(volume) is not None
        for volume in info.volumes
    )


def _had_volumes(old: object, _new: object) -> bool:
    """A pod left that had a node, or a promise of one, and volumes that may have counted."""
    if not isinstance(old, Pod):
        return True
    if not (old.spec.node_name or old.status.nominated_node_name):
        return False
    return bool(claims_of(old)) or any(map(plugin_of, old.spec.volumes or ()))


def _limit_was_raised(old: object, new: object) -> bool:
    """A driver without a limit counts as one with 0, as upstream compares them."""
    if not isinstance(old, CSINode) or not isinstance(new, CSINode):
        return True
    before = limits_of(old)
    return any(limit > before.get(driver, 0) for driver, limit in limits_of(new).items())


_RAISED_LIMITS, _FREED_VOLUMES = all_or_none(_limit_was_raised), all_or_none(_had_volumes)
_CLAIMS = own_claims(claim_names)


def _may_have_made_room(pod: Pod, old: object, _new: object) -> Hint:
    """Something was detached: it may help a pod with claims, or with a disk of the same driver."""
    if not isinstance(old, VolumeAttachment):
        return Hint.QUEUE
    for volume in pod.spec.volumes or ():
        if volume.persistent_volume_claim is not None:
            return Hint.QUEUE
        plugin = plugin_of(volume)
        if plugin is None:
            continue
        try:
            inline_handle(volume, pod.metadata.namespace)
        except CannotTranslateError:
            return Hint.QUEUE
        if DRIVERS[plugin] == old.spec.attacher:
            return Hint.QUEUE
    return Hint.SKIP
