"""Whom would it cost to place the pod on these rows?

A row in three steps: everybody of lower priority goes; if the pod then fits, they come back one by
one, and who makes it not fit again is a victim. `try_row` does that by the plugins' per-node forms
and their notes, as kube-scheduler does. `try_rows` does it for many rows at once where every
filter that could change its mind understands an Overlay: the k-th potential victim of every row
comes back in the same pass over the columns. Both give the same answer; a property test holds
them to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from stowplan.cluster.pod_info import PodInfo
from stowplan.cluster.table import Int32Array
from stowplan.cluster.views import Overlay
from stowplan.errors import StowplanError
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import FilterStep
from stowplan.framework.plugin import Plugin
from stowplan.framework.status import Status, error, unresolvable
from stowplan.framework.what_if import WhatIf
from stowplan.plugins.default_preemption.choice import Candidate
from stowplan.plugins.default_preemption.victims import Budget, by_importance, split_by_budget

NO_VICTIMS = unresolvable("No preemption victims found for incoming pod")

Outcome: TypeAlias = Candidate | Status


class DryRun:
    """One pod's search for room."""

    def __init__(self, cycle: Cycle, budgets: Sequence[Budget], now: float) -> None:
        assert cycle.what_if is not None
        self._cycle = cycle
        self._table = cycle.table
        self._what_if: WhatIf = cycle.what_if
        self._budgets = budgets
        self._now = now
        self._steps = [
            step for step in self._what_if.profile.filters if step.name not in cycle.skip_filter
        ]
        #: Filters that may think otherwise once pods left; all others have said their word.
        self._doubtful = [step for step in self._steps if not step.is_about_nodes]
        #: Whether they can all be asked by columns, and none keeps notes of its own of who left.
        self._in_columns = all(step.plugin.overlays for step in self._doubtful) and not any(
            type(plugin).what_if is not Plugin.what_if
            for plugin in self._what_if.profile.at("preFilter")
            if plugin.name not in cycle.skip_filter
        )

    def try_rows(self, rows: Sequence[int]) -> dict[int, Outcome]:
        """Every row's outcome."""
        outcomes: dict[int, Outcome] = {}
        together: dict[int, list[PodInfo]] = {}
        for row in rows:
            if not self._in_columns or self._what_if.nominees(self._cycle, row):
                outcomes[row] = self.try_row(row)
            elif lower := self._lower(row):
                together[row] = lower
            else:
                outcomes[row] = NO_VICTIMS
        if together:
            try:
                outcomes |= self._try_together(together)
            except StowplanError:
                # On which row a filter broke shows only one by one.
                outcomes |= {row: self.try_row(row) for row in together}
        return outcomes

    # One row

    def try_row(self, row: int) -> Outcome:
        """A filter that breaks speaks for its row alone."""
        try:
            return self._try_row(row)
        except StowplanError as problem:
            return error(str(problem))

    def _try_row(self, row: int) -> Outcome:
        gone = self._lower(row)
        if not gone:
            return NO_VICTIMS
        cycle = self._cycle.clone()
        self._what_if.tell(cycle, gone, row, -1)
        objection = self._what_if.objection(cycle, row, gone)
        if objection is not None:
            return objection
        violating, others = self._in_order(gone)
        victims: list[PodInfo] = []
        for info in (*violating, *others):
            gone.remove(info)
            self._what_if.tell(cycle, [info], row, 1)
            if not self._fits(cycle, row, gone):
                gone.append(info)
                self._what_if.tell(cycle, [info], row, -1)
                victims.append(info)
        return self._candidate(row, victims, violating)

    def _fits(self, cycle: Cycle, row: int, gone: Sequence[PodInfo]) -> bool:
        """Whoever makes a filter break by coming back has to go, as upstream has it."""
        try:
            return self._what_if.objection(cycle, row, gone) is None
        except StowplanError:
            return False

    # Many rows at once

    def _try_together(self, together: dict[int, list[PodInfo]]) -> dict[int, Outcome]:
        outcomes: dict[int, Outcome] = {}
        overlay = Overlay(self._table, {}, {row: list(gone) for row, gone in together.items()})
        verdicts = np.zeros(self._table.capacity, np.int32)
        left = np.array(list(together), dtype=np.intp)
        for step in self._steps:
            step.fill(self._cycle, left, verdicts, overlay)
            for row in left[verdicts[left] != 0].tolist():
                outcomes[row] = self._said(step, int(verdicts[row]))
            left = left[verdicts[left] == 0]
        orders = {row: self._in_order(together[row]) for row in left.tolist()}
        queues = {row: [*violating, *others] for row, (violating, others) in orders.items()}
        victims: dict[int, list[PodInfo]] = {row: [] for row in queues}
        for place in range(max(map(len, queues.values()), default=0)):
            asked = {row: queue[place] for row, queue in queues.items() if len(queue) > place}
            overlay.put_back(asked)
            misfits = {row: asked[row] for row in self._misfits(list(asked), verdicts, overlay)}
            overlay.take_away(misfits)
            for row, info in misfits.items():
                victims[row].append(info)
        for row, (violating, _) in orders.items():
            outcomes[row] = self._candidate(row, victims[row], violating)
        return outcomes

    def _misfits(self, rows: Sequence[int], verdicts: Int32Array, overlay: Overlay) -> list[int]:
        """Which of the rows have no room for the pod as they are now."""
        asked = np.array(rows, dtype=np.intp)
        misfits = np.zeros(len(asked), np.bool_)
        for step in self._doubtful:
            step.fill(self._cycle, asked, verdicts, overlay)
            misfits |= verdicts[asked] != 0
        found: list[int] = asked[misfits].tolist()
        return found

    def _said(self, step: FilterStep, verdict_id: int) -> Status:
        return step.status(self._cycle, verdict_id)

    # Both

    def _lower(self, row: int) -> list[PodInfo]:
        priority = self._cycle.pod.priority
        return [info for info in self._table.pods[row].values() if info.priority < priority]

    def _in_order(self, gone: Sequence[PodInfo]) -> tuple[list[PodInfo], list[PodInfo]]:
        """In which order they may come back: protected ones first."""
        return split_by_budget(by_importance(gone, self._now), self._budgets)

    def _candidate(self, row: int, victims: list[PodInfo], violating: Sequence[PodInfo]) -> Outcome:
        name = self._table.names[row]
        if not victims:
            # It fits although it did not: whoever said no takes no notice of pods that leave.
            return error(f'expected at least one victim pod on node "{name}"')
        violations = 0
        if violating:
            protected = set(map(id, violating))
            violations = sum(id(info) in protected for info in victims)
            # Protected ones were asked first, whatever their importance.
            victims = by_importance(victims, self._now)
        return Candidate(name, tuple(victims), violations)
