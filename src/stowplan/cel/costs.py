"""What calls cost, by cel-go's model with Kubernetes' extensions.

An identifier or a step of a selection costs 1, a new list 10, a new map 30; what reads a whole
string or list costs in proportion to its size. An evaluation over the limit is cancelled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from stowplan.cel.errors import Cancelled, Failure
from stowplan.cel.plans import go_type
from stowplan.cel.values import Map, Opaque, Value, count_comparisons, size_of

LIST_COST, MAP_COST = 10, 30
_TRAVERSAL = 0.1
_REGEX = 0.25

#: Go types that have a method Add.
_ADDABLE = frozenset(
    f"types.{name}"
    for name in ("Int", "Uint", "Double", "String", "Bytes", "Duration", "Timestamp")
)

Cost = Callable[[Sequence[Value], Value], int]


def cost_of(function: str, overload: str | None) -> Cost | None:
    """The cost of a call by its arguments and its result; None if it is always 1."""
    if overload is not None and overload in _BY_OVERLOAD:
        return _BY_OVERLOAD[overload]
    if function in _BY_FUNCTION:
        return _BY_FUNCTION[function]
    return _BY_STANDARD_OVERLOAD.get(overload or "")


def _scaled(size: int, factor: float = _TRAVERSAL) -> int:
    return math.ceil(size * factor)


def _receiver(args: Sequence[Value], result: Value) -> int:
    return _scaled(size_of(args[0]))


def _receiver_twice(args: Sequence[Value], result: Value) -> int:
    return _scaled(size_of(args[0]), 2 * _TRAVERSAL)


def _result_twice(args: Sequence[Value], result: Value) -> int:
    return _scaled(size_of(result), 2 * _TRAVERSAL)


def _shorter(args: Sequence[Value], result: Value) -> int:
    return _scaled(min(size_of(args[0]), size_of(args[1])))


def equality(left: Value, right: Value) -> int:
    if isinstance(left, Opaque):
        return 1
    return _scaled(min(size_of(left), size_of(right)))


def inequality(left: Value, right: Value) -> int:
    return _scaled(min(size_of(left), size_of(right)))


def _both(args: Sequence[Value], result: Value) -> int:
    return _scaled(size_of(args[0]) + size_of(args[1]))


def _list_length(args: Sequence[Value], result: Value) -> int:
    return size_of(args[1])


def _regex(args: Sequence[Value], result: Value) -> int:
    return _scaled(1 + size_of(args[0])) * _scaled(size_of(args[1]), _REGEX)


def _product(args: Sequence[Value], result: Value) -> int:
    return _scaled(size_of(args[0])) * _scaled(size_of(args[1]))


def _traversal(value: Value) -> int:
    if isinstance(value, str):
        return int(len(value.encode()) * _TRAVERSAL)
    if isinstance(value, bytes):
        return int(len(value) * _TRAVERSAL)
    if isinstance(value, list):
        count_comparisons(len(value))
        return sum(_traversal(item) for item in value)
    if isinstance(value, Map):
        return sum(_traversal(key) + _traversal(item) for key, item in value.items())
    return 1


def _whole_receiver(args: Sequence[Value], result: Value) -> int:
    return _traversal(args[0])


def _sets(factor: int) -> Cost:
    return lambda args, result: 1 + size_of(args[0]) * size_of(args[1]) * factor


def _allocates(factor: float, size: int) -> int:
    return int(size * factor) + 1 + LIST_COST


def _result_list(args: Sequence[Value], result: Value) -> int:
    return _allocates(1, size_of(result))


def _flatten(args: Sequence[Value], result: Value) -> int:
    depth = args[1] if len(args) == 2 else 1
    if not isinstance(depth, int):
        raise Cancelled(
            "internal error: interface conversion: ref.Val is *types.Err, not types.Int"
        )
    return _allocates(depth, size_of(args[0]))


def _self_compare(index: int) -> Cost:
    def cost(args: Sequence[Value], result: Value) -> int:
        items = args[index]
        if not isinstance(items, list):
            # cel-go does not expect an error here either, nor another type.
            name = "*types.Err" if isinstance(items, Failure) else go_type(items)
            missing = "Contains" if name in _ADDABLE else "Add"
            raise Cancelled(
                f"internal error: interface conversion: {name} is not traits.Lister: missing "
                f"method {missing}"
            )
        if not items:
            return _allocates(2, 0)
        factor = 2 + _TRAVERSAL if isinstance(items[0], str | bytes) else 2.0
        return _allocates(factor, len(items) ** 2)

    return cost


def _one(args: Sequence[Value], result: Value) -> int:
    return 1


_BY_OVERLOAD: dict[str, Cost] = {
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
    "list_slice": _result_list,
    "list_flatten": _flatten,
    "list_flatten_int": _flatten,
    "lists_range": _result_list,
    "list_reverse": _result_list,
    "list_distinct": _self_compare(0),
}
for _type in (
    "int", "uint", "double", "bool", "string", "bytes",
    "google.protobuf.Duration", "google.protobuf.Timestamp",
):  # fmt: skip
    _BY_OVERLOAD[f"list_{_type}_sort"] = _self_compare(0)
    _BY_OVERLOAD[f"list_{_type}_sortByAssociatedKeys"] = _self_compare(1)

_BY_FUNCTION: dict[str, Cost] = {
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _whole_receiver),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _receiver),
    **dict.fromkeys(("replace", "split"), _receiver_twice),
    "join": _result_twice,
    **dict.fromkeys(("find", "findAll"), _regex),
    **dict.fromkeys(("quantity", "isQuantity", "semver", "isSemver"), _receiver),
    **dict.fromkeys(
        ("sign", "asInteger", "isInteger", "asApproximateFloat", "isGreaterThan", "isLessThan",
         "compareTo", "add", "sub", "major", "minor", "patch"),
        _one,
    ),
}  # fmt: skip

_ORDERS = ("less", "greater", "less_equals", "greater_equals")
_BY_STANDARD_OVERLOAD: dict[str, Cost] = {
    **dict.fromkeys(
        ("starts_with_string", "ends_with_string", "string_to_bytes", "bytes_to_string",
         "strings_quote", "string_format"),
        _receiver,
    ),
    "in_list": _list_length,
    **dict.fromkeys((f"{order}_{of}" for order in _ORDERS for of in ("string", "bytes")), _shorter),
    **dict.fromkeys(("add_string", "add_bytes"), _both),
    "matches_string": _regex,
    "contains_string": _product,
}  # fmt: skip
