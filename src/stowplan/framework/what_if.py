"""Would the pod fit on a row if other pods came to it, or left it?

The cycle asks this for nominated pods, preemption for victims. What must stay true: these are
kube-scheduler's rules for filters with nominated pods. Pods of no lower priority that are nominated
to the row are there in a first round and not in a second, and both rounds must pass. A plugin that
skipped in PreFilter is not called, neither for the row nor for pods that come or go. Many rows are
evaluated at once if the filters allow it (`asks_in_columns`), with the same results as one by one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from stowplan.cluster.pod_info import PodInfo
from stowplan.cluster.views import Overlay
from stowplan.errors import StowplanError
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import FilterStep, call
from stowplan.framework.nominees import NO_NOMINEES, NOT_SHARED, Nominees
from stowplan.framework.plugin import Plugin
from stowplan.framework.status import Status
from stowplan.framework.what_if_cache import BYTES_A_ROW, WhatIfCache

if TYPE_CHECKING:
    from stowplan.framework.profile import Profile
    from stowplan.queue.nominator import Nominator

#: Up to so many rows, one by one is faster.
_FEW_ROWS = 2
_ADD, _REMOVE = "AddPod on PreFilter", "RemovePod on PreFilter"


class WhatIf:
    """Filters of one profile on rows as they would be."""

    def __init__(self, profile: Profile, nominated: Nominator | None = None) -> None:
        self.profile = profile
        self.nominated = nominated

    def nominees(self, cycle: Cycle, row: int) -> list[PodInfo]:
        """Pods nominated to a row that this pod must respect. Read only."""
        found = self.all_nominees(cycle, (row,)).get(row)
        return [] if found is None else found.pods

    def nominations(self, cycle: Cycle, rows: Iterable[int]) -> dict[int, int]:
        """Generations by row: where they are equal, the pod respects the same nominees."""
        found = self.all_nominees(cycle, rows)
        return {row: found[row].generation if row in found else NO_NOMINEES for row in rows}

    def all_nominees(self, cycle: Cycle, rows: Iterable[int]) -> dict[int, Nominees]:
        """Pods nominated to some rows that this pod must respect; rows without any are absent."""
        if self.nominated is None:
            return {}
        pod, names = cycle.pod, cycle.table.names
        wanted, own = self.nominated.nodes(), self.nominated.node_of(pod)
        compiled = self.profile.nominees
        all_nominees: dict[int, Nominees] = {}
        for row in rows:
            node = names[row]
            if node not in wanted:
                continue
            found = compiled.on(node, self.nominated)
            if found.lowest < pod.priority or node == own:
                others = [
                    each
                    for each in found.pods
                    if each.priority >= pod.priority and each.uid != pod.uid
                ]
                found = Nominees(NOT_SHARED, others, pod.priority)
            if found.pods:
                all_nominees[row] = found
        return all_nominees

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
        """Why the pod does not fit once `removed` are gone; None if it fits.

        The caller has passed `removed` to `tell`.
        """
        others = self.nominees(cycle, row)
        if others:
            objection = self._objection_beside(others, cycle, row, removed)
            if objection is not None:
                return objection
        overlay = Overlay(cycle.table, {}, {row: list(removed)}) if removed else None
        return self._first_failure(cycle, row, overlay)

    def nominees_object(self, cycle: Cycle, rows: Iterable[int]) -> dict[int, Status]:
        """Rows where the pod does not fit beside the pods nominated to them, and why."""
        nominees = self.all_nominees(cycle, rows)
        found: dict[int, Status | None] | None = None
        if len(nominees) > _FEW_ROWS and self.asks_in_columns(cycle):
            # Only one by one shows on which row a filter fails.
            with suppress(StowplanError):
                found = self._objections_beside(nominees, cycle)
        if found is None:
            found = {
                row: self._objection_beside(others.pods, cycle, row)
                for row, others in nominees.items()
            }
        return {row: objection for row, objection in found.items() if objection is not None}

    def _objections_beside(
        self, nominees: dict[int, Nominees], cycle: Cycle
    ) -> dict[int, Status | None]:
        kept = self.cached_answers(cycle, "beside nominees")
        nominations = {row: others.generation for row, others in nominees.items()}
        found: dict[int, Status | None] = {} if kept is None else kept.known(nominations)
        others = {row: beside.pods for row, beside in nominees.items() if row not in found}
        if others:
            said = self.objections(cycle, list(others), Overlay(cycle.table, others))
            answers = {row: said.get(row) for row in others}
            found |= answers
            if kept is not None:
                kept.learn(nominations, answers)
        return found

    def _objection_beside(
        self, others: list[PodInfo], cycle: Cycle, row: int, removed: Sequence[PodInfo] = ()
    ) -> Status | None:
        twin = cycle.clone()
        self.tell(twin, others, row, 1)
        overlay = Overlay(cycle.table, {row: others}, {row: list(removed)})
        return self._first_failure(twin, row, overlay)

    def _first_failure(self, cycle: Cycle, row: int, overlay: Overlay | None) -> Status | None:
        for step in self.running(cycle):
            status = step.status_of_row(cycle, row, overlay)
            if not status.is_success:
                return status
        return None

    # Many rows at once

    def running(self, cycle: Cycle) -> list[FilterStep]:
        """The filters that did not skip."""
        return [step for step in self.profile.filters if step.name not in cycle.skip_filter]

    def doubtful(self, cycle: Cycle) -> list[FilterStep]:
        """Filters whose result may change when pods are added or removed."""
        return [step for step in self.running(cycle) if not step.is_about_nodes]

    def asks_in_columns(self, cycle: Cycle) -> bool:
        """True if all `doubtful` filters support an Overlay and no plugin overrides `what_if`."""
        return all(step.plugin.overlays for step in self.doubtful(cycle)) and not any(
            type(plugin).what_if is not Plugin.what_if
            for plugin in self.profile.at("preFilter")
            if plugin.name not in cycle.skip_filter
        )

    def cached_answers(self, cycle: Cycle, *about: Hashable) -> WhatIfCache | None:
        """Answers of rows to pods that no filter can tell from this one; None if not cached."""
        lru = self.profile.columns.lru
        if not lru.is_used:
            return None
        signs: list[Hashable] = []
        reads_details = False
        for step in self.running(cycle):
            signature = step.sign(cycle) if step.follows_rows else None
            if signature is None:
                return None
            signs += (step.name, signature)
            reads_details |= step.reads_details
        key = ("answers", *about, *signs)
        answers: WhatIfCache | None = lru.get(key)
        if answers is not None and answers.follow(cycle.table):
            return answers
        if not lru.admits(key):
            return None
        answers = WhatIfCache(cycle.table, reads_details=reads_details)
        lru.put(key, answers, BYTES_A_ROW * len(cycle.table))
        return answers

    def objections(self, cycle: Cycle, rows: Sequence[int], overlay: Overlay) -> dict[int, Status]:
        """Rows where the pod does not fit as they would be, and why; only by columns."""
        said: dict[int, Status] = {}
        verdicts = np.zeros(cycle.table.capacity, np.int32)
        left = np.array(rows, dtype=np.intp)
        for step in self.running(cycle):
            step.fill(cycle, left, verdicts, overlay)
            found = verdicts[left]
            if not found.any():
                continue
            refused = found != 0
            numbers = found[refused].tolist()
            meanings = {number: step.status(cycle, number) for number in set(numbers)}
            for row, number in zip(left[refused].tolist(), numbers, strict=True):
                said[row] = meanings[number]
            left = left[~refused]
            if not len(left):
                break
        return said
