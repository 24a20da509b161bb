"""Shapes in the order of the search: who is feasible, and who of them is best.

The cycle asks here first. What `framework.shapes` keeps by row is put into kube-scheduler's order
of nodes, once, and then changed only where rows changed; choosing among thousands of nodes is then
one look for the largest number. Whatever a shape cannot tell goes the long way, in `cycle` and
`scoring`, with the same answers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stowplan.cluster.derived import DerivedRows
from stowplan.cluster.journal import Rows
from stowplan.cluster.table import Int64Array, NodeTable
from stowplan.framework import forms
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import ScoreStep
from stowplan.framework.shapes import Accepted, Scored
from stowplan.scheduler.selection import RANK_BITS, first_feasible, heap_ranks


@dataclass(slots=True)
class Found:
    """A search for feasible rows, and what it found: good while `accepted` does not change."""

    version: int
    start: int
    limit: int
    rows: Rows
    passed: int
    #: Whether the same was found more than once.
    is_steady: bool = False


def find(accepted: Accepted, order: Rows, *, start: int, limit: int) -> tuple[Rows, int]:
    """`first_feasible` among all nodes; the same rows again are the same array.

    The order of nodes changes only when one comes or goes, and then `accepted` is another.
    """
    found: Found | None = accepted.memo
    if (
        found is None
        or found.version != accepted.version
        or found.start != start
        or found.limit != limit
    ):
        rows, passed = first_feasible(order, accepted.alive, start=start, limit=limit)
        accepted.memo = found = Found(accepted.version, start, limit, rows, passed)
    else:
        found.is_steady = True
    return found.rows, found.passed


def is_found_again(rows: Rows, accepted: Accepted) -> bool:
    """Whether these are rows that `find` has found before, and is likely to find again."""
    found: Found | None = accepted.memo
    return found is not None and found.rows is rows and found.is_steady


class Ranking(DerivedRows):
    """Feasible rows with a number each, the largest of which is the winner's."""

    __slots__ = ("_keys", "_level", "_places", "_ranks", "levels", "rows")

    def __init__(self, rows: Rows, scored: Scored, cycle: Cycle) -> None:
        super().__init__(cycle.table, reads_details=scored.reads_details)
        self.rows = rows
        self._places = np.full(cycle.table.capacity, -1, np.int32)
        self._places[rows] = np.arange(len(rows), dtype=np.int32)
        self._ranks = heap_ranks(len(rows))
        #: Weighted scores that were normalised; they stay while the rows do.
        self.levels = normalized(scored, rows, cycle)
        self._level = np.zeros(len(rows), np.int64)
        for _, level in self.levels:
            self._level += level
        keys = scored.sums.take(rows)
        keys += self._level
        keys <<= RANK_BITS
        keys -= self._ranks
        self._keys: Int64Array = keys

    def follow(self, table: NodeTable, scored: Scored) -> bool:
        """Take over what changed in `scored`, which is up to date; False: make it anew."""
        rows = self.changed_rows(table)
        if rows is None:
            return False
        if len(rows) > forms.FEW_ROWS:
            self._rank_many(rows, scored)
            return True
        for row in rows:
            place = int(self._places[row])
            if place >= 0:
                total = int(scored.sums[row]) + int(self._level[place])
                self._keys[place] = (total << RANK_BITS) - int(self._ranks[place])
        return True

    def _rank_many(self, rows: list[int], scored: Scored) -> None:
        chosen = np.array(rows, dtype=np.intp)
        places = self._places[chosen]
        feasible = places >= 0
        places = places[feasible]
        totals = scored.sums[chosen[feasible]] + self._level[places]
        self._keys[places] = (totals << RANK_BITS) - self._ranks[places]

    def best_place(self, more: Int64Array | None = None) -> int:
        """The winner's place; `more` is to be added to each row's total."""
        keys = self._keys if more is None else self._keys + (more << RANK_BITS)
        return int(keys.argmax())

    def totals(self, more: Int64Array | None = None) -> Int64Array:
        totals = (self._keys + self._ranks) >> RANK_BITS
        return totals if more is None else totals + more


def normalized(scored: Scored, rows: Rows, cycle: Cycle) -> list[tuple[ScoreStep, Int64Array]]:
    """The weighted scores of plugins that normalise, for some feasible rows."""
    return [
        (step, step.finish(cycle, raw.take(rows)) * step.weight) for step, raw in scored.normalized
    ]
