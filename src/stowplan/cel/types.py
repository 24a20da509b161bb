"""Types of CEL expressions, for the checker.

A type is its name and its parameters: `list(int)` is `Type("list", (INT,))`. A type parameter is a
type whose name starts with an apostrophe; `parse_type` reads `list('A)`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from stowplan.cel.errors import Cancelled

#: Limit of the parts of a type. Types share parts in memory, but comparing visits each one.
# DIVERGES: a selector with a type of more than 1,000 parts, maps as keys of maps, is refused.
_MOST_PARTS = 1_000


@dataclass(frozen=True, slots=True)
class Type:
    name: str
    params: tuple[Type, ...] = ()
    parts: int = field(default=1, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.params:
            parts = 1 + sum(param.parts for param in self.params)
            if parts > _MOST_PARTS:
                raise Cancelled(f"a type has more than {_MOST_PARTS} parts")
            object.__setattr__(self, "parts", parts)

    @property
    def is_param(self) -> bool:
        return self.name.startswith("'")

    @property
    def is_dyn(self) -> bool:
        return self.name in ("dyn", "google.protobuf.Any")

    @property
    def is_error(self) -> bool:
        return self.name == "!error!"

    def __str__(self) -> str:
        name = _SHOWN.get(self.name, self.name)
        if name.startswith("'"):
            return name[1:]
        if not self.params:
            return name
        return f"{name}({', '.join(str(param) for param in self.params)})"


def declared_name(of: Type) -> str:
    """The type as cel-go prints it outside the checker's errors: with its full name."""
    if of.is_param or not of.params:
        return of.name.removeprefix("'")
    return f"{of.name}({', '.join(map(declared_name, of.params))})"


_SHOWN = {
    "google.protobuf.Any": "any",
    "google.protobuf.Timestamp": "timestamp",
    "google.protobuf.Duration": "duration",
    "null_type": "null",
}

ERROR = Type("!error!")
DYN = Type("dyn")
ANY = Type("google.protobuf.Any")
BOOL = Type("bool")
INT = Type("int")
UINT = Type("uint")
DOUBLE = Type("double")
STRING = Type("string")
BYTES = Type("bytes")
NULL = Type("null_type")
TIMESTAMP = Type("google.protobuf.Timestamp")
DURATION = Type("google.protobuf.Duration")

_SHORT = {"timestamp": TIMESTAMP.name, "duration": DURATION.name, "any": ANY.name}
#: Types that accept null, besides structs.
_NULLABLE = frozenset({TIMESTAMP.name, DURATION.name, "optional_type"})


def list_of(element: Type) -> Type:
    return Type("list", (element,))


def map_of(key: Type, value: Type) -> Type:
    return Type("map", (key, value))


def optional_of(value: Type) -> Type:
    return Type("optional_type", (value,))


def type_of(of: Type) -> Type:
    return Type("type", (of,))


def parse_type(text: str) -> Type:
    """A type as signatures write it: `map('K, list(int))`."""
    parsed, rest = _parse(text.strip())
    if rest:
        raise ValueError(f"{text!r}: {rest!r} is left over")
    return parsed


def _parse(text: str) -> tuple[Type, str]:
    match = re.match(r"'?[\w.]+", text)
    if match is None:
        raise ValueError(f"no type at {text!r}")
    name, rest = match[0], text[match.end() :].lstrip()
    params: list[Type] = []
    if rest.startswith("("):
        rest = rest[1:]
        while not rest.startswith(")"):
            param, rest = _parse(rest.lstrip(", "))
            params.append(param)
        rest = rest[1:].lstrip()
    return Type(_SHORT.get(name, name), tuple(params)), rest


class Substitutions:
    """What is known of type parameters so far."""

    def __init__(self) -> None:
        self._known: dict[str, Type] = {}
        #: The state before each change since `assign` began, for rollback.
        self._undo: list[tuple[str, Type | None]] = []
        self._fresh = 0

    def new_param(self) -> Type:
        self._fresh += 1
        return Type(f"'_var{self._fresh - 1}")

    def instantiate(self, types: list[Type]) -> list[Type]:
        """The types with fresh parameters, the same for the same name."""
        fresh: dict[str, Type] = {}
        return [self._renamed(of, fresh) for of in types]

    def _renamed(self, of: Type, fresh: dict[str, Type]) -> Type:
        if of.is_param:
            if of.name not in fresh:
                fresh[of.name] = self.new_param()
            return fresh[of.name]
        if not of.params:
            return of
        return Type(of.name, tuple(self._renamed(param, fresh) for param in of.params))

    def substitute(self, of: Type, params_to_dyn: bool = False) -> Type:
        known = self._known.get(of.name) if of.is_param else None
        if known is not None:
            return self.substitute(known, params_to_dyn)
        if of.is_param:
            return DYN if params_to_dyn else of
        if not of.params:
            return of
        return Type(of.name, tuple(self.substitute(param, params_to_dyn) for param in of.params))

    def assign(self, these: list[Type], to: list[Type]) -> bool:
        """True if each type can stand for its counterpart; the parameters are then bound."""
        self._undo.clear()
        if self._all_assignable(these, to):
            return True
        for name, known in reversed(self._undo):
            if known is None:
                del self._known[name]
            else:
                self._known[name] = known
        return False

    def _learn(self, param: Type, of: Type) -> None:
        self._undo.append((param.name, self._known.get(param.name)))
        self._known[param.name] = of

    def _all_assignable(self, these: list[Type], to: list[Type]) -> bool:
        return len(these) == len(to) and all(
            self._assignable(one, other) for one, other in zip(these, to, strict=True)
        )

    def _assignable(self, one: Type, other: Type) -> bool:
        if other.is_param:
            valid, has_substitution = self._valid_substitution(one, other)
            if valid:
                return True
            if has_substitution:
                return False
        if one.is_param:
            return self._valid_substitution(other, one)[0]
        if one.is_dyn or other.is_dyn or one.is_error or other.is_error:
            return True
        if one.name == NULL.name or other.name == NULL.name:
            value = other if one.name == NULL.name else one
            return value.name == NULL.name or value.name in _NULLABLE or "." in value.name
        if one.name == "type":
            return other.name == "type"
        return one.name == other.name and self._all_assignable(list(one.params), list(other.params))

    def _valid_substitution(self, one: Type, param: Type) -> tuple[bool, bool]:
        if one == param:
            return True, True
        known = self._known.get(param.name)
        if known is not None:
            if one == known:
                return True, True
            if self._assignable(one, known):
                general = most_general(one, known)
                if self._is_not_within(param, general):
                    self._learn(param, general)
                return True, True
            return False, True
        if self._is_not_within(param, one):
            self._learn(param, one)
            return True, False
        return False, False

    def _is_not_within(self, param: Type, of: Type) -> bool:
        if param == of:
            return False
        if of.is_param:
            known = self._known.get(of.name)
            return known is None or self._is_not_within(param, known)
        return all(self._is_not_within(param, inner) for inner in of.params)


def most_general(one: Type, other: Type) -> Type:
    return one if _is_equal_or_less_specific(one, other) else other


def _is_equal_or_less_specific(one: Type, other: Type) -> bool:
    if one.is_dyn or one.is_param:
        return True
    if other.is_dyn or other.is_param:
        return False
    if one.name != other.name or len(one.params) != len(other.params):
        return False
    if one.name == "type":
        return True
    return all(
        _is_equal_or_less_specific(mine, theirs)
        for mine, theirs in zip(one.params, other.params, strict=True)
    )
