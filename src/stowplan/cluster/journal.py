"""A bounded log of the rows that changed, so that a cached column can be refreshed, not rebuilt."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.intp]


class Journal:
    """Append-only numbers of changed rows; a reader remembers `end` and asks what came since."""

    __slots__ = ("_limit", "_rows", "_start")

    def __init__(self, limit: int = 8192) -> None:
        self._rows: list[int] = []
        self._start = 0
        self._limit = limit

    @property
    def end(self) -> int:
        """The position after the newest entry: what a reader that is up to date remembers."""
        return self._start + len(self._rows)

    def mark(self, row: int) -> None:
        """Record that a row changed."""
        rows = self._rows
        rows.append(row)
        if len(rows) > 2 * self._limit:
            drop = len(rows) - self._limit
            del rows[:drop]
            self._start += drop

    def since(self, position: int) -> Rows | None:
        """The distinct rows marked since `position`; None when that is too long ago to tell."""
        changed = self.rows_since(position)
        return None if changed is None else np.array(changed, dtype=np.intp)

    def rows_since(self, position: int) -> list[int] | None:
        """`since` as a list, which is quicker for the one or two rows that it mostly is."""
        first = position - self._start
        if first < 0:
            return None
        changed = self._rows[first:]
        return changed if len(changed) <= 1 else sorted(set(changed))
