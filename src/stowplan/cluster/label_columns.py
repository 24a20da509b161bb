"""Label values as columns of small integers: one index a labelled thing, one column a label key.

Nodes, kinds of pods and namespaces are such things. A column is built when a selector first asks
for its key and then follows the labels; a key that nothing carries has no column at all. Columns
are kept within a budget of bytes. What must stay true: a column equals the labels as they were
last written, and its version changes whenever a value does or value ids are given out again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import count
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stowplan.api.labels import Operator, Requirement, parse_int64
from stowplan.cluster import bytes_lru
from stowplan.cluster.interning import Interner
from stowplan.cluster.work import STEP, Work

#: Value id of an index that does not carry the label.
ABSENT: Final = -1
#: A column is built again when so many of its value ids are out of use.
_SPARE_VALUES: Final = 1024
_NO_CARRIERS: Final[frozenset[int]] = frozenset()
#: More requirements than this are first combined by label.
_FEW_REQUIREMENTS: Final = 64

Labels: TypeAlias = Mapping[str, str]
BoolArray: TypeAlias = NDArray[np.bool_]


class LabelColumn:
    """The values of one key by index. Read only, and good until the labels change."""

    __slots__ = ("apart_in", "numbers", "used", "value_ids", "values", "version")

    def __init__(self, value_ids: NDArray[np.int32], values: Interner[str], version: int) -> None:
        #: Value ids by index; `ABSENT` where the label is missing.
        self.value_ids = value_ids
        #: The values by id; some may be out of use.
        self.values = values
        #: Equal versions mean the same values and value ids. 0: nothing carries the label.
        self.version = version
        #: When it was asked for last.
        self.used = 0
        #: The distinct values as integers, and which of them are integers.
        self.numbers = (np.zeros(0, np.int64), np.zeros(0, np.bool_))
        #: The version in which `tells_apart` was found out, and its answer.
        self.apart_in: tuple[int, bool] = (0, False)

    @property
    def nbytes(self) -> int:
        return 20 * len(self.value_ids)


class LabelColumns:
    """Label values by index, for the keys that selectors ask for."""

    def __init__(
        self,
        labels_of: Callable[[int], Labels],
        capacity: int,
        work: Work | None = None,
        *,
        keeps_ids: bool = False,
        limit_bytes: int = 16 << 20,
    ) -> None:
        """`labels_of` returns the labels that were last written for an index.

        With `keeps_ids`, value ids stay the same until `trim` or `advance` is called, for readers
        that keep them for the length of a decision.
        """
        self._labels_of = labels_of
        self._work = work or Work()
        self._keeps_ids = keeps_ids
        self.capacity = capacity
        # A hand-made `BytesLru`: columns are looked up many times a decision.
        self._columns: dict[str, LabelColumn] = {}
        self._limit_bytes = limit_bytes
        self._ticks = 0
        #: What the columns take.
        self.nbytes = 0
        self._carriers: dict[str, set[int]] = {}
        self._versions = count(1)
        #: Changes when a key is carried for the first time, or no longer.
        self.keys_version = 0
        self._nothing = LabelColumn(np.full(capacity, ABSENT, np.int32), Interner(), 0)

    # Reading

    def carriers(self, key: str) -> Collection[int]:
        """The indexes that carry a label."""
        return self._carriers.get(key, _NO_CARRIERS)

    def find(self, key: str) -> LabelColumn:
        """The column of a key, built if need be."""
        column = self._columns.get(key)
        if column is None:
            return self._build(key)
        column.used = self._ticks
        return column

    def column(self, key: str) -> NDArray[np.int32]:
        """Value ids of a key by index; `ABSENT` where the label is missing. Read only."""
        return self.find(key).value_ids

    def values(self, key: str) -> Interner[str]:
        """The values of a key by id; some may be out of use."""
        return self.find(key).values

    def version(self, key: str) -> int:
        """Equal versions mean the same values and value ids. 0: nothing carries the label."""
        return self.find(key).version

    def numbers(self, key: str) -> tuple[NDArray[np.int64], BoolArray]:
        """The values of a key as integers by id, and which of them are integers."""
        column = self.find(key)
        numbers, are_numbers = column.numbers
        if len(numbers) < len(column.values):
            new = [parse_int64(value) for value in column.values.values[len(numbers) :]]
            numbers = np.append(numbers, np.array([number or 0 for number in new], np.int64))
            are_numbers = np.append(are_numbers, [number is not None for number in new])
            column.numbers = (numbers, are_numbers)
        return numbers, are_numbers

    def tells_apart(self, key: str) -> bool:
        """Whether no two indexes have the same value of a label, as with hostnames."""
        column = self.find(key)
        if not column.version:
            return True
        version, is_apart = column.apart_in
        if version != column.version:
            ids = column.value_ids
            is_apart = int(np.bincount(ids[ids >= 0]).max(initial=0)) <= 1
            column.apart_in = (column.version, is_apart)
        return is_apart

    def holds(self, requirement: Requirement) -> BoolArray:
        """Whether a requirement holds, by value id.

        The last entry is for indexes without the label, where `ABSENT` (-1) finds it.
        """
        key, operator, wanted = requirement
        values = self.values(key)
        holds = np.zeros(len(values) + 1, np.bool_)
        if operator in ("In", "NotIn"):
            holds[[number for value in wanted if (number := values.get(value)) is not None]] = True
            return holds if operator == "In" else ~holds
        if operator in ("Exists", "DoesNotExist"):
            holds[-1] = True
            return holds if operator == "DoesNotExist" else ~holds
        limit = parse_int64(wanted[0])
        assert limit is not None, "a compiled requirement compares with an integer"
        numbers, are_numbers = self.numbers(key)
        compared = numbers > limit if operator == "Gt" else numbers < limit
        holds[:-1] = compared & are_numbers
        return holds

    def narrow(
        self,
        mask: BoolArray,
        requirements: tuple[Requirement, ...],
        at: NDArray[np.intp] | slice = slice(None),
    ) -> BoolArray:
        """Clear those of `mask` whose labels miss a requirement; `at` says whose mask it is."""
        if len(requirements) > _FEW_REQUIREMENTS:
            combined = tuple(combined_by_label(requirements))
            self._work.spend(STEP // 2 * len(requirements))
            requirements = combined
        for requirement in requirements:
            if requirement.key not in self._carriers:
                if requirement.operator in ("NotIn", "DoesNotExist"):
                    continue
                mask[:] = False
                return mask
            mask &= self.holds(requirement)[self.column(requirement.key)[at]]
            self._work.spend(5 * STEP + 2 * len(mask) + STEP // 8 * len(requirement.values))
        return mask

    # Writing

    def write(self, index: int, old: Labels, new: Labels) -> None:
        """The labels of an index changed; `labels_of` returns the new ones already."""
        for key, value in old.items():
            if key not in new:
                carriers = self._carriers[key]
                carriers.remove(index)
                if not carriers:
                    del self._carriers[key]
                    self.keys_version += 1
                    self._drop(key)
                else:
                    self._set(key, index, None)
            elif new[key] != value:
                self._set(key, index, new[key])
        for key in new:
            if key not in old:
                if key not in self._carriers:
                    self._carriers[key] = set()
                    self.keys_version += 1
                self._carriers[key].add(index)
                self._set(key, index, new[key])

    def grow(self, capacity: int) -> None:
        """Make room for more indexes. Columns are built again when they are asked for."""
        self.capacity = capacity
        self._columns.clear()
        self.nbytes = 0
        self._nothing = LabelColumn(np.full(capacity, ABSENT, np.int32), Interner(), 0)

    def trim(self) -> None:
        """Evict the least recently used columns, down to the budget."""
        while self.nbytes > self._limit_bytes and len(self._columns) > 1:
            self._drop(min(self._columns, key=lambda key: self._columns[key].used))

    def advance(self, ticks: int) -> None:
        """Let time pass, and evict columns that have not been asked for in long."""
        self._ticks += ticks
        for key, column in list(self._columns.items()):
            if self._ticks - column.used >= bytes_lru.IDLE_TICKS:
                self._drop(key)

    def _set(self, key: str, index: int, value: str | None) -> None:
        column = self._columns.get(key)
        if column is None:
            return
        if len(column.values) > 2 * len(self._carriers[key]) + _SPARE_VALUES:
            self._drop(key)
            return
        column.value_ids[index] = ABSENT if value is None else column.values.id(value)
        column.version = next(self._versions)

    def _build(self, key: str) -> LabelColumn:
        carriers = self._carriers.get(key)
        if carriers is None:
            return self._nothing
        value_ids = np.full(self.capacity, ABSENT, np.int32)
        values: Interner[str] = Interner()
        indexes = sorted(carriers)
        labels_of, number = self._labels_of, values.id
        value_ids[indexes] = [number(labels_of(index)[key]) for index in indexes]
        column = LabelColumn(value_ids, values, next(self._versions))
        column.used = self._ticks = self._ticks + 1
        self._columns[key] = column
        self.nbytes += column.nbytes
        if not self._keeps_ids:
            self.trim()
        self._work.spend(STEP // 4 * len(carriers) + self.capacity)
        return column

    def _drop(self, key: str) -> None:
        column = self._columns.pop(key, None)
        if column is not None:
            self.nbytes -= column.nbytes


def combined_by_label(requirements: Iterable[Requirement]) -> Iterator[Requirement]:
    """At most one requirement of each operator on each label, which mean the same together.

    A pod may have thousands on one label, and each would look at all nodes.
    """
    merged: dict[tuple[str, Operator], set[str]] = {}
    for key, operator, values in requirements:
        known = merged.get((key, operator))
        if known is None:
            merged[key, operator] = set(values)
        elif operator == "In":
            known &= set(values)
        elif operator in ("Gt", "Lt"):
            tightest = max if operator == "Gt" else min
            merged[key, operator] = {tightest((*known, *values), key=int)}
        else:
            known |= set(values)
    for (key, operator), found in merged.items():
        yield Requirement(key, operator, tuple(sorted(found)))
