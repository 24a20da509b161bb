"""Sums of what pods hold, by row: int64 columns that saturate instead of wrapping around.

A saturated sum cannot be subtracted from, so the few cells that are near the end of an int64 are
also kept as Python integers. What must stay true: `values[index, row]` is the exact sum, or
`INT64_MAX` where the sum is larger; every cell of `LARGE` or more is in `large`.

DIVERGES: amounts and their sums stay within 0 and what an int64 holds. Upstream's wrap around: two
pods of 9223372036854775807m CPU make a node look empty, and a pod whose containers add up to more
has a negative request, which fits anywhere. With ours a node that is asked for more than an int64
holds is full for every pod, and has its room back when those pods are gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stowplan.api.quantity import INT64_MAX

Int64Array = NDArray[np.int64]

#: Two amounts below this can be added as int64.
LARGE = 1 << 62


class ExactSums:
    """Sums of non-negative amounts by index and row."""

    __slots__ = ("large", "values")

    def __init__(self, indices: int, capacity: int) -> None:
        self.values: Int64Array = np.zeros((indices, capacity), np.int64)
        #: The exact sums of cells so large that columns of sums must not be added as int64.
        self.large: dict[tuple[int, int], int] = {}

    def add(self, index: int, row: int, amount: int) -> None:
        """Add an amount to one cell; a negative one takes away what was added."""
        total = self.values.item(index, row)
        if self.large:
            total = self.large.pop((index, row), total)
        total += amount
        if total >= LARGE:
            self.large[index, row] = total
            total = min(total, INT64_MAX)
        self.values[index, row] = total

    def add_all(self, row: int, amounts: Iterable[int], sign: int) -> None:
        """Add an amount to each index of a row, or take it away (-1)."""
        for index, amount in enumerate(amounts):
            total = self.values.item(index, row) + sign * amount
            if total >= LARGE or self.large:
                self.add(index, row, sign * amount)
            else:
                self.values[index, row] = total

    def exact(self, index: int, row: int) -> int:
        """One sum, however large."""
        total: int = self.values.item(index, row)
        return self.large.get((index, row), total) if self.large else total

    def exact_column(self, index: int) -> NDArray[Any]:
        """The sums of one index as Python integers."""
        column: NDArray[Any] = self.values[index].astype(object)
        for (number, row), total in self.large.items():
            if number == index:
                column[row] = total
        return column

    def write(self, index: int, sums: Mapping[int, int]) -> None:
        """Set the sums of some rows of an index that has none."""
        for row, total in sums.items():
            self.add(index, row, total)

    def take(self, index: int) -> dict[int, int]:
        """The sums of an index that are not 0, by row; the index is left with zeros."""
        rows = np.flatnonzero(self.values[index]).tolist()
        sums = {row: self.exact(index, row) for row in rows}
        self.values[index] = 0
        for row in rows if self.large else ():
            self.large.pop((index, row), None)
        return sums

    def reshape(self, indices: int, capacity: int, kept: Sequence[int]) -> None:
        """Make room for more or fewer of both; the `kept` indices become the first."""
        self.values = reshaped(self.values, indices, capacity, kept)
        if self.large:
            place_of = {index: place for place, index in enumerate(kept)}
            large = self.large.items()
            self.large = {(place_of[index], row): total for (index, row), total in large}


def reshaped(values: Int64Array, indices: int, capacity: int, kept: Iterable[int]) -> Int64Array:
    """A copy with other dimensions; the `kept` indices become the first, the rest is zeros."""
    chosen = values[list(kept)]
    made: Int64Array = np.zeros((indices, capacity), np.int64)
    made[: len(chosen), : values.shape[1]] = chosen
    return made
