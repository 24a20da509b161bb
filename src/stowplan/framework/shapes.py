"""Whole shapes: what the kept columns of all plugins come to, for pods that they cannot tell apart.

`Accepted` is the rows that a profile's first filters accept, `Steady` the share of those filters
that do not look at pods, `Scored` the weighted sum of its scores. They are made from the columns
of `columns`, and then follow the table's journal of pods: a shape that comes again costs the rows
that changed since, usually the one that took the last pod. When a node changes, or comes or goes,
they are made anew.

Only columns that may be kept take part (`Plugin.reads` and `Plugin.sign`). A filter that is not
kept ends the run: it and those behind it are asked in their turn, about rows that are left. Scores
that are normalised depend on which rows are feasible, so `Scored` holds their raw columns apart.
What must stay true: whatever is kept equals what would be made anew. A plugin that breaks, or that
scores out of range, makes the asker go the long way, which finds the right words for it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from stowplan.cluster.derived import DerivedRows
from stowplan.cluster.table import BoolArray, Int64Array, NodeTable
from stowplan.errors import StowplanError
from stowplan.framework import forms
from stowplan.framework.columns import ColumnCache
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import FilterStep, ScoreStep
from stowplan.framework.integers import MAX_NODE_SCORE, MIN_NODE_SCORE

#: A filter, and what it reads of the pod.
_Signed: TypeAlias = tuple[FilterStep, Hashable]


def is_few(rows: list[int], table: NodeTable) -> bool:
    """Whether rows are better asked about one by one; a ghost cannot be, as there is no node."""
    return len(rows) <= forms.FEW_ROWS and all(table.valid[row] for row in rows)


class Steady(DerivedRows):
    """The rows that pass filters which do not look at pods."""

    __slots__ = ("mask",)

    def __init__(self, signed: Iterable[_Signed], columns: ColumnCache, cycle: Cycle) -> None:
        super().__init__(cycle.table)
        self.mask: BoolArray = cycle.table.valid.copy()
        for step, signature in signed:
            self.mask &= columns.passing_verdicts(step, signature, cycle) == 0


class Accepted(DerivedRows):
    """The rows that some filters accept."""

    __slots__ = ("_by_row", "_moving", "_steady", "alive", "memo", "number", "rated", "version")

    def __init__(
        self,
        steady: BoolArray,
        moving: Sequence[_Signed],
        columns: ColumnCache,
        cycle: Cycle,
    ) -> None:
        super().__init__(cycle.table)
        #: Rows that pass those filters which do not look at pods.
        self._steady = steady
        self._moving = [step for step, _ in moving]
        self._by_row = all(step.has_row_form for step in self._moving)
        #: Rows that pass all of them. Not to be written to.
        self.alive: BoolArray = steady.copy()
        for step, signature in moving:
            if step.reads_details:
                self.follow_details(cycle.table)
            self.alive &= columns.passing_verdicts(step, signature, cycle) == 0
        #: Counts the changes of `alive`.
        self.version = 0
        #: Tells apart those that are kept.
        self.number = 0
        #: Whatever the reader derived from `alive`.
        self.memo: Any = None
        #: Where scores of these rows are kept; nobody finds them when it is gone.
        self.rated: list[Hashable] = []

    def follow(self, cycle: Cycle) -> bool:
        """Judge the rows again whose pods changed; False: make it anew."""
        table = cycle.table
        rows = self.changed_rows(table)
        if rows is None:
            return False
        if not (self._by_row and is_few(rows, table)):
            self._judge_many(cycle, rows)
            return True
        for row in rows:
            # Whoever breaks must be asked, although another may have refused the row.
            fits = [step.accepts(cycle, row) for step in self._moving]
            is_alive = all(fits) and bool(self._steady[row])
            if is_alive != self.alive[row]:
                self.alive[row] = is_alive
                self.version += 1
        return True

    def _judge_many(self, cycle: Cycle, rows: list[int]) -> None:
        chosen = np.array(rows, dtype=np.intp)
        alive = self._steady[chosen]
        verdicts = np.zeros(cycle.table.capacity, np.int32)
        for step in self._moving:
            step.fill(cycle, chosen, verdicts)
            alive &= verdicts[chosen] == 0
        if (alive != self.alive[chosen]).any():
            self.alive[chosen] = alive
            self.version += 1


class Scored(DerivedRows):
    """Weighted scores of all rows; only those of feasible rows mean anything."""

    __slots__ = ("_by_row", "_moving", "memo", "normalized", "parts", "sums")

    def __init__(
        self,
        signed: Sequence[tuple[ScoreStep, Hashable]],
        columns: ColumnCache,
        cycle: Cycle,
        sums: Int64Array,
        *,
        is_kept: bool,
    ) -> None:
        table = cycle.table
        super().__init__(table)
        #: Plugins and their raw columns, of which feasible rows are to be normalised.
        self.normalized: list[tuple[ScoreStep, Int64Array]] = []
        #: Plugins and their scores before weighting; None stands for zeros.
        self.parts: list[tuple[ScoreStep, Int64Array | None]] = []
        #: The weighted parts added up.
        self.sums = sums
        self._moving: list[tuple[ScoreStep, Int64Array]] = []
        #: Whatever the reader derived from the sums.
        self.memo: Any = None
        used = table.used_slots
        sums[used] = 0
        for step, signature in signed:
            column = columns.passing_scores(step, signature, cycle)
            if step.normalizes:
                self.normalized.append((step, column.values))
                continue
            lowest, highest = column.range_of(used)
            _check_range(lowest, highest)
            part = column.values
            if step.reads_pods:
                if step.reads_details:
                    self.follow_details(table)
                if is_kept:
                    # The column goes on to serve others, at their pace.
                    part = part.copy()
                self._moving.append((step, part))
            elif not highest:
                self.parts.append((step, None))
                continue
            sums[used] += part[used] if step.weight == 1 else part[used] * step.weight
            self.parts.append((step, part))
        self._by_row = all(step.has_row_form for step, _ in self._moving)
        self.is_kept = is_kept

    def follow(self, cycle: Cycle) -> bool:
        """Score the rows again whose pods changed; False: make it anew."""
        table = cycle.table
        rows = self.changed_rows(table)
        if rows is None:
            return False
        if not (self._by_row and is_few(rows, table)):
            self._score_many(cycle, rows)
            return True
        for row in rows:
            for step, part in self._moving:
                score = step.score_of_row(cycle, row)
                _check_range(score, score)
                self.sums[row] += step.weight * (score - int(part[row]))
                part[row] = score
        return True

    def _score_many(self, cycle: Cycle, rows: list[int]) -> None:
        chosen = np.array(rows, dtype=np.intp)
        raw = np.zeros(cycle.table.capacity, np.int64)
        for step, part in self._moving:
            step.fill(cycle, chosen, raw)
            scores = raw[chosen]
            _check_range(int(scores.min(initial=0)), int(scores.max(initial=0)))
            self.sums[chosen] += step.weight * (scores - part[chosen])
            part[chosen] = scores


class _OutOfRangeError(StowplanError):
    """A plugin scored what it must not."""


def _check_range(lowest: int, highest: int) -> None:
    if lowest < MIN_NODE_SCORE or highest > MAX_NODE_SCORE:
        raise _OutOfRangeError


class Shapes:
    """The shapes of one profile; they share the bytes of its columns."""

    def __init__(self, columns: ColumnCache) -> None:
        self._columns = columns
        self._recent = columns.recent
        self._number = 0
        self._spare: Int64Array = np.zeros(0, np.int64)
        #: Whether anything is kept at all.
        self.is_used = columns.recent.is_used
        #: Counts the scores that were asked for: who reads a shape later can tell that it moved on.
        self.turn = 0
        #: Whatever the reader wants to know until the next turn.
        self.last: Any = None

    def accepted(self, steps: Sequence[FilterStep], cycle: Cycle) -> tuple[Accepted, int]:
        """What the first of these filters accept, and how many of them are meant."""
        signs: list[Hashable] = []
        steady_signs: list[Hashable] = []
        steady: list[_Signed] = []
        moving: list[_Signed] = []
        for step in steps:
            signature = step.signature(cycle) if step.is_cached else None
            if signature is None:
                break
            if step.reads_pods:
                moving.append((step, signature))
                signs += (step.name, signature)
            else:
                steady.append((step, signature))
                steady_signs += (step.name, signature)
        steady_key = ("steady", *steady_signs)
        key = ("accepted", *signs, steady_key)
        accepted: Accepted | None = self._find(key, cycle)
        if accepted is None:
            rows = self._steady(steady_key, steady, cycle)
            accepted = Accepted(rows, moving, self._columns, cycle)
            if self._recent.is_wanted(key):
                self._forget_scores(key)
                self._number += 1
                accepted.number = self._number
                accepted.is_kept = True
                self._recent.keep(key, accepted, 10 * cycle.table.capacity)
        return accepted, len(steady) + len(moving)

    def scored(
        self, steps: Sequence[ScoreStep], cycle: Cycle, accepted: Accepted
    ) -> tuple[Scored, list[ScoreStep]]:
        """The sum of those of the scores that are kept, and the others.

        Kept apart for every `accepted`, so that the two can be ranked together.
        """
        self.turn += 1
        signs: list[Hashable] = []
        kept: list[tuple[ScoreStep, Hashable]] = []
        others: list[ScoreStep] = []
        for step in steps:
            signature = step.signature(cycle) if step.is_summed else None
            if signature is None:
                others.append(step)
            else:
                kept.append((step, signature))
                signs += (step.name, signature)
        capacity = cycle.table.capacity
        key = ("scored", accepted.number, *signs)
        scored: Scored | None = self._find(key, cycle) if accepted.is_kept else None
        if scored is None:
            is_kept = accepted.is_kept and self._recent.is_wanted(key)
            sums = np.zeros(capacity, np.int64) if is_kept else self._passing_sums(capacity)
            scored = Scored(kept, self._columns, cycle, sums, is_kept=is_kept)
            if is_kept:
                accepted.rated.append(key)
                # With what is ranked by it.
                self._recent.keep(key, scored, (8 * (3 + len(kept)) + 4) * capacity)
        return scored, others

    def _forget_scores(self, key: Hashable) -> None:
        """Before what is accepted is made anew: scores of the old one are of no use."""
        old: Accepted | None = self._recent.get(key)
        for rated in old.rated if old is not None else ():
            self._recent.drop(rated)

    def _passing_sums(self, capacity: int) -> Int64Array:
        """An array for sums that are not kept; the next to ask writes over it."""
        if len(self._spare) != capacity:
            self._spare = np.zeros(capacity, np.int64)
        return self._spare

    def _steady(self, key: Hashable, signed: Sequence[_Signed], cycle: Cycle) -> BoolArray:
        steady: Steady | None = self._recent.get(key)
        if steady is None or not steady.has_same_nodes(cycle.table):
            steady = Steady(signed, self._columns, cycle)
            if self._recent.is_wanted(key):
                self._recent.keep(key, steady, steady.mask.nbytes)
        return steady.mask

    def _find(self, key: Hashable, cycle: Cycle) -> Any | None:
        """What is kept for a key, up to date."""
        try:
            value: Accepted | Scored | None = self._recent.get(key)
        except TypeError as problem:
            raise StowplanError("a signature cannot be hashed") from problem
        if value is None:
            return None
        try:
            if not value.follow(cycle):
                return None
        except BaseException:
            # It may be half updated: a plugin broke, or the decision was deferred.
            self._recent.drop(key)
            raise
        self._columns.hits += 1
        return value
