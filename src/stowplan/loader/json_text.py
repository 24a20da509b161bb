"""JSON to values.

`load_json` checks every limit and says where a mistake stands. `json_decoder` is for bytes that
come by the thousand (watches, lists, requests to an extender): it is msgspec's decoder, without a
wrapper, for speed. msgspec itself limits depth and digits. Its callers catch `UNREADABLE`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, TypeAlias, TypeVar, overload

import msgspec

from stowplan.loader.malformed import LIMITS, Limits, Malformed, at_byte, text_of

T = TypeVar("T")
Encoded: TypeAlias = bytes | bytearray | str

#: Not JSON, wrong types and bad UTF-8 are ValueErrors; deep nesting is a RecursionError.
UNREADABLE: Final = (ValueError, RecursionError)

_BOM: Final = b"\xef\xbb\xbf"
#: A string, or the start of one that does not end. Possessive, so that it takes linear time.
STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?P<end>"|\\?\Z)', re.DOTALL)
_BRACKETS: Final = bytes.maketrans(b"{}", b"[]")
_NOT_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_DIGITS: Final = bytes.maketrans(b"123456789", b"000000000")
_TOKEN: Final = re.compile(STRING.pattern + rb"|[][{}]|[-+.0-9eE]+", re.DOTALL)
_TOO_DEEP: Final = "is nested too deeply"
#: The longest reason, in characters.
_REASON: Final = 300


@overload
def json_decoder(kind: type[T]) -> Callable[[Encoded | msgspec.Raw], T]: ...
@overload
def json_decoder(kind: Any) -> Callable[[Encoded | msgspec.Raw], Any]: ...
def json_decoder(kind: Any) -> Callable[[Encoded | msgspec.Raw], Any]:
    """A function that decodes JSON into one type, and raises one of `UNREADABLE`."""
    return msgspec.json.Decoder(kind).decode


def reason_of(problem: Exception) -> str:
    """Why a decoder failed, in a short line: messages quote values, which can be of any length."""
    text = _TOO_DEEP if isinstance(problem, RecursionError) else str(problem)
    return text if len(text) <= _REASON else f"{text[:_REASON]}..."


@overload
def load_json(data: Encoded, *, limits: Limits = ...) -> Any: ...
@overload
def load_json(data: Encoded, kind: type[T], *, limits: Limits = ...) -> T: ...
@overload
def load_json(data: Encoded, kind: Any, *, limits: Limits = ...) -> Any: ...
def load_json(data: Encoded, kind: Any = Any, *, limits: Limits = LIMITS) -> Any:
    """The value in a JSON text; of an object's equal names the last one counts, as in Go.

    Raises Malformed, and msgspec.ValidationError if the value is not of the given type.
    """
    if isinstance(data, str):
        data = data.encode("utf-8", "surrogatepass")
    data = data.removeprefix(_BOM)
    _check(data, limits)
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError as problem:
        if kind is Any:  # a number such as 1e999
            raise Malformed(str(problem)) from None
        raise
    except UNREADABLE as problem:
        raise _located(data, problem) from None


def repeated_names(data: Encoded) -> list[str]:
    """The paths of names that an object has twice, in a JSON text that `load_json` accepted."""
    found: list[str] = []
    _find_repeated(json.loads(data, object_pairs_hook=_Members), "", found)
    return found


class _Members(dict[str, Any]):
    """A JSON object that remembers which names it had twice."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        counts = Counter(name for name, _ in pairs)
        self.repeated = [name for name, count in counts.items() if count > 1]


def _find_repeated(tree: object, path: str, found: list[str]) -> None:
    if isinstance(tree, _Members):
        prefix = f"{path}." if path else ""
        found += [prefix + name for name in tree.repeated]
        for name, value in tree.items():
            _find_repeated(value, prefix + name, found)
    elif isinstance(tree, list):
        for index, item in enumerate(tree):
            _find_repeated(item, f"{path}[{index}]", found)


def _check(data: bytes | bytearray, limits: Limits) -> None:
    """Raise Malformed for text above a limit; each step runs at the speed of C."""
    if b"0" * (limits.digits + 1) in data.translate(_DIGITS):
        _find_excess(data, limits)
    if data.count(b"[") + data.count(b"{") <= limits.depth:
        return
    brackets = STRING.sub(b"", data).translate(_BRACKETS, _NOT_BRACKETS)
    for _ in range(limits.depth):
        if not brackets:
            return
        brackets = brackets.replace(b"[]", b"")
    if brackets:
        _find_excess(data, limits)


def _find_excess(data: bytes | bytearray, limits: Limits) -> None:
    depth = 0
    for token in _TOKEN.finditer(data):
        match token.group()[:1]:
            case b"[" | b"{":
                depth += 1
                if depth > limits.depth:
                    reason = f"{_TOO_DEEP}: more than {limits.depth} levels"
                    raise at_byte(data, token.start(), reason)
            case b"]" | b"}":
                depth -= 1
            case b'"':
                pass
            case _:
                digits = len(re.findall(rb"\d", token.group()))
                if digits > limits.digits:
                    reason = f"a number of {digits} digits; the limit is {limits.digits}"
                    raise at_byte(data, token.start(), reason)


def _located(data: bytes | bytearray, problem: Exception) -> Malformed:
    """Python's own parser knows the place; it is asked only about texts that are wrong."""
    text = text_of(data)
    try:
        json.loads(text.rstrip())
    except json.JSONDecodeError as error:
        return Malformed(error.msg, error.lineno, error.colno, error.pos)
    except (ValueError, RecursionError):
        pass
    lone = re.search(r"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|\\u[dD][c-fC-F]", text)
    if lone is not None:
        return at_byte(data, len(text[: lone.start()].encode()), "half a surrogate pair")
    return Malformed(reason_of(problem), 1, 1)
