"""Label and field selectors as they stand in URLs: `a=b,c!=d,e in (x,y),!f` and `metadata.name=x`.

Called by the API client (to check what a user wrote) and by the embedded API server. Strict: what
the real API server refuses is refused here, in its words, as a ValueError.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

import msgspec

from stowplan.api.labels import (
    CompiledSelector,
    Operator,
    Requirement,
    canonical,
    invalid,
    label_key_errors,
    make_requirement,
)

_ITEM = re.compile(r"==|!=|[=!(),<>]|[^=!(),<> \t\r\n]+")
_SYMBOLS = frozenset({"==", "!=", "=", "!", "(", ")", ",", "<", ">"})
_OPERATORS: Final[dict[str, Operator]] = {
    "in": "In", "notin": "NotIn", "=": "In", "==": "In", "!=": "NotIn", ">": "Gt", "<": "Lt",
}  # fmt: skip
_END = ""


def parse_label_selector(text: str) -> CompiledSelector:
    """The selector written in a `labelSelector` parameter; an empty text matches everything."""
    return CompiledSelector(canonical(_LabelParser(text).parse()))


class _LabelParser:
    """Recursive descent over its items; "in" and "notin" are operators only where one is due."""

    def __init__(self, text: str) -> None:
        self._items: list[str] = [*_ITEM.findall(text), _END]
        self._position = 0

    def parse(self) -> list[Requirement]:
        requirements: list[Requirement] = []
        while (item := self._peek()) != _END:
            if not (item == "!" or _is_word(item)):
                raise ValueError(f"found '{item}', expected: !, identifier, or 'end of string'")
            try:
                requirements.append(self._requirement())
            except ValueError as error:
                raise ValueError(f"unable to parse requirement: {error}") from None
            item = self._next()
            if item == _END:
                break
            if item != ",":
                raise ValueError(f"found '{item}', expected: ',' or 'end of string'")
            item = self._peek()
            if not (item == "!" or _is_word(item)):
                raise ValueError(f"found '{item}', expected: identifier after ','")
        return requirements

    def _requirement(self) -> Requirement:
        key = self._next()
        negated = key == "!"
        if negated:
            key = self._next()
        if not _is_word(key):
            raise ValueError(f"found '{key}', expected: identifier")
        if errors := label_key_errors(key):
            raise ValueError(invalid("<nil>", key, "; ".join(errors)))
        if negated:
            return make_requirement(key, "DoesNotExist", ())
        if self._peek() in (_END, ","):
            return make_requirement(key, "Exists", ())
        symbol = self._next()
        operator = _OPERATORS.get(symbol)
        if operator is None:
            raise ValueError(f"found '{symbol}', expected: in, notin, =, ==, !=, gt, lt")
        values = self._set() if symbol in ("in", "notin") else {self._value()}
        return make_requirement(key, operator, sorted(values))

    def _value(self) -> str:
        if self._peek() in (_END, ","):
            return ""
        item = self._next()
        if not _is_word(item):
            raise ValueError(f"found '{item}', expected: identifier")
        return item

    def _set(self) -> set[str]:
        """`(a,b)`; a missing element, as in `()` or `(a,)`, is the empty string."""
        item = self._next()
        if item != "(":
            raise ValueError(f"found '{item}' expected: '('")
        item = self._peek()
        if not (item in (",", ")") or _is_word(item)):
            raise ValueError(f"found '{item}', expected: ',', ')' or identifier")
        values: set[str] = set()
        while True:
            if self._peek() in (",", ")"):
                values.add("")
            else:
                item = self._next()
                if not _is_word(item):
                    raise ValueError(f"found '{item}', expected: ',', or identifier")
                values.add(item)
            item = self._peek()
            if item not in (",", ")"):
                raise ValueError(f"found '{item}', expected: ',' or ')'")
            if self._next() == ")":
                return values

    def _peek(self) -> str:
        return self._items[self._position]

    def _next(self) -> str:
        self._position += 1
        return self._items[self._position - 1]


def _is_word(item: str) -> bool:
    return item != _END and item not in _SYMBOLS


class FieldRequirement(NamedTuple):
    """One condition on one field path."""

    field: str
    operator: Literal["=", "!="]
    value: str

    def __str__(self) -> str:
        return f"{self.field}{self.operator}{_ESCAPABLE.sub(_BACKSLASHED, self.value)}"


class FieldSelector(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """A field selector, ready to be asked; a field that is not there counts as empty."""

    requirements: tuple[FieldRequirement, ...] = ()

    def matches(self, fields: Mapping[str, str]) -> bool:
        for field, operator, value in self.requirements:
            if (fields.get(field, "") == value) != (operator == "="):
                return False
        return True

    @property
    def is_empty(self) -> bool:
        return not self.requirements

    def exact(self, field: str) -> str | None:
        """The one value that this field must have, if the selector asks for one."""
        for requirement in self.requirements:
            if requirement.field == field and requirement.operator == "=":
                return requirement.value
        return None

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


_ESCAPABLE = re.compile(r"[\\,=]")
_BACKSLASHED = r"\\\g<0>"
# A backslash keeps whatever follows it from ending the term.
_TERM = re.compile(r"(?:[^\\,]|\\.|\\$)*", re.DOTALL)
_SPLIT = re.compile("!=|==|=")


def parse_field_selector(text: str) -> FieldSelector:
    """The selector written in a `fieldSelector` parameter; an empty text matches everything."""
    requirements = set()
    for term in sorted(filter(None, _TERM.findall(text))):
        operator = _SPLIT.search(term)
        if operator is None:
            raise ValueError(f"invalid selector: '{text}'; can't understand '{term}'")
        field, value = term[: operator.start()], _unescape(term[operator.end() :])
        if field or value:
            symbol: Literal["=", "!="] = "!=" if operator[0] == "!=" else "="
            requirements.add(FieldRequirement(field, symbol, value))
    return FieldSelector(tuple(sorted(requirements)))


def _unescape(value: str) -> str:
    plain = []
    chars = iter(value)
    for char in chars:
        if char == "\\":
            escaped = next(chars, "")
            if not escaped or escaped not in "\\,=":
                raise ValueError(f"invalid field selector: invalid escape sequence: \\{escaped}")
            plain.append(escaped)
        elif char == "=":
            raise ValueError(f"invalid field selector: unescaped character in value: {ord(char)}")
        else:
            plain.append(char)
    return "".join(plain)
