"""Rankings: feasible rows with one number each, the largest of which wins.

A ranking puts the scores that `shapes` caches by row into search order, once. From then on the
scores update it where they change. Choosing among thousands of nodes is one `argmax`. `best` uses
it.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from stowplan.cluster.journal import Rows
from stowplan.cluster.table import Int64Array
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import ScoreStep
from stowplan.framework.selection import RANK_BITS, heap_ranks
from stowplan.framework.shapes import SearchKey, WeightedScores

#: Plugins and their weighted scores of the feasible rows.
Weighted: TypeAlias = "list[tuple[ScoreStep, Int64Array]]"


def ranking_of(scores: WeightedScores, key: SearchKey, rows: Rows, cycle: Cycle) -> Ranking:
    """The ranking of the rows that a search found, cached beside the scores."""
    ranking = scores.ranking
    if ranking is None or ranking.key != key:
        ranking = scores.ranking = Ranking(key, rows, scores, cycle)
    return ranking


def normalized(scores: WeightedScores, rows: Rows, cycle: Cycle) -> Weighted:
    """Weighted scores of the plugins that normalise, for some feasible rows."""
    return [
        (step, step.finish(cycle, raw.take(rows)) * step.weight) for step, raw in scores.normalized
    ]


class Ranking:
    """Feasible rows in search order, each with its total and its rank in a tie as one number.

    It belongs to one `WeightedScores`, is up to date when these are, and is dropped with them.
    """

    __slots__ = ("_keys", "_offsets", "_places", "_ranks", "key", "normalized")

    def __init__(self, key: SearchKey, rows: Rows, scores: WeightedScores, cycle: Cycle) -> None:
        #: The search that found the rows.
        self.key = key
        #: Row -> place in search order; -1, the spare place at the end: not feasible.
        self._places = np.full(cycle.table.capacity, -1, np.int32)
        self._places[rows] = np.arange(len(rows), dtype=np.int32)
        self._ranks = heap_ranks(len(rows))
        #: Weighted scores that were normalised; they hold as long as the rows are the same.
        self.normalized = normalized(scores, rows, cycle)
        #: What is added to a place's shifted sum, and the resulting numbers. Both have a spare
        #: place, so that rows which are not feasible need no exception.
        self._offsets: Int64Array = np.zeros(len(rows) + 1, np.int64)
        offsets = self._offsets[:-1]
        for _, weighted in self.normalized:
            offsets += weighted
        offsets <<= RANK_BITS
        offsets -= self._ranks
        self._keys: Int64Array = np.zeros(len(rows) + 1, np.int64)
        self.update(rows, scores.sums)

    def update(self, rows: Rows | list[int], sums: Int64Array) -> None:
        """Rank rows again whose sums changed."""
        places = self._places[rows]
        keys = sums[rows]
        keys <<= RANK_BITS
        keys += self._offsets[places]
        self._keys[places] = keys

    def best_place(self, more: Int64Array | None = None) -> int:
        """The winner's place; `more` is added to each row's total."""
        keys = self._keys[:-1]
        if more is not None:
            keys = keys + (more << RANK_BITS)
        return int(keys.argmax())

    def totals(self, more: Int64Array | None = None) -> Int64Array:
        totals = (self._keys[:-1] + self._ranks) >> RANK_BITS
        return totals if more is None else totals + more
