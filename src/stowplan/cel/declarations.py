"""Functions: their overloads, as the checker needs them, and what they compute.

A library registers its functions with a signature in text, receiver first:

    @FUNCTIONS.overload("lowerAscii", "string_lower_ascii", "string.() -> string")
    def lower_ascii(text): ...

An overload runs if the values have the declared types; with a receiver of type `dyn` that is known
only then. An operator has one implementation for all of its overloads, which decides by itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from stowplan.cel.errors import Failure
from stowplan.cel.types import Type, parse_type
from stowplan.cel.values import Value, type_name

Implementation = Callable[..., Value]


@dataclass(frozen=True, slots=True)
class Overload:
    name: str
    is_member: bool
    args: tuple[Type, ...]
    result: Type
    run: Implementation | None = None

    def accepts(self, values: Sequence[Value]) -> bool:
        return len(values) == len(self.args) and all(
            of.is_param or of.is_dyn or of.name == type_name(value)
            for of, value in zip(self.args, values, strict=True)
        )


@dataclass(slots=True)
class Function:
    name: str
    overloads: list[Overload] = field(default_factory=list)
    #: One implementation for all overloads.
    operator: Implementation | None = None

    def implementation(self, overload: str | None) -> Implementation:
        """What a call runs: the checker's overload, or the first that accepts the values."""
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
        """An overload that the function's operator computes."""
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
    """Types between commas outside of parentheses."""
    parts, depth, start = [], 0, 0
    for index, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append(text[start:index])
            start = index + 1
    return [part.strip() for part in [*parts, text[start:]] if part.strip()]


FUNCTIONS = Functions()
