"""Find the pods to evict so that a pod fits on given rows.

For each row, remove all pods of lower priority. If the pod then fits, add them back one by one;
those that make it not fit again are the victims. `try_row` does that by the plugins' per-node forms
and their notes, as kube-scheduler does. `try_rows` does it for many rows at once where every
filter that could change its mind understands an Overlay: the k-th potential victim of every row
comes back in the same pass over the columns. Both give the same answer; a property test holds
them to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from stowplan.cluster.pod_info import PodInfo
from stowplan.cluster.views import Overlay
from stowplan.cluster.work import DECISION_WORK, STEP
from stowplan.errors import StowplanError
from stowplan.framework.candidates import Victims
from stowplan.framework.cycle import Cycle
from stowplan.framework.status import Status, error, unresolvable
from stowplan.framework.what_if import WhatIf
from stowplan.framework.what_if_cache import WhatIfCache
from stowplan.plugins.default_preemption.victims import (
    Budgets,
    by_importance,
    split_by_budget,
    start_time,
)

NO_VICTIMS = unresolvable("No preemption victims found for incoming pod")

Outcome: TypeAlias = Victims | Status

#: What it costs to ask one row whether the pod fits once a pod has come back, and what each pod of
#: the row adds to it: among many rows at once, where only resources are in doubt and where more is;
#: and by itself.
_COLUMN_WORK = 7 * STEP, 0
_MORE_COLUMNS_WORK = 7 * STEP, STEP // 2
_ROW_WORK = 60 * STEP, 5 * STEP // 2
#: Whether a pod is of lower priority.
_LOOK_WORK = STEP // 10
_PIECE_WORK = DECISION_WORK // 4


class DryRun:
    """One pod's search for room."""

    def __init__(
        self,
        cycle: Cycle,
        budgets: Budgets,
        now: float,
        said: dict[int, Outcome] | None = None,
    ) -> None:
        """`said` are outcomes from before the decision was deferred, which still hold."""
        assert cycle.what_if is not None
        self._cycle = cycle
        self._priority = cycle.pod.priority
        self._table = cycle.table
        self._what_if: WhatIf = cycle.what_if
        self._budgets = budgets
        self._now = now
        #: Outcomes so far, by row.
        self.said: dict[int, Outcome] = {} if said is None else said
        self._doubtful = self._what_if.doubtful(cycle)
        self._in_columns = self._what_if.asks_in_columns(cycle)
        #: What a budget allows changes without the row: where there are any, nothing is kept.
        self._kept = (
            self._what_if.cached_answers(cycle, "whom it costs", self._priority)
            if self._in_columns and not budgets
            else None
        )

    @property
    def refusals(self) -> WhatIfCache | None:
        """Caches what rows say that all refuse; None if they say it to this pod alone."""
        return self._kept if self._what_if.nominated is None else None

    def try_rows(self, rows: Sequence[int]) -> dict[int, Outcome]:
        """Every row's outcome. The decision may be deferred after each piece; see `said`."""
        nominations: dict[int, int] = {}
        if self._kept is not None:
            nominations = self._what_if.nominations(self._cycle, rows)
            self.said |= self._kept.known(nominations)
        for piece, work in self._pieces([row for row in rows if row not in self.said]):
            said = self._outcomes(piece)
            self.said |= said
            if self._kept is not None:
                lasting = {row: outcome for row, outcome in said.items() if self._will_last(row)}
                self._kept.learn(nominations, lasting)
            self._cycle.spend(work)
        return {row: self.said[row] for row in rows}

    def _pieces(self, rows: Sequence[int]) -> Iterator[tuple[list[int], int]]:
        """The rows in parts that take well under 50 ms, and what each costs."""
        each, more = _ROW_WORK
        if self._in_columns:
            each, more = _COLUMN_WORK if len(self._doubtful) == 1 else _MORE_COLUMNS_WORK
        piece: list[int] = []
        work = 0
        for row in rows:
            pods, lower = len(self._table.pods[row]), len(self._lower(row))
            piece.append(row)
            work += STEP + pods * _LOOK_WORK
            if lower:
                work += (1 + lower) * (each + pods * more)
            if work >= _PIECE_WORK:
                yield piece, work
                piece, work = [], 0
        if piece:
            yield piece, work

    def _will_last(self, row: int) -> bool:
        """Whether time alone changes nothing: pods that have not begun to run are the last to do
        so, unless another says that it will."""
        return all(
            start_time(info.pod, self._now) <= self._now for info in self._table.pods[row].values()
        )

    def _outcomes(self, rows: Sequence[int]) -> dict[int, Outcome]:
        outcomes: dict[int, Outcome] = {}
        together: dict[int, list[PodInfo]] = {}
        for row in rows:
            if not self._in_columns:
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
        return self._candidate(row, victims, violating, others)

    def _fits(self, cycle: Cycle, row: int, gone: Sequence[PodInfo]) -> bool:
        """True if the pod fits; False also if a filter fails, as upstream has it."""
        try:
            return self._what_if.objection(cycle, row, gone) is None
        except StowplanError:
            return False

    # Many rows at once

    def _try_together(self, together: dict[int, list[PodInfo]]) -> dict[int, Outcome]:
        outcomes: dict[int, Outcome] = {}
        rounds = self._rounds(together)
        for overlay in rounds:
            asked = [row for row in overlay.rows.tolist() if row not in outcomes]
            outcomes |= self._what_if.objections(self._cycle, asked, overlay)
        left = [row for row in together if row not in outcomes]
        orders = {row: self._in_order(together[row]) for row in left}
        queues = {row: [*violating, *others] for row, (violating, others) in orders.items()}
        victims: dict[int, list[PodInfo]] = {row: [] for row in queues}
        for place in range(max(map(len, queues.values()), default=0)):
            back = {row: queue[place] for row, queue in queues.items() if len(queue) > place}
            misfits: set[int] = set()
            for overlay in rounds:
                overlay.put_back(_within(back, overlay))
                misfits |= self._misfits(_within(back, overlay), overlay)
            for overlay in rounds:
                overlay.take_away(_within({row: back[row] for row in misfits}, overlay))
            for row in misfits:
                victims[row].append(back[row])
        for row, (violating, others) in orders.items():
            outcomes[row] = self._candidate(row, victims[row], violating, others)
        return outcomes

    def _rounds(self, together: dict[int, list[PodInfo]]) -> list[Overlay]:
        """Rows without those of lower priority: beside the pods nominated to them, if there are
        any, and without."""
        nominees = self._what_if.all_nominees(self._cycle, together)
        beside = {row: others.pods for row, others in nominees.items()}
        rounds = [
            Overlay(self._table, beside, {row: list(together[row]) for row in beside}),
            Overlay(self._table, {}, {row: list(gone) for row, gone in together.items()}),
        ]
        return rounds if beside else rounds[1:]

    def _misfits(self, rows: Iterable[int], overlay: Overlay) -> set[int]:
        """Which of the rows have no room for the pod as they are now."""
        asked = np.array(list(rows), dtype=np.intp)
        verdicts = np.zeros(self._table.capacity, np.int32)
        misfits = np.zeros(len(asked), np.bool_)
        for step in self._doubtful:
            step.fill(self._cycle, asked, verdicts, overlay)
            misfits |= verdicts[asked] != 0
        return set(asked[misfits].tolist())

    # Both

    def _lower(self, row: int) -> list[PodInfo]:
        priority = self._priority
        return [info for info in self._table.pods[row].values() if info.priority < priority]

    def _in_order(self, gone: Sequence[PodInfo]) -> tuple[list[PodInfo], list[PodInfo]]:
        """In which order they may come back: protected ones first."""
        return split_by_budget(by_importance(gone, self._now), self._budgets)

    def _candidate(
        self,
        row: int,
        victims: list[PodInfo],
        violating: Sequence[PodInfo],
        others: Sequence[PodInfo],
    ) -> Outcome:
        if not victims:
            # It fits without an eviction: the filter that rejected it ignores removed pods.
            name = self._table.names[row]
            return error(f'expected at least one victim pod on node "{name}"')
        violations = 0
        if violating:
            protected = set(map(id, violating))
            violations = sum(id(info) in protected for info in victims)
            if others:
                # Protected pods came first, whatever their importance.
                victims = by_importance(victims, self._now)
        return Victims(tuple(victims), violations)


def _within(pods: Mapping[int, PodInfo], overlay: Overlay) -> Mapping[int, PodInfo]:
    """Those that the overlay knows: all of them, but for one with nominated pods."""
    if not overlay.added:
        return pods
    return {row: pods[row] for row in overlay.added if row in pods}
