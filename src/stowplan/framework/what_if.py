"""Would the pod fit on a row if other pods came to it, or left it?

The cycle asks so for nominated pods, preemption for victims. What must stay true: these are
kube-scheduler's rules for filters with nominated pods: pods of no lower priority that are nominated
to the row are there in a first round and not in a second, and both must pass; a plugin that
skipped in PreFilter is neither asked nor told of pods that come or go.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from stowplan.cluster.pod_info import PodInfo, compile_pod
from stowplan.cluster.views import Overlay
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import call
from stowplan.framework.status import Status

if TYPE_CHECKING:
    from stowplan.framework.profile import Profile
    from stowplan.queue.nominator import Nominator

_ADD, _REMOVE = "AddPod on PreFilter", "RemovePod on PreFilter"


class WhatIf:
    """Filters of one profile on rows as they would be."""

    def __init__(self, profile: Profile, nominated: Nominator | None = None) -> None:
        self.profile = profile
        self.nominated = nominated

    def nominees(self, cycle: Cycle, row: int) -> list[PodInfo]:
        """Pods nominated to a row that this one has to respect."""
        if self.nominated is None:
            return []
        pod = cycle.pod
        return [
            compile_pod(other)
            for other in self.nominated.for_node(cycle.table.names[row])
            if other.priority >= pod.priority and other.uid != pod.uid
        ]

    def tell(self, cycle: Cycle, others: Iterable[PodInfo], row: int, delta: int) -> None:
        """Let PreFilter plugins change their notes for pods that come (+1) or go (-1)."""
        plugins = [
            plugin
            for plugin in self.profile.at("preFilter")
            if plugin.name not in cycle.skip_filter
        ]
        point = _ADD if delta > 0 else _REMOVE
        for other in others:
            for plugin in plugins:
                call(plugin.what_if, plugin.name, point, cycle, other, row, delta)

    def objection(self, cycle: Cycle, row: int, removed: Sequence[PodInfo] = ()) -> Status | None:
        """Why the pod does not fit once `removed` are gone, of which `cycle` was told; None: it
        does."""
        objection = self.nominees_object(cycle, row, removed)
        if objection is not None:
            return objection
        overlay = Overlay(cycle.table, {}, {row: list(removed)}) if removed else None
        return self._first_failure(cycle, row, overlay)

    def nominees_object(
        self, cycle: Cycle, row: int, removed: Sequence[PodInfo] = ()
    ) -> Status | None:
        """Why the pod does not fit beside the pods nominated to the row; None if it does."""
        others = self.nominees(cycle, row)
        if not others:
            return None
        twin = cycle.clone()
        self.tell(twin, others, row, 1)
        overlay = Overlay(cycle.table, {row: others}, {row: list(removed)})
        return self._first_failure(twin, row, overlay)

    def _first_failure(self, cycle: Cycle, row: int, overlay: Overlay | None) -> Status | None:
        for step in self.profile.filters:
            if step.name not in cycle.skip_filter:
                status = step.status_of_row(cycle, row, overlay)
                if not status.is_success:
                    return status
        return None
