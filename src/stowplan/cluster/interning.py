"""Small integers for strings and tuples, so that columns can hold them.

`Interner` numbers values in the order they are first seen. `LabelColumns` holds, for every label
key that a selector has asked for, one int32 column of interned values over all rows of the table;
keys nobody asked for cost nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, ItemsView, Iterable, Mapping
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from stowplan.api.labels import parse_int64

if TYPE_CHECKING:
    from stowplan.cluster.table import NodeTable

T = TypeVar("T", bound=Hashable)

#: Value id of a row that does not carry the label.
ABSENT = -1


class Interner(Generic[T]):
    """Distinct values and their numbers, 0 upwards."""

    __slots__ = ("_ids", "values")

    def __init__(self, values: Iterable[T] = ()) -> None:
        self.values: list[T] = []
        self._ids: dict[T, int] = {}
        for value in values:
            self.id(value)

    def id(self, value: T) -> int:
        """The value's number, given on first sight."""
        number = self._ids.get(value)
        if number is None:
            number = self._ids[value] = len(self.values)
            self.values.append(value)
        return number

    def get(self, value: T) -> int | None:
        """The value's number if it has one."""
        return self._ids.get(value)

    def items(self) -> ItemsView[T, int]:
        return self._ids.items()

    def __len__(self) -> int:
        return len(self.values)


class LabelColumns:
    """Label values by row, for the keys that were asked for."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._columns: dict[str, NDArray[np.int32]] = {}
        self._values: dict[str, Interner[str]] = {}
        self._numbers: dict[str, tuple[NDArray[np.int64], NDArray[np.bool_]]] = {}
        self._versions: dict[str, int] = {}
        #: Key -> a version of its column, and whether no two rows had the same value then.
        self._apart: dict[str, tuple[int, bool]] = {}

    def column(self, key: str) -> NDArray[np.int32]:
        """Value ids of one label key over all rows; `ABSENT` where a node lacks it."""
        column = self._columns.get(key)
        if column is None:
            column = np.full(self._table.capacity, ABSENT, np.int32)
            values: Interner[str] = Interner()
            for row in self._table.live_rows.tolist():
                labels = self._table.node(row).metadata.labels
                if labels and key in labels:
                    column[row] = values.id(labels[key])
            self._columns[key] = column
            self._values[key] = values
            self._versions[key] = 0
        return column

    def version(self, key: str) -> int:
        """Grows whenever a node gains, changes or loses the label, or comes or goes with it."""
        self.column(key)
        return self._versions[key]

    def tells_rows_apart(self, key: str) -> bool:
        """Whether no two nodes have the same value of a label, as with hostnames."""
        version = self.version(key)
        known = self._apart.get(key)
        if known is None or known[0] != version:
            column = self._columns[key]
            is_apart = int(np.bincount(column[column >= 0]).max(initial=0)) <= 1
            known = self._apart[key] = (version, is_apart)
        return known[1]

    def values(self, key: str) -> Interner[str]:
        """The distinct values of a key, by id."""
        self.column(key)
        return self._values[key]

    def numbers(self, key: str) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The distinct values of a key as integers by id, and which of them are integers."""
        values = self.values(key)
        numbers, are_numbers = self._numbers.get(
            key, (np.zeros(0, np.int64), np.zeros(0, np.bool_))
        )
        if len(numbers) < len(values):
            # Ids are given once and for all: only values that are new since must be parsed.
            new = [parse_int64(value) for value in values.values[len(numbers) :]]
            numbers = np.append(numbers, np.array([number or 0 for number in new], np.int64))
            are_numbers = np.append(are_numbers, [number is not None for number in new])
            self._numbers[key] = (numbers, are_numbers)
        return numbers, are_numbers

    def write(self, row: int, labels: Mapping[str, str]) -> None:
        for key, column in self._columns.items():
            value = labels.get(key)
            number = ABSENT if value is None else self._values[key].id(value)
            if column[row] != number:
                column[row] = number
                self._versions[key] += 1

    def grow(self, capacity: int) -> None:
        for key, column in self._columns.items():
            wider = np.full(capacity, ABSENT, np.int32)
            wider[: len(column)] = column
            self._columns[key] = wider
