"""Split a question in JSON into its members, each still as text.

Objects repeat from line to line, so they stay text, which is the cache key of `objects`. What must
stay true: for any text the result is either the members or `QuestionRefused`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec

from stowplan.config.fields import did_you_mean
from stowplan.judge.refusal import QuestionRefused
from stowplan.loader.json_text import UNREADABLE, json_decoder, load_json, reason_of
from stowplan.loader.malformed import LARGE, Malformed

Parts: TypeAlias = dict[str, msgspec.Raw]

_members = json_decoder(dict[str, msgspec.Raw])
_items = json_decoder(list[msgspec.Raw])


def take_apart(text: bytes, number: int) -> Parts:
    """The members of the question that begins in line `number`."""
    try:
        if not text.isascii():
            text.decode()  # members that stay text are not looked into
        return _members(text)
    except msgspec.ValidationError:
        raise QuestionRefused(f"line {number}: expected an object, got {json_type(text)}") from None
    except UNREADABLE as problem:
        raise QuestionRefused(_where(text, number, problem)) from None


def check_members(parts: Parts, known: Sequence[str]) -> None:
    for name in parts:
        if name in ("apiVersion", "kind"):
            raise QuestionRefused(
                f"{name}: this is an object of the cluster, not a question. Fix: write it as "
                f'{{"{known[2]}": [...], "pod": {{...}}}}, see docs/decide.md'
            )
        if name not in known:
            hint = did_you_mean(name, known) or f" (known here: {', '.join(known)})"
            raise QuestionRefused(f"{name}: unknown key{hint}")


def list_of(parts: Parts, name: str) -> list[msgspec.Raw]:
    """A member that is a list; empty if it is absent or null."""
    text = parts.get(name)
    if is_absent(text):
        return []
    assert text is not None
    try:
        return _items(text)
    except msgspec.ValidationError:
        raise QuestionRefused(f"{name}: expected a list, got {json_type(bytes(text))}") from None


def is_absent(text: msgspec.Raw | None) -> bool:
    return text is None or bytes(text) == b"null"


def decode(text: bytes) -> Any:
    """Any JSON that was part of a line."""
    try:
        return load_json(text, limits=LARGE)
    except Malformed as problem:
        raise QuestionRefused(f"is not JSON: {problem.reason}") from None


def json_type(text: bytes) -> str:
    """The JSON type of a text, in words."""
    match text.lstrip()[:1]:
        case b"{":
            return "an object"
        case b"[":
            return "a list"
        case b'"':
            return "a string"
        case b"t" | b"f":
            return "a boolean"
        case b"n":
            return "null"
    return "a number"


def _where(text: bytes, number: int, problem: Exception) -> str:
    """The place and the reason; a text that is wrong is read a second time for them."""
    try:
        load_json(text, limits=LARGE)
    except Malformed as found:
        return f"line {number + max(found.line, 1) - 1}, column {found.column}: {found.reason}"
    return f"line {number}, column 1: {reason_of(problem)}"
