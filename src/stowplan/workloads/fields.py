"""Reading what a person wrote: a YAML mapping, field by field, with mistakes that say where.

Used by `load` and `operations`. As upstream's reader does it ignores the case of field names and
rejects unknown and repeated ones. Invariant: every error is a ConfigError with file and line, and
the reader adds the place in words (test, workload, operation).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn, TypeAlias, TypeVar

from stowplan.errors import ConfigError
from stowplan.loader.files import read_file
from stowplan.loader.malformed import Malformed
from stowplan.loader.yaml_text import How, Located, Repeated, load_yaml, load_yaml_all

__all__ = ["Fields", "Located", "Parameters", "read_documents", "read_yaml", "seconds"]

Parameter: TypeAlias = int | float | str | bool
T = TypeVar("T")

_NAMES: dict[type, str] = {
    bool: "true or false",
    dict: "a mapping",
    float: "a number",
    int: "a whole number",
    list: "a list",
    str: "a text",
    type(None): "nothing",
}
_DURATION = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def read_yaml(file: Path) -> Any:
    """The file's one document, mappings with their lines."""
    return _read(file, load_yaml)


def read_documents(file: Path) -> list[Any]:
    """All of the file's documents but empty ones, likewise."""
    documents: list[Any] = _read(file, load_yaml_all)
    return documents


def _read(file: Path, load: Callable[[bytes, How], Any]) -> Any:
    repeated: list[Repeated] = []
    try:
        tree = load(read_file(file), How(located=True, repeated=repeated))
        for _, name, _, line, column in repeated:
            raise Malformed(f"`{name}` is given twice", line, column)
    except Malformed as problem:
        where = f"{file}:{problem.line}" if problem.line else str(file)
        raise ConfigError(f"cannot be read: {problem.reason}", where=where) from None
    return tree


def seconds(text: str) -> float:
    """Of a Go duration, such as `1m30s`; ValueError if it is none."""
    if text == "0":
        return 0.0
    terms = _DURATION.findall(text)
    if not terms or "".join(number + unit for number, unit in terms) != text:
        raise ValueError(f"`{text}` is not a duration such as 500ms, 10s or 1m30s")
    return sum(float(number) * _SECONDS[unit] for number, unit in terms)


class Fields:
    """The fields of one mapping; `what` says which, in words."""

    def __init__(self, file: Path, value: object, what: str, known: Sequence[str]) -> None:
        self._file = file
        self._line = getattr(value, "line", 0)
        self._what = what
        self._lines: dict[str, int] = {}
        if not isinstance(value, dict):
            self.fail(f"expected {_NAMES[dict]}, got {_name(value)}")
        by_case = {name.lower(): name for name in known}
        lines: dict[str, int] = getattr(value, "lines", {})
        self._values: dict[str, Any] = {}
        for key, member in value.items():
            name = by_case.get(str(key).lower())
            self._lines[name or key] = lines.get(key, self._line)
            if name is None:
                close = get_close_matches(str(key), known, 1)
                hint = f"did you mean `{close[0]}`?" if close else f"known: {', '.join(known)}"
                self.fail(f"unknown field `{key}`; {hint}", at=key)
            if name in self._values:
                self.fail(f"`{name}` is given twice", at=name)
            if member is not None:
                self._values[name] = member

    def fail(self, message: str, *, at: str = "") -> NoReturn:
        """Raise a ConfigError; with `at`, the error names the line of that field."""
        raise ConfigError(message, where=self.where(at))

    def where(self, name: str = "") -> str:
        """`file:line: what` of the field, or of the whole mapping."""
        line = self.line(name)
        place = f"{self._file}:{line}" if line else str(self._file)
        return f"{place}: {self._what}".rstrip(": ")

    def line(self, name: str = "") -> int:
        """Where the field is written, or the whole mapping; 0 if that is not known."""
        line: int = self._lines.get(name, self._line)
        return line

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def text(self, name: str, default: str = "") -> str:
        return self._typed(name, str, default)

    def required_text(self, name: str) -> str:
        text = self.text(name)
        if not text:
            self.fail(f"`{name}` must be given")
        return text

    def flag(self, name: str) -> bool:
        return self._typed(name, bool, False)

    def whole(self, name: str, default: int = 0) -> int:
        """A whole number that is not negative."""
        number = self._typed(name, int, default)
        if number < 0:
            self.fail(f"`{name}` is {number}; it cannot be negative", at=name)
        return number

    def number(self, name: str) -> float:
        return float(self._typed(name, float, 0.0))

    def duration(self, name: str) -> float:
        try:
            return seconds(self.text(name, "0"))
        except ValueError as problem:
            self.fail(f"`{name}`: {problem}", at=name)

    def texts(self, name: str) -> tuple[str, ...]:
        listed = self._typed(name, list, [])
        if not all(isinstance(each, str) for each in listed):
            self.fail(f"`{name}` must be a list of texts", at=name)
        return tuple(listed)

    def items(self, name: str) -> list[Any]:
        """A list that must be there and not be empty."""
        listed = self._typed(name, list, [])
        if not listed:
            self.fail(f"`{name}` must be given, with at least one entry", at=name)
        return listed

    def table(self, name: str, kind: type[T]) -> dict[str, T]:
        """A mapping whose values are all of one type."""
        mapping = self._typed(name, dict, {})
        for key, value in mapping.items():
            if not _is(value, kind):
                expected = f"expected {_NAMES[kind]}, got {_name(value)}"
                self.fail(f"`{name}.{key}`: {expected}", at=name)
        return dict(mapping)

    def scalars(self, name: str) -> dict[str, Parameter]:
        """A mapping whose values are numbers, texts, true or false."""
        mapping = self._typed(name, dict, {})
        for key, value in mapping.items():
            if not isinstance(value, int | float | str):
                got = f"expected a number or a text, got {_name(value)}"
                self.fail(f"`{name}.{key}`: {got}", at=name)
        return dict(mapping)

    def value(self, name: str) -> Any:
        """As it was written; None if it was not."""
        return self._values.get(name)

    def inner(self, name: str, known: Sequence[str]) -> Fields:
        """A mapping within this one."""
        value = self._values.get(name, Located())
        return Fields(self._file, value, f"{self._what}, {name}", known)

    def _typed(self, name: str, kind: type[T], default: T) -> T:
        value = self._values.get(name, default)
        if not _is(value, kind):
            self.fail(f"`{name}`: expected {_NAMES[kind]}, got {_name(value)}", at=name)
        typed: T = value
        return typed


class Parameters:
    """A workload's parameters, and which of them were asked for."""

    def __init__(self, values: dict[str, Parameter], fields: Fields) -> None:
        self.values = values
        self._fields = fields
        self._used: set[str] = set()

    def number(self, asked: str, by: Fields) -> int:
        value = self._get(asked, by)
        if not _is(value, float) or value < 0:
            by.fail(f"parameter {asked} must be a number that is not negative, not `{value}`")
        return int(value)

    def flag(self, asked: str, by: Fields) -> bool:
        value = self._get(asked, by)
        if not isinstance(value, bool):
            by.fail(f"parameter {asked} must be true or false, not `{value}`")
        return value

    def duration(self, asked: str, by: Fields) -> float:
        try:
            return seconds(str(self._get(asked, by)))
        except ValueError as problem:
            by.fail(f"parameter {asked}: {problem}")

    def check_used(self) -> None:
        """As upstream: a parameter that no operation asks for is a typing mistake."""
        unused = sorted(set(self.values) - self._used)
        if unused:
            self._fields.fail(f"parameters that no operation uses: {', '.join(unused)}")

    def _get(self, asked: str, by: Fields) -> Any:
        if not asked.startswith("$"):
            by.fail(f"the name of a parameter begins with $, unlike `{asked}`")
        name = asked[1:]
        self._used.add(name)
        if name not in self.values:
            there = ", ".join(sorted(self.values)) or "none"
            by.fail(f"parameter {asked} is not defined by the workload (it has: {there})")
        return self.values[name]


def _is(value: object, kind: type) -> bool:
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, kind)


def _name(value: object) -> str:
    kind = dict if isinstance(value, dict) else type(value)
    return f"{_NAMES.get(kind, kind.__name__)} ({value!r:.60})"
