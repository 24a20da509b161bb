"""Columns that pods with the same signature share, refreshed row by row.

Keyed by plugin and by what that plugin reads of the pod (`Plugin.sign`), because many pods differ
only in what most plugins never look at. A column is kept when its signature is seen a second
time, and refreshed from the table's journals instead of being rebuilt. `shapes` caches the combined
result of all plugins' columns. Without a cache (`ColumnCache(limit_bytes=0)`) every answer is the
same, only slower; a property test checks it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from stowplan.cluster.bytes_lru import SecondUseLru
from stowplan.cluster.derived import Derived, few_rows
from stowplan.cluster.journal import Journal, Rows
from stowplan.cluster.table import Int32Array, Int64Array, NodeTable
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import FilterStep, RowSet, ScoreStep

_Fill: TypeAlias = Callable[[Cycle, RowSet, Any], None]


class Column(Derived[int]):
    """A plugin's values over the whole table. Read only, and good for one decision."""

    __slots__ = ("_range", "values")

    def __init__(self, values: NDArray[Any], journals: tuple[Journal, ...]) -> None:
        super().__init__(None, journals)
        self.values = values
        self._range: tuple[int, int] | None = None

    def changed_rows(self, table: NodeTable, journals: tuple[Journal, ...]) -> list[int] | None:
        """Rows to fill again, then `confirm`; None: it is quicker, or necessary, to fill all."""
        rows = self.changes(None, journals)
        if not rows:
            return rows
        self._range = None
        return few_rows(rows, journals, table)

    def range_of(self, used: slice) -> tuple[int, int]:
        """The smallest and the largest value of slots that are used."""
        if self._range is None:
            values = self.values[used]
            self._range = int(values.min(initial=0)), int(values.max(initial=0))
        return self._range


class ColumnCache:
    """Verdict and raw score columns of a profile's plugins, bounded by bytes."""

    def __init__(self, limit_bytes: int = 64 << 20) -> None:
        self.limit_bytes = limit_bytes
        #: The columns; `shapes` and `what_if` put their values there too.
        self.lru = SecondUseLru(limit_bytes)
        self.hits = 0
        self.misses = 0
        #: Arrays for columns that are not kept, by point and plugin.
        self._spare: dict[tuple[str, str], NDArray[Any]] = {}

    def verdicts(self, step: FilterStep, cycle: Cycle) -> Int32Array:
        """The filter column of a cacheable plugin over the whole table. Read only."""
        return self._get("filter", step, step.fill, step.fill, cycle, np.int32).values

    def scores(self, step: ScoreStep, cycle: Cycle) -> Int64Array:
        """The raw score column of a cacheable plugin over the whole table. Read only."""
        return self._get("score", step, step.fill, step.refresh, cycle, np.int64).values

    def passing_verdicts(self, step: FilterStep, signature: Hashable, cycle: Cycle) -> Int32Array:
        """`verdicts` that need not last: the next to ask for the plugin's may write over them."""
        fill = step.fill
        return self._find("filter", step, signature, fill, fill, cycle, np.int32).values

    def passing_scores(self, step: ScoreStep, signature: Hashable, cycle: Cycle) -> Column:
        """`scores` that need not last."""
        return self._find("score", step, signature, step.fill, step.refresh, cycle, np.int64)

    def _get(
        self,
        point: str,
        step: FilterStep | ScoreStep,
        fill: _Fill,
        refresh: Callable[[Cycle, Rows, Any], None],
        cycle: Cycle,
        dtype: DTypeLike,
    ) -> Column:
        signature = step.sign(cycle) if self.lru.is_used else None
        if signature is None:
            return Column(_whole(fill, cycle, dtype), ())
        return self._find(point, step, signature, fill, refresh, cycle, dtype, is_spare=False)

    def _find(
        self,
        point: str,
        step: FilterStep | ScoreStep,
        signature: Hashable,
        fill: _Fill,
        refresh: Callable[[Cycle, Rows, Any], None],
        cycle: Cycle,
        dtype: DTypeLike,
        *,
        is_spare: bool = True,
    ) -> Column:
        table = cycle.table
        key = (point, step.name, signature)
        column: Column | None = self.lru.get(key)
        journals = table.journals[: step.journal_count]
        if column is not None:
            changed = column.changed_rows(table, journals)
            if changed is not None:
                self.hits += 1
                if changed:
                    refresh(cycle, np.array(changed, dtype=np.intp), column.values)
                    column.confirm(None)
                return column
        self.misses += 1
        is_admitted = self.lru.admits(key)
        spare = self._spare.get((point, step.name)) if is_spare and not is_admitted else None
        column = Column(_whole(fill, cycle, dtype, spare), journals)
        if is_admitted:
            self.lru.put(key, column, column.values.nbytes)
        elif is_spare:
            self._spare[point, step.name] = column.values
        return column


def _whole(
    fill: _Fill, cycle: Cycle, dtype: DTypeLike, spare: NDArray[Any] | None = None
) -> NDArray[Any]:
    """A column over every slot; values of slots without a node are never read."""
    values = spare
    if values is None or len(values) != cycle.table.capacity:
        values = np.zeros(cycle.table.capacity, dtype)
    fill(cycle, cycle.table.used_slots, values)
    return values
