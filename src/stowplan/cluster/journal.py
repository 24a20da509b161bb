"""Bounded logs of changes, so that a derived value can be refreshed instead of rebuilt.

A reader remembers the position it has read up to and asks what came since. A position is a
generation number: two equal positions mean that nothing changed. Every log begins at a position of
its own, so positions of different logs are never equal.
"""

from __future__ import annotations

from itertools import count
from typing import Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.intp]
T = TypeVar("T")
#: Each log begins at a multiple of this; no log lives long enough to reach the next one.
_APART: Final = 1 << 40
_numbers = count(1)


class ChangeLog(Generic[T]):
    """Append-only entries, the oldest of which are dropped."""

    __slots__ = ("_entries", "_start", "end", "limit")

    def __init__(self, limit: int = 8192) -> None:
        self._entries: list[T] = []
        self._start = next(_numbers) * _APART
        #: How many entries are kept at least.
        self.limit = limit
        #: The position after the newest entry: what a reader that is up to date remembers.
        self.end = self._start

    def __len__(self) -> int:
        return len(self._entries)

    def append(self, entry: T) -> None:
        self._entries.append(entry)
        self.end += 1
        if self.end - self._start > 2 * self.limit:
            self.keep_newest(self.limit)

    def entries_since(self, position: int) -> list[T] | None:
        """Every entry since `position`; None if some were dropped, or it is another log's."""
        if self._start <= position <= self.end:
            return self._entries[position - self._start :]
        return None

    def count_since(self, position: int) -> int | None:
        """The number of entries since `position`; None where `entries_since` is."""
        return self.end - position if self._start <= position <= self.end else None

    def restart(self) -> None:
        """Drop all entries, so that every reader rebuilds."""
        self._entries.clear()
        self.end += 1
        self._start = self.end

    def keep_newest(self, count: int) -> None:
        """Drop the oldest entries."""
        drop = len(self._entries) - count
        if drop > 0:
            del self._entries[:drop]
            self._start += drop


class Journal(ChangeLog[int]):
    """The numbers of rows that changed."""

    __slots__ = ("_array", "_asked", "_rows")

    def __init__(self, limit: int = 8192) -> None:
        super().__init__(limit)
        self._asked = (-1, -1)
        self._rows: list[int] = []
        self._array: Rows | None = None

    #: Record that a row changed.
    mark = ChangeLog.append

    def entries_since(self, position: int) -> list[int] | None:
        """The distinct rows marked since `position`, in order. Read only.

        The latest answer is kept: what belongs to one pod's shape is mostly of the same age.
        """
        asked = (position, self.end)
        if asked != self._asked:
            if not self._start <= position <= self.end:
                return None
            marked = self._entries[position - self._start :]
            self._asked, self._rows = asked, sorted(set(marked)) if len(marked) > 1 else marked
            self._array = None
        return self._rows

    def as_array(self, rows: list[int]) -> Rows:
        """Rows as an index array; the latest of `entries_since` are converted once."""
        if rows is not self._rows:
            return np.array(rows, dtype=np.intp)
        if self._array is None:
            self._array = np.array(rows, dtype=np.intp)
            self._array.flags.writeable = False  # several readers share it
        return self._array
