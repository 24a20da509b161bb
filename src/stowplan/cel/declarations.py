"""Functions: overloads for the checker, and implementations.

A library registers its functions with a signature in text, receiver first:

    @FUNCTIONS.overload("lowerAscii", "string_lower_ascii", "string.() -> string")
    def lower_ascii(text): ...

An overload runs if the values have the declared types; for a receiver of type `dyn` this is checked
at run time. An operator has one implementation for all its overloads, which checks types itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from stowplan.cel.errors import Failure
from stowplan.cel.types import Type, parse_type
from stowplan.cel.values import Map, Value, type_name

Implementation = Callable[..., Value]


@dataclass(frozen=True, slots=True)
class Overload:
    name: str
    is_member: bool
    args: tuple[Type, ...]
    result: Type
    run: Implementation | None = None

    def accepts(self, values: Sequence[Value]) -> bool:
        return len(values) == len(self.args) and all(map(_is_a, values, self.args))


def _is_a(value: Value, of: Type) -> bool:
    """Whether a value has the type. Of lists and maps, only the first entry is checked."""
    if of.is_param or of.is_dyn:
        return True
    if of.name != type_name(value):
        return False
    if isinstance(value, list) and value:
        return _is_a(value[0], of.params[0])
    if isinstance(value, Map) and value:
        return all(map(_is_a, next(value.items()), of.params))
    return True


@dataclass(slots=True)
class Function:
    name: str
    overloads: list[Overload] = field(default_factory=list)
    #: One implementation for all overloads.
    operator: Implementation | None = None

    def implementation(self, overload: str | None) -> Implementation:
        """The function to call: the checker's overload, or the first that accepts the values."""
        if self.operator is not None:
            return self.operator
        chosen = [one for one in self.overloads if overload in (None, one.name)]

        def run(*values: Value) -> Value:
            for one in chosen:
                if one.run is not None and one.accepts(values):
                    return one.run(*values)
            names = ", ".join(type_name(value) for value in values)
            return Failure(f"no such overload: {self.name}({names})")

        return run


class Functions:
    """All functions by name."""

    def __init__(self) -> None:
        self._by_name: dict[str, Function] = {}

    def get(self, name: str) -> Function | None:
        return self._by_name.get(name)

    def function(self, name: str) -> Function:
        return self._by_name.setdefault(name, Function(name))

    def declare(self, name: str, overload: str, signature: str) -> None:
        """Declare an overload that the function's operator implements."""
        self._add(name, overload, signature, None)

    def overload(
        self, name: str, overload: str, signature: str
    ) -> Callable[[Implementation], Implementation]:
        def register(run: Implementation) -> Implementation:
            self._add(name, overload, signature, run)
            return run

        return register

    def operator(self, name: str) -> Callable[[Implementation], Implementation]:
        def register(run: Implementation) -> Implementation:
            self.function(name).operator = run
            return run

        return register

    def _add(self, name: str, overload: str, signature: str, run: Implementation | None) -> None:
        match = re.fullmatch(r"(?:(.+?)\.)?\((.*)\) -> (.+)", signature)
        if match is None:
            raise ValueError(f"signature {signature!r} of {name}")
        receiver, args, result = match.groups()
        types = [parse_type(one) for one in split_types(args)]
        if receiver:
            types.insert(0, parse_type(receiver))
        made = Overload(overload, bool(receiver), tuple(types), parse_type(result), run)
        self.function(name).overloads.append(made)


def split_types(text: str) -> list[str]:
    """Split at commas outside parentheses."""
    parts, depth, start = [], 0, 0
    for index, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append(text[start:index])
            start = index + 1
    return [part.strip() for part in [*parts, text[start:]] if part.strip()]


FUNCTIONS = Functions()
