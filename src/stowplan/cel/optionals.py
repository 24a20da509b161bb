"""Optional values: `optional.of(x)`, `a.?b`, `orValue`."""

from __future__ import annotations

from stowplan.cel.declarations import FUNCTIONS
from stowplan.cel.errors import Failure
from stowplan.cel.values import NONE, Opt, Value, is_zero, show

_define = FUNCTIONS.overload


@_define("optional.of", "optional_of", "('V) -> optional_type('V)")
def optional_of(value: Value) -> Value:
    return Opt((value,))


@_define("optional.ofNonZeroValue", "optional_ofNonZeroValue", "('V) -> optional_type('V)")
def optional_of_non_zero(value: Value) -> Value:
    return NONE if is_zero(value) else Opt((value,))


@_define("optional.none", "optional_none", "() -> optional_type('V)")
def optional_none() -> Value:
    return NONE


@_define("value", "optional_value", "optional_type('V).() -> 'V")
def value_of(optional: Opt) -> Value:
    return optional.items[0] if optional.items else Failure("optional.none() dereference")


@_define("hasValue", "optional_hasValue", "optional_type('V).() -> bool")
def has_value(optional: Opt) -> Value:
    return optional.has_value


@_define("last", "list_last", "list('V).() -> optional_type('V)")
def last(items: list[Value]) -> Value:
    return Opt((items[-1],)) if items else NONE


@_define("first", "list_first", "list('V).() -> optional_type('V)")
def first(items: list[Value]) -> Value:
    return Opt((items[0],)) if items else NONE


@_define("optional.unwrap", "optional_unwrap", "(list(optional_type('V))) -> list('V)")
@_define("unwrapOpt", "optional_unwrapOpt", "list(optional_type('V)).() -> list('V)")
def unwrap(items: list[Value]) -> Value:
    unwrapped: list[Value] = []
    for item in items:
        if not isinstance(item, Opt):
            return Failure(f"value {show(item)} is not optional")
        unwrapped += item.items
    return unwrapped


# `program` evaluates these two itself, because their right side is lazy.
FUNCTIONS.declare(
    "or", "optional_or_optional", "optional_type('V).(optional_type('V)) -> optional_type('V)"
)
FUNCTIONS.declare("orValue", "optional_orValue_value", "optional_type('V).('V) -> 'V")
