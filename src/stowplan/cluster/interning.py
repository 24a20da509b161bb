"""Small integers for strings and tuples, so that columns can hold them."""

from __future__ import annotations

from collections.abc import Hashable, ItemsView, Iterable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class Interner(Generic[T]):
    """Distinct values and their numbers, 0 upwards, in the order in which they are first seen."""

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
