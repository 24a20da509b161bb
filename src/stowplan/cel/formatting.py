"""`"%s has %d".format([name, count])`: string formatting.

Numbers of `%f` and `%e` look as Go's printer for American English writes them: `%f` groups
thousands; `%e` writes powers of ten and uses the precision as a width. The checker calls
`wrong_clause` if text and values are literals.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal

from stowplan.cel import ast
from stowplan.cel.conversions import duration_text
from stowplan.cel.declarations import FUNCTIONS
from stowplan.cel.errors import CostLimitExceeded, Failure
from stowplan.cel.go_text import go_float, quoted, utf8
from stowplan.cel.values import (
    LONGEST,
    MAX_INT,
    Duration,
    Map,
    Timestamp,
    TypeValue,
    Value,
    count_comparisons,
    type_name,
)

_CLAUSE = re.compile(r"%(?:%|(\.[0-9]*)?(.)?)", re.DOTALL)
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_TIMESTAMP, _DURATION = "google.protobuf.Timestamp", "google.protobuf.Duration"
_SHOWN = frozenset(
    {"list", "map", "int", "uint", "double", "bool", "string", _TIMESTAMP, "bytes", _DURATION,
     "type", "null_type"}
)  # fmt: skip
#: By clause: the types that it takes, and the error for any other.
_ACCEPTED: dict[str, tuple[frozenset[str], str]] = {
    "s": (
        _SHOWN,
        "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, "
        "types, durations, and timestamps",
    ),
    "d": (frozenset({"int", "uint"}), "decimal clause can only be used on integers"),
    "f": (frozenset({"double", "string"}), "fixed-point clause can only be used on doubles"),
    "e": (frozenset({"double", "string"}), "scientific clause can only be used on doubles"),
    "b": (
        frozenset({"int", "uint", "bool"}),
        "only integers and bools can be formatted as binary",
    ),
    "x": (
        frozenset({"int", "uint", "string", "bytes"}),
        "only integers, byte buffers, and strings can be formatted as hex",
    ),
    "o": (frozenset({"int", "uint"}), "octal clause can only be used on integers"),
}
_ACCEPTED["X"] = _ACCEPTED["x"]
_FLOATS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


class FormatError(ValueError):
    """A clause cannot be read or does not fit its value, with cel-go's message."""


Interpolate = Callable[[str, int, "int | None"], str]


def _interpolated(text: str, count: int, interpolate: Interpolate, *, checks: bool) -> int | str:
    """The text with each clause replaced by what `interpolate` makes of clause, index and
    precision. `checks`: return the number of clauses instead. Raises FormatError.
    """
    parts: list[str] = []
    index, position, length = 0, 0, 0
    for match in _CLAUSE.finditer(text):
        parts.append(text[position : match.start()])
        position = match.end()
        if match[0] == "%%":
            parts.append("%")
        else:
            if index >= count and not checks:
                raise FormatError(f"index {index} out of range")
            if match[0] == "%":
                raise FormatError("unexpected end of string")
            if index >= count:
                raise FormatError(f"index {index} out of range")
            parts.append(interpolate(*_clause(match[1], match[2], index)))
            index += 1
        length += len(parts[-2]) + len(parts[-1])
        # cel-go charges for the format text only, so the work for values is bounded here.
        count_comparisons(1 + len(parts[-1]) // 16)
        if length > LONGEST:
            raise CostLimitExceeded
    return index if checks else "".join([*parts, text[position:]])


def _clause(precision: str | None, verb: str | None, index: int) -> tuple[str, int, int | None]:
    problem, number = "", None
    if verb is None:
        problem = "error while parsing precision: could not find end of precision specifier"
    elif precision is not None:
        digits = precision[1:]
        if not digits or len(digits.lstrip("0")) > 19 or int(digits) > MAX_INT:
            problem = (
                "error while parsing precision: error while converting precision to integer: "
                f"strconv.Atoi: parsing {quoted(digits)}: "
                + ("value out of range" if digits else "invalid syntax")
            )
        else:
            number = int(digits)
    if not problem and verb not in _ACCEPTED:
        assert verb is not None
        problem = f'unrecognized formatting clause "{chr(utf8(verb)[0])}"'
    if problem:
        raise FormatError(f"could not parse formatting clause: {problem}")
    assert verb is not None
    return verb, index, number


@FUNCTIONS.overload("format", "string_format", "string.(list(dyn)) -> string")
def format_text(text: str, values: list[Value]) -> Value:
    def interpolate(verb: str, index: int, precision: int | None) -> str:
        try:
            return _formatted(verb, values[index], precision)
        except FormatError as error:
            raise FormatError(f"error during formatting: {error}") from None

    try:
        return _interpolated(text, len(values), interpolate, checks=False)
    except FormatError as error:
        return Failure(str(error))


def _formatted(verb: str, value: Value, precision: int | None) -> str:
    accepted, complaint = _ACCEPTED[verb]
    name = type_name(value)
    if name not in accepted or (verb in "fe" and name == "string" and value not in _FLOATS):
        raise FormatError(f"{complaint}, was given {name}")
    if verb in "fe":
        number = _FLOATS[value] if isinstance(value, str) else value
        assert isinstance(number, float)
        return (_fixed if verb == "f" else _scientific)(number, precision)
    if verb == "s":
        return _shown(value)
    if isinstance(value, str | bytes):
        return (utf8(value) if isinstance(value, str) else value).hex().translate(_case(verb))
    assert isinstance(value, int)
    return format(int(value), verb)


def _case(verb: str) -> dict[int, int]:
    return {code: code - 32 for code in range(ord("a"), ord("g"))} if verb == "X" else {}


def _shown(value: Value) -> str:
    """The text that %s writes."""
    match value:
        case list() | Map():
            return _literal(value)
        case bool():
            return "true" if value else "false"
        case None:
            return "null"
        case float():
            return go_float(value)
        case Duration():
            return duration_text(value)
        case TypeValue():
            return value.name
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                raise FormatError(
                    'could not convert argument "invalid UTF-8 in bytes, cannot convert to '
                    'string" to string'
                ) from None
    return str(value)


def _literal(value: Value) -> str:
    """A value inside a list or map, as CEL's source has it."""
    count_comparisons(1 + (len(value) // 4 if isinstance(value, str | bytes) else 0))
    match value:
        case list():
            return "[" + _joined([_literal(item) for item in value]) + "]"
        case Map():
            entries = sorted((_key(key), _literal(item)) for key, item in value.items())
            return "{" + _joined([f"{key}:{item}" for key, item in entries]) + "}"
        case str():
            return quoted(value)
        case bytes():
            return "b" + quoted(_shown(value))
        case float():
            if math.isfinite(value):
                return f"{value:.6f}"
            return quoted(go_float(value))
        case Timestamp() | Duration():
            word = "timestamp" if isinstance(value, Timestamp) else "duration"
            return f"{word}({quoted(_shown(value))})"
    name = type_name(value)
    if name not in _SHOWN:
        raise FormatError(f"no formatting function for {name}")
    return _shown(value)


def _key(key: Value) -> str:
    if not isinstance(key, str | bool | int) or isinstance(key, Duration | Timestamp):
        raise FormatError(f"no formatting function for map key of type {type_name(key)}")
    return _literal(key)


def _joined(parts: list[str]) -> str:
    if sum(len(part) + 2 for part in parts) > LONGEST:
        raise CostLimitExceeded
    return ", ".join(parts)


# Numbers


def _no_number(number: float) -> str | None:
    if math.isnan(number):
        return "NaN"
    return None if math.isfinite(number) else "∞" if number > 0 else "-∞"


def _is_too_large(precision: int) -> bool:
    """Whether the precision has more digits than Go's printer accepts."""
    return any(int(str(precision)[:end]) > 1_000_000 for end in range(7, len(str(precision))))


def _fixed(number: float, precision: int | None) -> str:
    wanted = 6 if precision is None else precision
    if _is_too_large(wanted):
        return "%!(NOVERB)"
    special = _no_number(number)
    if special is not None:
        return special
    # The printer keeps the most digits in 16 bits and the fewest in 8.
    fewest, most = wanted & 0xFF, (wanted + 0x8000 & 0xFFFF) - 0x8000
    count_comparisons(max(most, 0) // 100)
    exact = f"{abs(number):.{most}f}" if most >= 0 else f"{Decimal(repr(abs(number))):f}"
    whole, _, fraction = exact.partition(".")
    fraction = fraction.rstrip("0").ljust(fewest, "0")
    sign = "-" if number < 0 else ""
    return f"{sign}{int(whole):,}" + (f".{fraction}" if fraction else "")


def _scientific(number: float, precision: int | None) -> str:
    width = 6 if precision is None else precision
    if _is_too_large(width):
        return "%!(NOVERB)"
    text = _no_number(number)
    if text is None:
        mantissa, _, exponent = f"{abs(number):.6e}".partition("e")
        power = f"{'-' if int(exponent) < 0 else ''}{abs(int(exponent)):02}"
        text = f"{'-' if number < 0 else ''}{mantissa}×10{power.translate(_SUPERSCRIPT)}"
    return text.rjust(width & 0xFFFF)


# For the checker


def wrong_clause(node: ast.Call) -> tuple[int, str] | None:
    """The position and text of an error in a call whose text and values are literals."""
    text, values = node.target, node.args[0]
    assert isinstance(text, ast.Literal)
    assert isinstance(text.value, str)
    assert isinstance(values, ast.ListExpr)
    at = node.position

    def interpolate(verb: str, index: int, precision: int | None) -> str:
        nonlocal at
        accepted, complaint = _ACCEPTED[verb]
        found = _first_of_other_type(values.elements[index], accepted, verb == "s")
        if found is not None:
            at = found.position
            name = found.type.name
            raise FormatError(f"error during formatting: {complaint}, was given {name}")
        return ""

    try:
        used = _interpolated(text.value, len(values.elements), interpolate, checks=True)
    except FormatError as error:
        return at, str(error)
    given = len(values.elements)
    if given == used:
        return None
    return at, f"too many arguments supplied to string.format (expected {used}, got {given})"


def _first_of_other_type(
    node: ast.Node, accepted: frozenset[str], is_deep: bool
) -> ast.Node | None:
    name = node.type.name
    if name != "dyn" and name not in accepted:
        return node
    inner: list[ast.Node] = []
    if is_deep and isinstance(node, ast.ListExpr):
        inner = node.elements
    elif is_deep and isinstance(node, ast.MapExpr):
        inner = [part for entry in node.entries for part in (entry.key, entry.value)]
    for one in inner:
        found = _first_of_other_type(one, accepted, is_deep)
        if found is not None:
            return found
    return None
