"""Costs of calls as formulas over the sizes of their operands.

These rules of cel-go and Kubernetes hold both for an evaluation, where sizes are numbers (`costs`),
and for an estimate, where they are bounds (`call_estimates`). Those two modules define the rules
that differ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol, TypeVar, overload

from stowplan.cel.spans import Span

LIST_COST, MAP_COST = 10, 30
#: Of a byte or element that is read, and of a byte of a pattern for each byte of text.
TRAVERSAL, REGEX = 0.1, 0.25

Size = TypeVar("Size", int, Span)


class Rule(Protocol):
    """The cost of a call by the sizes of its operands, receiver first."""

    def __call__(self, sizes: Sequence[Size], /) -> Size: ...


@overload
def scaled(size: int, factor: float = TRAVERSAL) -> int: ...
@overload
def scaled(size: Span, factor: float = TRAVERSAL) -> Span: ...
def scaled(size: int | Span, factor: float = TRAVERSAL) -> int | Span:
    return size.scaled(factor) if isinstance(size, Span) else math.ceil(size * factor)


def _first(sizes: Sequence[Size]) -> Size:
    return scaled(sizes[0])


def _first_twice(sizes: Sequence[Size]) -> Size:
    return scaled(sizes[0], 2 * TRAVERSAL)


def _both(sizes: Sequence[Size]) -> Size:
    return scaled(sizes[0] + sizes[1])


def _regex(sizes: Sequence[Size]) -> Size:
    return scaled(sizes[0] + 1) * scaled(sizes[1], REGEX)


def _contains_address(sizes: Sequence[Size]) -> Size:
    return scaled(sizes[0] + sizes[0])


def _contains_network(sizes: Sequence[Size]) -> Size:
    return _contains_address(sizes) + scaled(sizes[0]) + 1


def _sets(factor: int) -> Rule:
    return lambda sizes: scaled(sizes[0] * sizes[1], factor) + 1


BY_OVERLOAD: dict[str, Rule] = {
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
    # The argument is text that must be parsed first.
    "cidr_contains_ip_string": lambda sizes: _contains_address(sizes) + scaled(sizes[1]),
    "cidr_contains_cidr_string": lambda sizes: _contains_network(sizes) + scaled(sizes[1]),
}
BY_FUNCTION: dict[str, Rule] = {
    **dict.fromkeys(
        ("url", "lowerAscii", "upperAscii", "substring", "trim", "ip", "cidr", "isIP", "isCIDR",
         "quantity", "isQuantity", "semver", "isSemver"),
        _first,
    ),
    **dict.fromkeys(("replace", "split", "ip.isCanonical"), _first_twice),
    **dict.fromkeys(("find", "findAll"), _regex),
    "containsIP": _contains_address,
    "containsCIDR": _contains_network,
}  # fmt: skip
#: For functions that are not in `BY_FUNCTION`.
BY_STANDARD_OVERLOAD: dict[str, Rule] = {
    **dict.fromkeys(
        ("string_format", "string_to_bytes", "bytes_to_string", "strings_quote"), _first
    ),
    "in_list": lambda sizes: scaled(sizes[1], 1),
    "matches_string": _regex,
    "contains_string": lambda sizes: scaled(sizes[0]) * scaled(sizes[1]),
    "add_string": _both,
    "add_bytes": _both,
}

TRAVERSES_LIST = ("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf")
#: Overloads of `<`, `>`, `<=` and `>=` that read their operands.
COMPARISONS = tuple(
    f"{order}_{of}"
    for order in ("less", "greater", "less_equals", "greater_equals")
    for of in ("string", "bytes")
)
#: Types whose lists can be sorted.
SORTABLE = (
    "int", "uint", "double", "bool", "string", "bytes",
    "google.protobuf.Duration", "google.protobuf.Timestamp",
)  # fmt: skip
