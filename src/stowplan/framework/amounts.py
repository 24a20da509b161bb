"""Offered and requested amounts of some resources as float columns that follow the table.

The plugins that score by resources divide every row's amounts for every pod, and floats divide
several times as fast as integers. What must stay true: a row's floats equal the table's integers,
and readers check `is_plain` first, which is true if shares and percentages of them are exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from stowplan.cluster.derived import DerivedRows
from stowplan.cluster.requests import CPU, MEMORY
from stowplan.cluster.table import CPU_ROW, MEMORY_ROW, Int64Array, NodeTable
from stowplan.framework.forms import RowSet
from stowplan.framework.integers import EXACT_IN_FLOAT

Floats: TypeAlias = "NDArray[np.float64]"
_AS_SCORED = {CPU: CPU_ROW, MEMORY: MEMORY_ROW}


class Amounts(DerivedRows):
    """The amounts of each resource in `names`, by row; `as_scored`: with defaults for pods without
    requests.

    They hold until a node changes (`has_same_nodes`). A few rows are read from the table. For all
    rows at once there is a copy as floats, which catches up with the pods when it is read.
    """

    def __init__(self, table: NodeTable, names: Sequence[str], *, as_scored: bool) -> None:
        super().__init__(table)
        self.names = list(names)
        self._table = table
        self._sources = [
            partial(held_column, table, name, as_scored=as_scored) for name in self.names
        ]
        # A slot without a node offers nothing, but its score is not read.
        offered = np.where(table.valid, [table.resources.offered(name) for name in self.names], 1)
        #: True if every node offers a positive amount of each, within the exact range of floats.
        #: A held amount beyond it exceeds the offer anyway.
        self.is_plain = bool(offered.min() > 0 and offered.max() < EXACT_IN_FLOAT)
        self.offered: Floats = offered.astype(np.float64)
        self._held: Floats = np.empty_like(self.offered)
        self._free: Floats = np.empty_like(self.offered)
        self._copy_all()

    def held_at(self, rows: RowSet) -> Floats:
        """What is held on some rows; read only if they are a slice, else a copy."""
        if isinstance(rows, slice):
            self._catch_up()
            return self._held[:, rows]
        held = np.empty((len(self._sources), len(rows)))
        for place, source in enumerate(self._sources):
            held[place] = source()[rows]
        return held

    def free_at(self, rows: RowSet, offered: Floats) -> Floats:
        """The same of what is left of `offered` there; negative where more is held."""
        if isinstance(rows, slice):
            self._catch_up()
            return self._free[:, rows]
        held = self.held_at(rows)
        return np.subtract(offered, held, out=held)

    def _catch_up(self) -> None:
        rows = self.changed_rows(self._table)
        if rows is None:
            self._copy_all()
            self.stamp(self._table.node_journal.end, self._journals)
        elif rows:
            self._copy(rows)
            self.confirm_rows(self._table)

    def _copy_all(self) -> None:
        for place, source in enumerate(self._sources):
            self._held[place] = source()
        np.subtract(self.offered, self._held, out=self._free)

    def _copy(self, rows: list[int]) -> None:
        for place, source in enumerate(self._sources):
            column = source()
            for row in rows:
                held = float(column[row])
                self._held[place, row] = held
                self._free[place, row] = self.offered[place, row] - held


def columns_at(amounts: Floats, rows: RowSet) -> Floats:
    """Some columns of an array with a line for each resource. Read only."""
    return amounts[:, rows] if isinstance(rows, slice) else amounts.take(rows, 1)


def held_column(table: NodeTable, name: str, *, as_scored: bool) -> Int64Array:
    """The requested amount of a resource, by row; `as_scored` as above."""
    index = _AS_SCORED.get(name) if as_scored else None
    if index is None:
        return table.resources.held(name)
    column: Int64Array = table.non_zero[index]
    return column
