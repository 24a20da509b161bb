"""Variables of an expression by name: loops and bindings hide outer variables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Generic, TypeVar

T = TypeVar("T")


class Scopes(Generic[T]):
    def __init__(self, outermost: Mapping[str, T] | None = None) -> None:
        self._values = {name: [value] for name, value in (outermost or {}).items()}

    def find(self, name: str) -> T | None:
        """The innermost variable of that name."""
        values = self._values.get(name)
        return values[-1] if values else None

    @contextmanager
    def inner(self, variables: Mapping[str, T]) -> Iterator[None]:
        for name, value in variables.items():
            self._values.setdefault(name, []).append(value)
        yield
        for name in variables:
            self._values[name].pop()
