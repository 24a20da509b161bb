"""CEL's operators: arithmetic with overflow checks, order, equality, membership, size."""

from __future__ import annotations

import math
from collections.abc import Callable

from stowplan.cel.declarations import FUNCTIONS, Implementation
from stowplan.cel.errors import CostLimitExceeded, Failure, no_such_overload
from stowplan.cel.values import (
    LONGEST,
    MAX_INT,
    MAX_UINT,
    MIN_INT,
    NANOS,
    Duration,
    Growing,
    Map,
    Timestamp,
    UInt,
    Value,
    compare,
    count_comparisons,
    equal,
)

_MIN_TIME, _MAX_TIME = -62_135_596_800, 253_402_300_799
_Operation = Callable[[type, Value, Value], Value]
_RECEIVERS = (str, Timestamp, Duration)
_OVERFLOW = {
    int: Failure("integer overflow"),
    UInt: Failure("unsigned integer overflow"),
    Duration: Failure("integer overflow"),
    Timestamp: Failure("timestamp overflow"),
}


def missing(function: str, value: Value) -> Failure:
    """The error if the type of a value does not have the operation."""
    if isinstance(value, _RECEIVERS):
        return no_such_overload()
    return Failure(f"no such overload: {function}")


def _checked(kind: type, result: int) -> Value:
    if kind is int:
        return result if MIN_INT <= result <= MAX_INT else _OVERFLOW[int]
    if kind is UInt:
        return UInt(result) if 0 <= result <= MAX_UINT else _OVERFLOW[UInt]
    if kind is Duration:
        return Duration(result) if MIN_INT <= result <= MAX_INT else _OVERFLOW[Duration]
    seconds = result // NANOS
    return Timestamp(result) if _MIN_TIME <= seconds <= _MAX_TIME else _OVERFLOW[Timestamp]


@FUNCTIONS.operator("_+_")
def add(left: Value, right: Value) -> Value:
    kind, other = type(left), type(right)
    if kind is Growing and isinstance(right, list):
        left.extend(right)
        return left
    if kind is other:
        if kind in (str, bytes, list) and len(left) + len(right) > LONGEST:
            raise CostLimitExceeded
        if kind in (int, UInt, Duration):
            return _checked(kind, left + right)
        if kind in (float, str, bytes, list):
            return left + right
    if {kind, other} == {Duration, Timestamp}:
        return _checked(Timestamp, int(left) + int(right))
    if kind in (int, UInt, float, str, bytes, list, Duration, Timestamp):
        return no_such_overload()
    return missing("_+_", left)


@FUNCTIONS.operator("_-_")
def subtract(left: Value, right: Value) -> Value:
    kind, other = type(left), type(right)
    if kind is Timestamp and other in (Duration, Timestamp):
        result = int(left) - int(right)
        return _checked(Duration if other is Timestamp else Timestamp, result)
    if kind is other and kind in (int, UInt, Duration):
        return _checked(kind, int(left) - int(right))
    if kind is other is float:
        return left - right
    if kind in (int, UInt, float, Duration, Timestamp):
        return no_such_overload()
    return missing("_-_", left)


def _of_one_type(name: str, *kinds: type) -> Callable[[_Operation], _Operation]:
    """Register an operation on two numbers of the same type, which is one of `kinds`."""

    def register(run: _Operation) -> _Operation:
        @FUNCTIONS.operator(name)
        def operate(left: Value, right: Value) -> Value:
            kind = type(left)
            if kind not in kinds:
                return missing(name, left)
            return run(kind, left, right) if kind is type(right) else no_such_overload()

        return run

    return register


@_of_one_type("_*_", int, UInt, float)
def multiply(kind: type, left: Value, right: Value) -> Value:
    return left * right if kind is float else _checked(kind, int(left) * int(right))


@_of_one_type("_/_", int, UInt, float)
def divide(kind: type, left: Value, right: Value) -> Value:
    if kind is float:
        return _divide_floats(left, right)
    if right == 0:
        return Failure("division by zero")
    quotient = abs(int(left)) // abs(int(right))
    return _checked(kind, quotient if (left < 0) == (right < 0) else -quotient)


def _divide_floats(left: float, right: float) -> float:
    if right == 0:
        if left == 0 or math.isnan(left):
            return math.nan
        return math.inf if (math.copysign(1, left) == math.copysign(1, right)) else -math.inf
    return left / right


@_of_one_type("_%_", int, UInt)
def modulo(kind: type, left: Value, right: Value) -> Value:
    if right == 0:
        return Failure("modulus by zero")
    if left == MIN_INT and right == -1:
        return _OVERFLOW[int]
    rest = abs(left) % abs(right)
    return _checked(kind, -rest if left < 0 else rest)


@FUNCTIONS.operator("-_")
def negate(value: Value) -> Value:
    kind = type(value)
    if kind is bool:
        return no_such_overload()
    if kind is float:
        return -value
    if kind in (int, Duration):
        return _checked(kind, -int(value))
    return missing("-_", value)


@FUNCTIONS.operator("!_")
def invert(value: Value) -> Value:
    return not value if type(value) is bool else no_such_overload()


_COMPARABLE = (bool, int, UInt, float, str, bytes, Duration, Timestamp)


def _ordering(function: str, accepted: frozenset[int]) -> Implementation:
    def run(left: Value, right: Value) -> Value:
        if type(left) not in _COMPARABLE:
            return missing(function, left)
        order = compare(left, right)
        return order in accepted if type(order) is int else order

    return run


for _name, _accepted in {"_<_": {-1}, "_<=_": {-1, 0}, "_>_": {1}, "_>=_": {0, 1}}.items():
    FUNCTIONS.operator(_name)(_ordering(_name, frozenset(_accepted)))


@FUNCTIONS.operator("@in")
def contains(item: Value, within: Value) -> Value:
    if isinstance(within, Map):
        return within.contains(item)
    if isinstance(within, list):
        count_comparisons(len(within))
        return any(equal(item, one) is True for one in within)
    return no_such_overload()


@FUNCTIONS.operator("size")
def size(value: Value) -> Value:
    if isinstance(value, str | bytes | list | Map):
        return len(value)
    return missing("size", value)


@FUNCTIONS.operator("dyn")
def dyn(value: Value) -> Value:
    return value


def _declare() -> None:
    """The overloads, in cel-go's order."""
    declare = FUNCTIONS.declare
    declare("_?_:_", "conditional", "(bool, 'A, 'A) -> 'A")
    declare("_&&_", "logical_and", "(bool, bool) -> bool")
    declare("_||_", "logical_or", "(bool, bool) -> bool")
    declare("!_", "logical_not", "(bool) -> bool")
    declare("@not_strictly_false", "not_strictly_false", "(bool) -> bool")
    declare("_==_", "equals", "('A, 'A) -> bool")
    declare("_!=_", "not_equals", "('A, 'A) -> bool")
    for name in ("bytes", "double"):
        declare("_+_", f"add_{name}", f"({name}, {name}) -> {name}")
    declare("_+_", "add_duration_duration", "(duration, duration) -> duration")
    declare("_+_", "add_duration_timestamp", "(duration, timestamp) -> timestamp")
    declare("_+_", "add_timestamp_duration", "(timestamp, duration) -> timestamp")
    declare("_+_", "add_int64", "(int, int) -> int")
    declare("_+_", "add_list", "(list('A), list('A)) -> list('A)")
    declare("_+_", "add_string", "(string, string) -> string")
    declare("_+_", "add_uint64", "(uint, uint) -> uint")
    for symbol, word in {"_/_": "divide", "_*_": "multiply", "_-_": "subtract"}.items():
        for name in ("double", "int", "uint"):
            width = {"double": "double", "int": "int64", "uint": "uint64"}[name]
            declare(symbol, f"{word}_{width}", f"({name}, {name}) -> {name}")
    declare("_-_", "subtract_duration_duration", "(duration, duration) -> duration")
    declare("_-_", "subtract_timestamp_duration", "(timestamp, duration) -> timestamp")
    declare("_-_", "subtract_timestamp_timestamp", "(timestamp, timestamp) -> duration")
    declare("_%_", "modulo_int64", "(int, int) -> int")
    declare("_%_", "modulo_uint64", "(uint, uint) -> uint")
    declare("-_", "negate_double", "(double) -> double")
    declare("-_", "negate_int64", "(int) -> int")
    words = {"_<_": "less", "_<=_": "less_equals", "_>_": "greater", "_>=_": "greater_equals"}
    widths = {"int": "int64", "uint": "uint64", "double": "double"}
    for symbol, word in words.items():
        declare(symbol, f"{word}_bool", "(bool, bool) -> bool")
        for left, left_width in widths.items():
            for right, right_width in widths.items():
                suffix = left_width if left == right else f"{left_width}_{right_width}"
                declare(symbol, f"{word}_{suffix}", f"({left}, {right}) -> bool")
        for name in ("string", "bytes", "timestamp", "duration"):
            declare(symbol, f"{word}_{name}", f"({name}, {name}) -> bool")
    declare("_[_]", "index_list", "(list('A), int) -> 'A")
    declare("_[_]", "index_map", "(map('A, 'B), 'A) -> 'B")
    declare(
        "_[_]", "optional_list_index_int", "(optional_type(list('V)), int) -> optional_type('V)"
    )
    declare(
        "_[_]", "optional_map_index_value", "(optional_type(map('K, 'V)), 'K) -> optional_type('V)"
    )
    declare("_[?_]", "list_optindex_optional_int", "(list('V), int) -> optional_type('V)")
    declare(
        "_[?_]",
        "optional_list_optindex_optional_int",
        "(optional_type(list('V)), int) -> optional_type('V)",
    )
    declare("_[?_]", "map_optindex_optional_value", "(map('K, 'V), 'K) -> optional_type('V)")
    declare(
        "_[?_]",
        "optional_map_optindex_optional_value",
        "(optional_type(map('K, 'V)), 'K) -> optional_type('V)",
    )
    declare("@in", "in_list", "('A, list('A)) -> bool")
    declare("@in", "in_map", "('A, map('A, 'B)) -> bool")
    for name, of in {
        "bytes": "bytes",
        "list": "list('A)",
        "map": "map('A, 'B)",
        "string": "string",
    }.items():
        declare("size", f"size_{name}", f"({of}) -> int")
        declare("size", f"{name}_size", f"{of}.() -> int")
    declare("dyn", "to_dyn", "('A) -> dyn")


_declare()
