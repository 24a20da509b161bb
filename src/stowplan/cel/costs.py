"""What calls cost in an evaluation, by cel-go's model with Kubernetes' extensions.

An identifier or a step of a selection costs 1, a new list 10, a new map 30. Reading a whole string
or list costs in proportion to its size. An evaluation over the limit is cancelled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stowplan.cel import cost_rules as rules
from stowplan.cel.cost_rules import LIST_COST, REGEX, TRAVERSAL, scaled
from stowplan.cel.errors import Cancelled, Failure
from stowplan.cel.go_text import utf8
from stowplan.cel.plans import go_type
from stowplan.cel.values import Map, Opaque, Value, count_comparisons, size_of

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


def _by_rule(rule: rules.Rule) -> Cost:
    return lambda args, result: rule([*map(size_of, args)])


def equality(left: Value, right: Value) -> int:
    if isinstance(left, Opaque):
        return 1
    return inequality(left, right)


def inequality(left: Value, right: Value) -> int:
    return scaled(min(size_of(left), size_of(right)))


def _traversal(value: Value) -> int:
    if isinstance(value, str):
        return int(len(utf8(value)) * TRAVERSAL)
    if isinstance(value, bytes):
        return int(len(value) * TRAVERSAL)
    if isinstance(value, list):
        count_comparisons(len(value))
        return sum(_traversal(item) for item in value)
    if isinstance(value, Map):
        count_comparisons(len(value))
        return sum(_traversal(key) + _traversal(item) for key, item in value.items())
    return 1


def _allocates(factor: float, size: int) -> int:
    return int(size * factor) + 1 + LIST_COST


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
            # cel-go panics here on an error or a value of another type.
            name = "*types.Err" if isinstance(items, Failure) else go_type(items)
            missing = "Contains" if name in _ADDABLE else "Add"
            raise Cancelled(
                f"internal error: interface conversion: {name} is not traits.Lister: missing "
                f"method {missing}"
            )
        if not items:
            return _allocates(2, 0)
        factor = 2 + TRAVERSAL if isinstance(items[0], str | bytes) else 2.0
        return _allocates(factor, len(items) ** 2)

    return cost


def _format(args: Sequence[Value], result: Value) -> int:
    pattern_size = getattr(args[0], "pattern_size", None)
    if not isinstance(pattern_size, int):
        return 1
    return scaled(1 + size_of(args[1])) * scaled(pattern_size, REGEX)


_BY_OVERLOAD: dict[str, Cost] = {
    **{name: _by_rule(rule) for name, rule in rules.BY_OVERLOAD.items()},
    **dict.fromkeys(
        ("list_slice", "lists_range", "list_reverse"),
        lambda args, result: _allocates(1, size_of(result)),
    ),
    **dict.fromkeys(("list_flatten", "list_flatten_int"), _flatten),
    "list_distinct": _self_compare(0),
    **{f"list_{of}_sort": _self_compare(0) for of in rules.SORTABLE},
    **{f"list_{of}_sortByAssociatedKeys": _self_compare(1) for of in rules.SORTABLE},
    "cidr_ip": lambda args, result: 1,
}
_BY_FUNCTION: dict[str, Cost] = {
    **{name: _by_rule(rule) for name, rule in rules.BY_FUNCTION.items()},
    **dict.fromkeys(rules.TRAVERSES_LIST, lambda args, result: _traversal(args[0])),
    "join": lambda args, result: scaled(size_of(result), 2 * TRAVERSAL),
    "validate": _format,
}
_BY_STANDARD_OVERLOAD: dict[str, Cost] = {
    **{name: _by_rule(rule) for name, rule in rules.BY_STANDARD_OVERLOAD.items()},
    **dict.fromkeys(
        ("starts_with_string", "ends_with_string"), lambda args, result: scaled(size_of(args[0]))
    ),
    **dict.fromkeys(rules.COMPARISONS, lambda args, result: inequality(*args)),
}
