"""Check a value from a configuration file against a type annotation, and explain a mismatch.

`tags` asks about the arguments of constructors, `configuration` about its own fields. YAML knows
text, numbers, booleans, lists and maps; `fitted` converts them where the annotation asks for
another type (an enum's member, a tuple). Invariant: an annotation that is not understood never
causes an error.
"""

from __future__ import annotations

import collections.abc
import inspect
import math
import reprlib
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin

_LISTS: tuple[Any, ...] = (
    list, tuple, set, frozenset, collections.abc.Sequence, collections.abc.Iterable,
    collections.abc.Collection, collections.abc.Set,
)  # fmt: skip
_MAPS: tuple[Any, ...] = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_WORDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}

Problem: TypeAlias = str


class MisfitError(ValueError):
    """The value is not what the annotation says."""


@dataclass(frozen=True)
class Range:
    """Limits of a number, for `Annotated[float, Range(0, 60)]`."""

    least: float
    most: float = math.inf

    def problem(self, value: Any) -> Problem | None:
        if value < self.least:
            return f"Minimum value is {self.least:g}. Got {value:g}."
        if value > self.most:
            return f"Maximum value is {self.most:g}. Got {value:g}."
        return None


def fitted(value: Any, annotation: Any) -> Any:
    """`value` as the annotation wants it; MisfitError says why it cannot be."""
    if annotation is Any or annotation is inspect.Parameter.empty:
        return value
    if annotation is None or annotation is type(None):
        return _only_if(value is None, value, "nothing")
    origin = get_origin(annotation)
    if origin is Annotated:
        return _within(value, *get_args(annotation))
    if origin in (Union, types.UnionType):
        return _one_of(value, get_args(annotation))
    if origin is Literal:
        allowed = get_args(annotation)
        return _only_if(value in allowed, value, f"one of {', '.join(map(repr, allowed))}")
    if origin in _LISTS or annotation in _LISTS:
        return _list(value, origin or annotation, get_args(annotation))
    if origin in _MAPS or annotation in _MAPS:
        return _map(value, get_args(annotation))
    if isinstance(annotation, type):
        return _plain(value, annotation)
    return value


def shown(value: Any) -> str:
    """A value for a message: short, however large it is."""
    return _short.repr(value)


def hints_of(function: Callable[..., Any]) -> Mapping[str, Any]:
    """Annotations by name; none where they cannot be worked out."""
    try:
        return typing.get_type_hints(function, include_extras=True)
    except Exception:
        # A name that exists for type checkers only; whatever it is, it is not the user's mistake.
        return {}


def _plain(value: Any, wanted: type) -> Any:
    if issubclass(wanted, Enum):
        allowed = [member.value for member in wanted]
        try:
            return wanted(value)
        except ValueError:
            text = f"improper value from enum kind (got={shown(value)} allowed={allowed!r})!"
            raise MisfitError(text) from None
    if wanted is float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return _only_if(is_number and not math.isnan(value), value, _WORDS[float])
    if wanted is int:
        return _only_if(isinstance(value, int) and not isinstance(value, bool), value, _WORDS[int])
    if wanted is Path and isinstance(value, str):
        return Path(value)
    try:
        is_one = isinstance(value, wanted)
    except TypeError:
        return value  # A protocol that cannot be asked.
    if is_one:
        return value
    raise _improper(value, _WORDS.get(wanted, wanted.__name__))


def _within(value: Any, wanted: Any, *limits: Any) -> Any:
    value = fitted(value, wanted)
    for limit in limits:
        if isinstance(limit, Range) and value is not None and (problem := limit.problem(value)):
            raise MisfitError(problem)
    return value


def _one_of(value: Any, choices: tuple[Any, ...]) -> Any:
    problems = []
    for choice in choices:
        try:
            return fitted(value, choice)
        except MisfitError as problem:
            if choice is not type(None):
                problems.append(str(problem))
    raise MisfitError("; or ".join(dict.fromkeys(problems)))


def _list(value: Any, kind: Any, item_types: tuple[Any, ...]) -> Any:
    if not isinstance(value, list):
        raise _improper(value, "a list")
    item_type = item_types[0] if item_types else Any
    items = []
    for place, item in enumerate(value):
        try:
            items.append(fitted(item, item_type))
        except MisfitError as problem:
            raise MisfitError(f"invalid item in list at index {place}: {problem}") from None
    return kind(items) if kind in (tuple, set, frozenset) else items


def _map(value: Any, types_of_pair: tuple[Any, ...]) -> Any:
    if not isinstance(value, dict):
        raise _improper(value, "a mapping")
    key_type, item_type = types_of_pair if len(types_of_pair) == 2 else (Any, Any)
    items = {}
    for key, item in value.items():
        try:
            new_key = fitted(key, key_type)
        except MisfitError as problem:
            raise MisfitError(f"Invalid key={shown(key)} in dict: {problem}") from None
        try:
            items[new_key] = fitted(item, item_type)
        except MisfitError as problem:
            text = f"invalid value {shown(item)} in dict at key {shown(key)}: {problem}"
            raise MisfitError(text) from None
    return items


def _only_if(is_right: bool, value: Any, wanted: str) -> Any:
    if not is_right:
        raise _improper(value, wanted)
    return value


def _improper(value: Any, wanted: str) -> MisfitError:
    got = "nothing" if value is None else _kind(value)
    return MisfitError(f"improper type (got={got} expected={wanted})!")


def _kind(value: Any) -> str:
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "a mapping"
    return _WORDS.get(type(value), type(value).__name__)


class _Short(reprlib.Repr):
    """A repr that shows objects by class name instead of by memory address."""

    def repr_instance(self, x: Any, level: int) -> str:
        is_plain = x is None or isinstance(x, bool | float | date)
        return repr(x) if is_plain else f"<{type(x).__name__}>"


_short = _Short()
_short.maxstring = 100
