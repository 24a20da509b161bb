"""Numbers by row that change one by one, with a log for readers that keep sums of their own.

`counters` counts pods that match a selector this way, `affinity_terms` the terms that pods carry.
Counts are two arrays as they were counted at first, plus the changes since. What must stay true:
a reader that replays the log from a position it remembers arrives at the same `counts`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from stowplan.cluster.journal import ChangeLog, Rows

if TYPE_CHECKING:
    from stowplan.cluster.domain_sums import DomainSums

#: Changes that are remembered even by counts that are empty.
_FEW = 16
#: More changes than this are merged into the arrays.
_MANY_CHANGES = 512
_NO_ROWS: Rows = np.empty(0, np.intp)
_NO_AMOUNTS: NDArray[np.int64] = np.empty(0, np.int64)
#: What an entry of a dict or of a log takes, about.
_ENTRY_BYTES = 100


class RowCounts:
    """Counts by row, and what changed since."""

    __slots__ = ("_amounts", "_changes", "_rows", "domain_sums", "has_grown", "log", "total")

    _LOG_LIMIT = 1024

    def __init__(self) -> None:
        #: A row may occur several times; its amounts add up.
        self._rows = _NO_ROWS
        self._amounts = _NO_AMOUNTS
        #: Row -> what is to be added to the arrays' count; no zeros.
        self._changes: dict[int, int] = {}
        self.total = 0
        #: Topology key -> the counts added up by domain, left here by `domain_sums`.
        self.domain_sums: dict[str, DomainSums] = {}
        #: (row, delta) of every change.
        self.log: ChangeLog[tuple[int, int]] = ChangeLog()
        #: Whether `nbytes` may be larger than when the keeper asked last.
        self.has_grown = True

    @property
    def position(self) -> int:
        """After the newest change: what a reader that is up to date remembers."""
        return self.log.end

    @property
    def nbytes(self) -> int:
        """What the counts take, about."""
        kept = sum(each.nbytes for each in self.domain_sums.values())
        entries = len(self._changes) + len(self.log) + 5
        return self._rows.nbytes + self._amounts.nbytes + kept + _ENTRY_BYTES * entries

    @property
    def size(self) -> int:
        """How many entries `arrays` has; at least the number of rows that are counted."""
        return len(self._rows) + len(self._changes)

    @property
    def counts(self) -> dict[int, int]:
        """Row -> count; rows without any are absent."""
        counts = dict(self._changes)
        for row, amount in zip(self._rows.tolist(), self._amounts.tolist(), strict=True):
            counts[row] = counts.get(row, 0) + amount
        return {row: count for row, count in counts.items() if count}

    def since(self, position: int) -> list[tuple[int, int]] | None:
        """(row, delta) of every change since then; None when that is too long ago to tell."""
        return self.log.entries_since(position)

    def arrays(self) -> tuple[Rows, NDArray[np.int64]]:
        """Rows and amounts; a row may occur several times, its amounts add up."""
        changes = self._changes
        if not changes:
            return self._rows, self._amounts
        rows = np.fromiter(changes, np.intp, len(changes))
        amounts = np.fromiter(changes.values(), np.int64, len(changes))
        if not len(self._rows):
            return rows, amounts
        return np.concatenate((self._rows, rows)), np.concatenate((self._amounts, amounts))

    def dense(self, capacity: int) -> NDArray[np.int64]:
        """The counts as a column of the table."""
        column = np.zeros(capacity, np.int64)
        np.add.at(column, *self.arrays())
        return column

    # The rest is for the keeper alone

    def start(self, rows: Rows, amounts: NDArray[np.int64]) -> None:
        """Set the counts before anything has read them."""
        self._rows, self._amounts = rows, amounts
        self.total = int(amounts.sum())

    def change(self, row: int, delta: int) -> None:
        """Count, and log the change for readers."""
        left = self._changes.get(row, 0) + delta
        if left:
            self._changes[row] = left
        else:
            del self._changes[row]
        self.total += delta
        self.log.append((row, delta))
        self.has_grown |= not self.log.end % _FEW
        # Replaying more than this is slower than adding up again, and counts of pods that have
        # come and gone, of which there may be thousands, must not remember all of them.
        if len(self.log) > 2 * _FEW or len(self.log) > self._LOG_LIMIT:
            enough = min(self._LOG_LIMIT, 2 * self.size + _FEW)
            if len(self.log) > 2 * enough:
                self.log.keep_newest(enough)
        if not self.total:
            self.start(_NO_ROWS, _NO_AMOUNTS)
            self._changes.clear()
        elif len(self._changes) > _MANY_CHANGES and len(self._rows):
            self._merge()

    def _merge(self) -> None:
        all_rows, all_amounts = self.arrays()
        rows, places = np.unique(all_rows, return_inverse=True)
        amounts = np.zeros(len(rows), np.int64)
        np.add.at(amounts, places, all_amounts)
        self.start(rows[amounts != 0], amounts[amounts != 0])
        self._changes.clear()
