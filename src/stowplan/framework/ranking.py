"""Rankings: feasible rows with one number each, the largest of which wins.

A ranking puts the scores that `shapes` caches by row into search order, once, and then updates only
rows that changed. Choosing among thousands of nodes is one `argmax`. `best` uses it.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from stowplan.cluster.derived import DerivedRows
from stowplan.cluster.journal import Rows
from stowplan.cluster.table import Int64Array, NodeTable
from stowplan.framework import forms
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import ScoreStep
from stowplan.framework.selection import RANK_BITS, heap_ranks
from stowplan.framework.shapes import SearchKey, WeightedScores

#: Plugins and their weighted scores of the feasible rows.
Weighted: TypeAlias = "list[tuple[ScoreStep, Int64Array]]"


def ranking_of(scores: WeightedScores, key: SearchKey, rows: Rows, cycle: Cycle) -> Ranking:
    """The ranking of the rows that a search found, cached beside the scores."""
    ranking = scores.ranking
    if ranking is None or ranking.key != key or not ranking.follow(cycle.table, scores):
        ranking = scores.ranking = Ranking(key, rows, scores, cycle)
    return ranking


def normalized(scores: WeightedScores, rows: Rows, cycle: Cycle) -> Weighted:
    """Weighted scores of the plugins that normalise, for some feasible rows."""
    return [
        (step, step.finish(cycle, raw.take(rows)) * step.weight) for step, raw in scores.normalized
    ]


class Ranking(DerivedRows):
    """Feasible rows in search order, each with its total and its rank in a tie as one number."""

    __slots__ = ("_keys", "_normalized_sum", "_places", "_ranks", "key", "normalized")

    def __init__(self, key: SearchKey, rows: Rows, scores: WeightedScores, cycle: Cycle) -> None:
        super().__init__(cycle.table, reads_details=scores.reads_details)
        #: The search that found the rows.
        self.key = key
        #: Row -> place in search order; -1: not feasible.
        self._places = np.full(cycle.table.capacity, -1, np.int32)
        self._places[rows] = np.arange(len(rows), dtype=np.int32)
        self._ranks = heap_ranks(len(rows))
        #: Weighted scores that were normalised; they hold as long as the rows are the same.
        self.normalized = normalized(scores, rows, cycle)
        self._normalized_sum = np.zeros(len(rows), np.int64)
        for _, weighted in self.normalized:
            self._normalized_sum += weighted
        keys = scores.sums.take(rows)
        keys += self._normalized_sum
        keys <<= RANK_BITS
        keys -= self._ranks
        self._keys: Int64Array = keys

    def follow(self, table: NodeTable, scores: WeightedScores) -> bool:
        """Update rows that changed from `scores`, which is up to date; False: rebuild it."""
        rows = self.changed_rows(table)
        if rows is None:
            return False
        if len(rows) > forms.FEW_ROWS:
            self._rank_many(table.pod_journal.as_array(rows), scores)
        else:
            for row in rows:
                place = int(self._places[row])
                if place >= 0:
                    total = int(scores.sums[row]) + int(self._normalized_sum[place])
                    self._keys[place] = (total << RANK_BITS) - int(self._ranks[place])
        self.confirm_rows(table)
        return True

    def _rank_many(self, rows: Rows, scores: WeightedScores) -> None:
        places = self._places[rows]
        feasible = places >= 0
        places = places[feasible]
        keys = scores.sums[rows[feasible]]
        keys += self._normalized_sum[places]
        keys <<= RANK_BITS
        keys -= self._ranks[places]
        self._keys[places] = keys

    def best_place(self, more: Int64Array | None = None) -> int:
        """The winner's place; `more` is added to each row's total."""
        keys = self._keys if more is None else self._keys + (more << RANK_BITS)
        return int(keys.argmax())

    def totals(self, more: Int64Array | None = None) -> Int64Array:
        totals = (self._keys + self._ranks) >> RANK_BITS
        return totals if more is None else totals + more
