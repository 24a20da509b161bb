"""What Go says about JSON that it cannot read; clients show these texts to their users.

Used wherever a body is decoded. Positions come from Python's own JSON reader, which complains in
the same places for nearly all mistakes.
"""

from __future__ import annotations

from typing import Any

from stowplan.loader.json_text import load_json
from stowplan.loader.malformed import Malformed

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
        return load_json(body)
    except Malformed as problem:
        raise GoJsonError(_syntax_error(body, problem)) from None


def mismatch(value: Any, go_type: str) -> str:
    """A value of another type than the Go type that it must go into."""
    found = _GO_NAMES.get(type(value), "object")
    return f"json: cannot unmarshal {found} into Go value of type {go_type}"


def _syntax_error(body: bytes, error: Malformed) -> str:
    if error.offset < 0:
        return str(error)
    text = body.decode(errors="replace")
    position = error.offset
    while position < len(text) and text[position] in " \t\r\n":
        position += 1
    if position >= len(text) or error.reason.startswith("Unterminated string"):
        return "unexpected end of JSON input"
    message = error.reason.partition(" starting at")[0].rstrip(": ")
    place = _PLACES.get(message) or _after_comma(text, position)
    return f"invalid character {_quoted(text[position])} {place}"


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
