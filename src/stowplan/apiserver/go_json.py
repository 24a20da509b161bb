"""What Go says about JSON that it cannot read; clients show these texts to their users.

Used wherever a body is decoded. Positions come from Python's own JSON reader, which complains in
the same places for nearly all mistakes.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

_KEY = "looking for beginning of object key string"
_VALUE = "looking for beginning of value"
_PLACES = {
    "Expecting property name enclosed in double quotes": _KEY,
    "Illegal trailing comma before end of object": _KEY,
    "Illegal trailing comma before end of array": _VALUE,
    "Expecting value": _VALUE,
    "Expecting ':' delimiter": "after object key",
    "Extra data": "after top-level value",
    "Invalid \\escape": "in string escape code",
    "Invalid control character at": "in string literal",
}
_GO_NAMES = {bool: "bool", int: "number", float: "number", str: "string", list: "array"}


class GoJsonError(ValueError):
    """The message is encoding/json's."""


def decode(body: bytes) -> Any:
    """The JSON value in a body."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise GoJsonError(_syntax_error(body)) from None


def mismatch(value: Any, go_type: str) -> str:
    """A value of another type than the Go type that it must go into."""
    found = _GO_NAMES.get(type(value), "object")
    return f"json: cannot unmarshal {found} into Go value of type {go_type}"


def _syntax_error(body: bytes) -> str:
    text = body.decode(errors="replace")
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        position = error.pos
        while position < len(text) and text[position] in " \t\r\n":
            position += 1
        if position >= len(text) or error.msg.startswith("Unterminated string"):
            return "unexpected end of JSON input"
        message = error.msg.partition(" starting at")[0].rstrip(": ")
        place = _PLACES.get(message) or _after_comma(text, position)
        return f"invalid character {_quoted(text[position])} {place}"
    except RecursionError:
        return "exceeded max depth"
    return "invalid UTF-8"


def _after_comma(text: str, position: int) -> str:
    """Where a comma is missing: in an object or in an array."""
    depth = 0
    for character in reversed(text[:position]):
        if character in "]}":
            depth += 1
        elif character in "[{" and depth:
            depth -= 1
        elif character in "[{":
            return "after array element" if character == "[" else "after object key:value pair"
    return _VALUE


def _quoted(character: str) -> str:
    return "'\\''" if character == "'" else f"'{character}'"
