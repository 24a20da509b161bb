"""Numbers by row that change one by one, with a log for readers that keep sums of their own.

`counters` counts pods that match a selector this way, `affinity_terms` the terms that pods carry.
What must stay true: `counts` holds no zeros, and whoever replays the log from a position it
remembers arrives at the same `counts`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from stowplan.cluster.domain_sums import DomainSums

#: Changes that are remembered even by counts that are empty.
_FEW = 16


class RowCounts:
    """Counts by row, and what changed since."""

    __slots__ = ("_log", "_start", "counts", "domain_sums", "total")

    _LOG_LIMIT = 1024

    def __init__(self) -> None:
        #: Row -> count; rows without any are absent.
        self.counts: dict[int, int] = {}
        self.total = 0
        #: Topology key -> the counts added up by domain, left here by `domain_sums`.
        self.domain_sums: dict[str, DomainSums] = {}
        self._log: list[tuple[int, int]] = []
        self._start = 0

    @property
    def position(self) -> int:
        """After the newest change: what a reader that is up to date remembers."""
        return self._start + len(self._log)

    def since(self, position: int) -> list[tuple[int, int]] | None:
        """(row, delta) of every change since then; None when that is too long ago to tell."""
        first = position - self._start
        return self._log[first:] if first >= 0 else None

    def dense(self, capacity: int) -> NDArray[np.int64]:
        """The counts as a column of the table."""
        column = np.zeros(capacity, np.int64)
        if self.counts:
            column[list(self.counts)] = list(self.counts.values())
        return column

    # The rest is for the keeper alone

    def count(self, row: int, delta: int) -> None:
        left = self.counts.get(row, 0) + delta
        if left:
            self.counts[row] = left
        else:
            del self.counts[row]
        self.total += delta

    def change(self, row: int, delta: int) -> None:
        """Count, and tell the readers."""
        self.count(row, delta)
        self._log.append((row, delta))
        # To replay more than that is slower than to add up anew; and the counts of who has come
        # and gone, of which there may be thousands, should not remember all of it.
        enough = min(self._LOG_LIMIT, 2 * len(self.counts) + _FEW)
        if len(self._log) > 2 * enough:
            drop = len(self._log) - enough
            del self._log[:drop]
            self._start += drop
