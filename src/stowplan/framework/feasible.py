"""Filter: find the nodes that a pod fits on, in kube-scheduler's search order.

The cycle calls `find_feasible` as `Profile.feasible`. It has three passes with the same answer:

1. From the caches of `shapes`, unless the caller needs the verdicts of every filter.
2. By columns: one filter after the other, each over the rows that are left.
3. Row by row, after a plugin failed in an earlier pass. Only this one shows which nodes come before
   the node that the plugin fails on, and whether the search gets that far.

What must stay true: a filter is not blamed for a row that an earlier filter, or a nominated pod,
keeps the pod from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from stowplan.cluster.journal import Rows
from stowplan.cluster.table import BoolArray, Int32Array
from stowplan.errors import PluginError, StowplanError
from stowplan.framework.cycle import Cycle
from stowplan.framework.diagnosis import Diagnosis
from stowplan.framework.forms import FilterStep, RowSet
from stowplan.framework.selection import (
    first_feasible,
    first_fitting,
    in_search_order,
    nodes_to_find,
)
from stowplan.framework.shapes import FeasibleRows, NoCachedAnswer, SearchKey
from stowplan.framework.what_if import WhatIf

if TYPE_CHECKING:
    from stowplan.framework.profile import Profile

#: A costly filter is asked about so many rows at a time, at least.
_ASKED_AT_ONCE: Final = 64


@dataclass(slots=True)
class Feasible:
    """The nodes that a pod fits on."""

    #: In search order.
    rows: Rows
    #: How many nodes the search looked at; the next search starts behind them.
    searched: int
    #: The cached rows of the pod's shape; None: they were found without.
    shape: FeasibleRows | None = None
    #: The search, if it has found the same rows before: caching a ranking of them pays.
    search_key: SearchKey | None = None
    #: The failure of a plugin that ended the search.
    failure: StowplanError | None = None


def find_feasible(
    profile: Profile,
    cycle: Cycle,
    diagnosis: Diagnosis,
    narrowed: BoolArray | None,
    *,
    start: int = 0,
    limit: int | None = None,
    needs_verdicts: bool = False,
    refused: int | None = None,
) -> Feasible:
    """Search the rows in `narrowed`, or all nodes, for rows that pass every filter.

    The search starts at place `start` of the node order, wraps around, and ends after `limit`
    feasible rows (default: by `percentageOfNodesToScore`). If it finds none, the diagnosis says
    why; with `needs_verdicts`, it does so in any case. `refused` is the row of the nominated node,
    if that has a status from before the search.
    """
    table = cycle.table
    order, candidates = table.order, table.valid
    if narrowed is not None:
        order, candidates = order[narrowed[order]], narrowed
    size = len(order)
    if limit is None:
        limit = nodes_to_find(size, profile.percentage_of_nodes_to_score)
    start %= size or 1
    what_if = cycle.what_if or WhatIf(profile)
    search = _Search(profile, cycle, what_if, diagnosis, narrowed, candidates, order, start, limit)
    found: Feasible | None = None
    failure: StowplanError | None = None
    try:
        if profile.shapes.is_used and not needs_verdicts:
            found = search.from_caches()
        if found is None:
            found = search.by_columns()
    except StowplanError as problem:
        failure = problem
    if found is None:
        assert failure is not None
        # Outside of `except`, so that the traceback of a row's failure is not that of the columns'.
        found = search.row_by_row(failure)
    if refused is not None:
        # kube-scheduler adds up statuses and feasible nodes. The nominated node has a status
        # already: it counts once more, unless the search refused it again.
        searched = in_search_order(order, start)[: found.searched]
        found.searched += refused in found.rows or refused not in searched
    if found.searched < size:
        diagnosis.part = (order, start, found.searched)
    return found


def complete(profile: Profile, diagnosis: Diagnosis) -> None:
    """Read the verdicts that the search for a pod's node had no need of, for the nodes it passed.

    Only before the table changes.
    """
    cycle = diagnosis.cycle
    diagnosis.columns[:0] = [
        (step, profile.columns.verdicts(step, cycle)) for step in diagnosis.unread
    ]
    diagnosis.unread = ()
    if diagnosis.part is not None:
        order, start, searched = diagnosis.part
        diagnosis.candidates = np.zeros(cycle.table.capacity, np.bool_)
        diagnosis.candidates[in_search_order(order, start)[:searched]] = True


@dataclass(slots=True)
class _Search:
    """The passes of one search."""

    profile: Profile
    cycle: Cycle
    what_if: WhatIf
    diagnosis: Diagnosis
    narrowed: BoolArray | None
    #: The rows to search, as a mask and in the order of nodes.
    candidates: BoolArray
    order: Rows
    start: int
    limit: int

    def from_caches(self) -> Feasible | None:
        """Find the rows in the caches; None if these cannot answer."""
        cycle, columns = self.cycle, self.diagnosis.columns
        skipped = cycle.skip_filter
        steps = [step for step in self.profile.filters if step.name not in skipped]
        try:
            shape, leading = self.profile.shapes.feasible_rows(steps, cycle)
        except (NoCachedAnswer, PluginError):
            return None
        alive = shape.alive
        # Whether the feasible rows are exactly those of the shape.
        is_shape = self.narrowed is None and self.what_if.nominated is None
        if not is_shape:
            alive = alive & self.candidates
            self._respect_nominees(alive)
        rest = steps[leading:]
        costly = rest.pop() if rest and rest[-1].is_costly else None
        for step in rest:
            verdicts = self._verdicts(step, alive)
            columns.append((step, verdicts))
            if verdicts.any():
                alive = alive & (verdicts == 0)
                is_shape = False
        key: SearchKey | None = None
        if costly is not None:
            rows, searched = self._first_fitting(costly, alive)
        elif is_shape:
            rows, searched, key = shape.search(self.order, start=self.start, limit=self.limit)
        else:
            rows, searched = first_feasible(self.order, alive, start=self.start, limit=self.limit)
        self.diagnosis.candidates = self.candidates
        if len(rows):
            self.diagnosis.unread = steps[:leading]
        elif is_shape and not columns and not self.diagnosis.overrides:
            self._settle(shape, steps)
        else:
            columns[:0] = [(step, self._verdicts(step, alive)) for step in steps[:leading]]
        return Feasible(rows, searched, shape, key)

    def _settle(self, shape: FeasibleRows, steps: Sequence[FilterStep]) -> None:
        """No row of the shape is feasible: say why, or repeat what was said of its last pod."""
        diagnosis, shapes, table = self.diagnosis, self.profile.shapes, self.cycle.table
        known = shapes.known_failure(shape, table)
        if known is not None:
            diagnosis.settle_as(known)
            return
        diagnosis.columns = [(step, self._verdicts(step, shape.alive)) for step in steps]
        diagnosis.settle()
        assert diagnosis.settled is not None
        shapes.keep_failure(shape, diagnosis.settled, table)

    def by_columns(self) -> Feasible:
        """Run the filters by columns; all their verdicts go into the diagnosis."""
        alive = self.candidates.copy()
        # Before the filters, as in kube-scheduler: a filter does not run on a row where nominated
        # pods leave no room, so it cannot fail there.
        self._respect_nominees(alive)
        steps = list(self.what_if.running(self.cycle))
        costly = steps.pop() if steps and steps[-1].is_costly else None
        for step in steps:
            verdicts = self._verdicts(step, alive)
            self.diagnosis.columns.append((step, verdicts))
            alive &= verdicts == 0
        self.diagnosis.candidates = self.candidates
        if costly is not None:
            return Feasible(*self._first_fitting(costly, alive))
        rows, searched = first_feasible(self.order, alive, start=self.start, limit=self.limit)
        return Feasible(rows, searched)

    def row_by_row(self, failure: StowplanError) -> Feasible:
        """After a `failure`: the rows before the one that a plugin fails on, and its failure.

        Raises the failure of a signature, which has nothing to do with rows.
        """
        cycle, what_if, diagnosis = self.cycle, self.what_if, self.diagnosis
        for step in what_if.running(cycle):
            step.sign(cycle)
        diagnosis.columns.clear()
        diagnosis.candidates = self.candidates

        def fits(row: int) -> bool:
            objection = what_if.objection(cycle, row)
            if objection is not None:
                diagnosis.overrides[row] = objection
            return objection is None

        rows, searched, first = first_fitting(self.order, fits, start=self.start, limit=self.limit)
        if first is None and searched == len(self.order):
            # The plugin fails on columns, but on no single row.
            return Feasible(rows, 0, failure=failure)
        return Feasible(rows, searched, failure=first)

    def _first_fitting(self, step: FilterStep, alive: BoolArray) -> tuple[Rows, int]:
        """`first_feasible` by a last filter that costs too much to ask about every row.

        It is asked about as many rows as are still missing, and about some at least.
        """
        verdicts = np.zeros(self.cycle.table.capacity, np.int32)
        self.diagnosis.columns.append((step, verdicts))
        in_order = in_search_order(self.order, self.start)
        places = np.flatnonzero(alive[in_order])
        found: list[Rows] = []
        missing, asked = self.limit, 0
        while asked < len(places):
            some = places[asked : asked + max(missing + 1, _ASKED_AT_ONCE)]
            asked += len(some)
            step.fill(self.cycle, in_order[some], verdicts)
            fitting = some[verdicts[in_order[some]] == 0]
            found.append(in_order[fitting[:missing]])
            if len(fitting) > missing:
                return np.concatenate(found), int(fitting[missing])
            missing -= len(fitting)
        return np.concatenate(found) if found else in_order[:0], len(in_order)

    def _verdicts(self, step: FilterStep, alive: BoolArray) -> Int32Array:
        table = self.cycle.table
        if step.is_cached:
            return self.profile.columns.verdicts(step, self.cycle)
        verdicts = np.zeros(table.capacity, np.int32)
        rows: RowSet = table.used_slots
        if np.count_nonzero(alive) < len(table.names):
            rows = np.flatnonzero(alive)
        step.fill(self.cycle, rows, verdicts)
        return verdicts

    def _respect_nominees(self, alive: BoolArray) -> None:
        """Rows must also pass as if the pods nominated to them were there already."""
        if self.what_if.nominated is None:
            return
        live = map(self.cycle.table.live_row, self.what_if.nominated.nodes())
        rows = [row for row in live if row is not None and self.candidates[row]]
        for row, objection in self.what_if.nominees_object(self.cycle, rows).items():
            alive[row] = False
            self.diagnosis.overrides[row] = objection
