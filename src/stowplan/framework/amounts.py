"""What nodes offer and what is held of some resources, as floats that follow the table.

The plugins that score by resources divide every row's amounts for every pod, and floats divide
several times as fast as integers. What must stay true: a row's floats equal the table's integers,
and whoever reads them has checked `is_plain`, which says that shares and percentages of them are
exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from stowplan.cluster.table import Int64Array, NodeTable
from stowplan.framework.integers import EXACT_IN_FLOAT
from stowplan.framework.shapes import Follower

Floats: TypeAlias = "NDArray[np.float64]"


class Amounts(Follower):
    """Of each of `indices`, by row; `as_scored`: pods without requests count as scores count them.

    Like any array of the table's it is good for one decision; then `follow` it.
    """

    def __init__(self, table: NodeTable, indices: Sequence[int], *, as_scored: bool) -> None:
        super().__init__(table)
        self._table = table
        self._as_scored = as_scored
        self.indices = list(indices)
        # A slot without a node offers nothing, but nobody reads what it scores.
        offered = np.where(table.valid, table.allocatable[self.indices], 1)
        #: Whether every node offers some of each, and not more than floats are exact for. What is
        #: held may be more: that is over the whole, by however much.
        self.is_plain = bool(offered.min() > 0 and offered.max() < EXACT_IN_FLOAT)
        self.offered: Floats = offered.astype(np.float64)
        self.held: Floats = np.array([self._source(index) for index in indices], np.float64)
        #: Less than 0 where more is held than there is.
        self.free: Floats = self.offered - self.held

    def follow(self, table: NodeTable) -> list[int] | None:
        """Catch up, and say which rows' pods changed; None: make it anew."""
        rows = self.changed_rows(table) if table is self._table else None
        if rows:
            for place, index in enumerate(self.indices):
                source = self._source(index)
                for row in rows:
                    held = float(source[row])
                    self.held[place, row] = held
                    self.free[place, row] = self.offered[place, row] - held
        return rows

    def _source(self, index: int) -> Int64Array:
        is_adjusted = self._as_scored and index < len(self._table.non_zero)
        source: Int64Array = (self._table.non_zero if is_adjusted else self._table.requested)[index]
        return source
