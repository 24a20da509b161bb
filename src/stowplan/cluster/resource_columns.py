"""How much nodes offer of each resource and how much pods hold of it, by row of the table.

A resource that many nodes offer has a dense index in `allocatable` and `requested`. All others are
kept in dicts of the rows concerned: pods can name thousands of resources that no node offers, and a
broken device plugin can make each node offer resources of its own. What must stay true: an amount
of 0 is stored nowhere but in the matrices; a name without amounts is not stored at all; the
matrices have room for at most `_SOME` names and `_SPARSE` times as many cells as nodes have offers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stowplan.api.quantity import INT64_MAX
from stowplan.cluster.exact_sums import LARGE, ExactSums, Int64Array, reshaped
from stowplan.cluster.requests import CPU, EPHEMERAL_STORAGE, MEMORY, Amounts

#: cpu, memory and ephemeral storage: always dense, always these indices.
_PINNED = (CPU, MEMORY, EPHEMERAL_STORAGE)
#: So many names are dense as soon as one node offers them.
_SOME = 64
#: A further one is if one row of so many offers it, until fewer than one of so many do.
_DENSE, _SPARSE = 16, 64
_FEWEST_INDICES = 4
_NOTHING: Mapping[int, int] = {}


class ResourceColumns:
    """Offers and held amounts in canonical units; amounts are never negative."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        #: Names that are dense -> first index of `allocatable` and `requested`.
        self._index: dict[str, int] = {name: place for place, name in enumerate(_PINNED)}
        self._unused: list[int] = [3]
        #: How many nodes offer some, by index.
        self._offering: list[int] = [0] * _FEWEST_INDICES
        self.allocatable: Int64Array = np.zeros((_FEWEST_INDICES, capacity), np.int64)
        self._held = ExactSums(_FEWEST_INDICES, capacity)
        #: Row -> what its node offers.
        self._offers: dict[int, Amounts] = {}
        #: Names that are not dense -> row -> amount.
        self._few_offers: dict[str, dict[int, int]] = {}
        self._few_held: dict[str, dict[int, int]] = {}
        self._most_few_held = 0

    # Reading

    @property
    def requested(self) -> Int64Array:
        """Held amounts of dense names, by index and row."""
        return self._held.values

    @property
    def nbytes(self) -> int:
        """Size of the matrices."""
        return self.allocatable.nbytes + self.requested.nbytes

    def names_by_row(self) -> defaultdict[int, set[str]]:
        """Names that have an amount on a row, for those that are not dense; else all dense ones."""
        names: defaultdict[int, set[str]] = defaultdict(lambda: set(self._index))
        for amounts in (self._few_offers, self._few_held):
            for name, rows in amounts.items():
                for row in rows:
                    names[row].add(name)
        return names

    def is_offered(self, name: str) -> bool:
        """Whether some node may offer the resource; else `offered` is a new column of zeros."""
        return name in self._index or name in self._few_offers

    def offered(self, name: str) -> Int64Array:
        """How much each row offers. Read only."""
        index = self._index.get(name)
        if index is not None:
            row: Int64Array = self.allocatable[index]
            return row
        return self._column(self._few_offers.get(name, _NOTHING))

    def held(self, name: str) -> Int64Array:
        """How much is held on each row, at most what an int64 holds. Read only."""
        index = self._index.get(name)
        if index is not None:
            row: Int64Array = self._held.values[index]
            return row
        return self._column(self._few_held.get(name, _NOTHING))

    def is_large(self, name: str) -> bool:
        """Whether more may be held than can be added as int64; then use `held_exactly`."""
        return bool(self._held.large) or name not in self._index

    def held_exactly(self, name: str) -> NDArray[Any]:
        """How much is held on each row, as Python integers."""
        index = self._index.get(name)
        if index is not None:
            return self._held.exact_column(index)
        column = np.zeros(self._capacity, object)
        for row, amount in self._few_held.get(name, _NOTHING).items():
            column[row] = amount
        return column

    def offered_on(self, name: str, row: int) -> int:
        index = self._index.get(name)
        if index is None:
            return self._few_offers.get(name, _NOTHING).get(row, 0)
        amount: int = self.allocatable.item(index, row)
        return amount

    def held_on(self, name: str, row: int) -> int:
        """The exact sum, which an int64 may not hold."""
        index = self._index.get(name)
        if index is None:
            return self._few_held.get(name, _NOTHING).get(row, 0)
        held = self._held
        return held.exact(index, row) if held.large else int(held.values[index, row])

    def offers_of(self, row: int) -> Mapping[str, int]:
        """What a row's node offers, by name."""
        return self._offers.get(row, {})

    # Writing

    def set_offers(self, row: int, amounts: Amounts) -> None:
        """What a row's node offers from now on; no amount is 0."""
        old = self._offers.get(row, {})
        if old == amounts:
            return
        for name in old:
            if name not in amounts:
                self._offer(name, row, 0)
        for name, amount in amounts.items():
            if old.get(name) != amount:
                self._offer(name, row, amount)
        if amounts:
            self._offers[row] = amounts
        else:
            del self._offers[row]

    def hold(self, row: int, amounts: Iterable[tuple[str, int]], sign: int) -> None:
        """Pods on a row hold more (1) or less (-1)."""
        held = self._held
        for name, amount in amounts:
            index = self._index.get(name)
            if index is None:
                if amount:
                    self._hold_few(name, row, sign * amount)
                continue
            total = held.values.item(index, row) + sign * amount
            if total >= LARGE or held.large:
                held.add(index, row, sign * amount)
            else:
                held.values[index, row] = total

    def grow(self, capacity: int) -> None:
        """Make room for more rows."""
        self._capacity = capacity
        for name in list(self._index):
            if not self._is_worth_it(name):
                self._make_sparse(name)
        self._reshape(len(self.allocatable))

    def _hold_few(self, name: str, row: int, amount: int) -> None:
        rows = self._few_held.setdefault(name, {})
        total = rows.get(row, 0) + amount
        if total:
            rows[row] = total
            return
        del rows[row]
        if not rows:
            del self._few_held[name]
            self._most_few_held = max(self._most_few_held, len(self._few_held) + 1)
            if len(self._few_held) * 4 <= self._most_few_held:
                # A dict keeps the room of keys that were deleted; a copy does not.
                self._few_held = dict(self._few_held)
                self._most_few_held = len(self._few_held)

    def _offer(self, name: str, row: int, amount: int) -> None:
        index = self._index.get(name)
        if index is not None:
            self._offering[index] += (amount > 0) - (self.allocatable.item(index, row) > 0)
            self.allocatable[index, row] = amount
            if not self._is_worth_it(name):
                self._make_sparse(name)
                if len(self._index) * 4 <= len(self.allocatable) > _FEWEST_INDICES:
                    self._reshape(len(self.allocatable) // 2)
            return
        offers = self._few_offers.setdefault(name, {})
        if amount:
            offers[row] = amount
        else:
            del offers[row]
        if not offers:
            del self._few_offers[name]
        elif len(self._index) < _SOME or len(offers) * _DENSE >= self._capacity:
            self._make_dense(name)

    def _is_worth_it(self, name: str) -> bool:
        """Whether a name that is dense stays so."""
        index = self._index[name]
        if index < len(_PINNED):
            return True
        nodes = self._offering[index]
        return nodes > 0 and (len(self._index) <= _SOME or nodes * _SPARSE >= self._capacity)

    def _make_dense(self, name: str) -> None:
        if not self._unused:
            self._reshape(2 * len(self.allocatable))
        index = self._index[name] = self._unused.pop()
        offers = self._few_offers.pop(name)
        self._offering[index] = len(offers)
        for row, amount in offers.items():
            self.allocatable[index, row] = amount
        self._held.write(index, self._few_held.pop(name, _NOTHING))

    def _make_sparse(self, name: str) -> None:
        index = self._index.pop(name)
        self._unused.append(index)
        offered = self.allocatable[index]
        rows = np.flatnonzero(offered)
        if len(rows):
            offers = zip(rows.tolist(), offered[rows].tolist(), strict=True)
            self._few_offers[name] = dict(offers)
        offered[:] = 0
        self._offering[index] = 0
        held = self._held.take(index)
        if held:
            self._few_held[name] = held

    def _reshape(self, indices: int) -> None:
        """Matrices of another size, with all names that are dense in front."""
        kept = list(self._index.values())
        self.allocatable = reshaped(self.allocatable, indices, self._capacity, kept)
        self._held.reshape(indices, self._capacity, kept)
        used = len(kept)
        self._offering = [self._offering[index] for index in kept] + [0] * (indices - used)
        self._index = {name: place for place, name in enumerate(self._index)}
        self._unused = list(range(indices - 1, used - 1, -1))

    def _column(self, amounts: Mapping[int, int]) -> Int64Array:
        column: Int64Array = np.zeros(self._capacity, np.int64)
        rows = np.fromiter(amounts, np.intp, len(amounts))
        try:
            column[rows] = np.fromiter(amounts.values(), np.int64, len(amounts))
        except OverflowError:
            column[rows] = [min(amount, INT64_MAX) for amount in amounts.values()]
        return column
