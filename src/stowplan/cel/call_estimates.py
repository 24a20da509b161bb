"""What a call costs at most, and how large its result is, before any value is known.

Tables by overload and by function: cel-go's model, that of its list and set extensions, and
Kubernetes' own. Sums that wrap around upstream wrap around here too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from stowplan.cel import ast
from stowplan.cel import cost_rules as rules
from stowplan.cel.cost_rules import LIST_COST, REGEX, TRAVERSAL
from stowplan.cel.spans import MOST, ONE, UNKNOWN, Span, exactly
from stowplan.cel.types import Type

_ADDRESS = Span(4, 16)
_LONGEST_FORMAT_NAME, _LONGEST_FORMAT_PATTERN = 64, 128


@dataclass(frozen=True, slots=True)
class Operand:
    """The receiver or an argument of a call."""

    node: ast.Node
    type: Type
    known_size: Span | None
    #: The size of one item of a list of strings or bytes.
    item_size: Span

    @property
    def size(self) -> Span:
        return self.known_size or UNKNOWN


Estimate = tuple[Span, "Span | None"]
#: By the operands, receiver first.
Estimator = Callable[[Sequence[Operand]], Estimate]


def estimate(function: str, overload: str, operands: Sequence[Operand]) -> Estimate | None:
    """The cost of the call itself, and the size of its result if the operands determine it.
    None if the call costs 1.
    """
    known = _BY_OVERLOAD.get(overload) or _BY_FUNCTION.get(function)
    if function == "_==_":
        known = _equality(operands)
    known = known or _BY_STANDARD_OVERLOAD.get(overload)
    return None if known is None else known(operands)


def _compares(operands: Sequence[Operand]) -> Estimate:
    most = min(operands[0].size.most, operands[1].size.most)
    return Span(min(most, 1), most).scaled(TRAVERSAL), None


_CONSTANT_EQUALITY = frozenset({"net.IP", "net.CIDR", "kubernetes.Quantity", "kubernetes.Semver"})


def _equality(operands: Sequence[Operand]) -> Estimator:
    of = operands[0].type
    if of != operands[1].type:
        return _compares
    if of.name in _CONSTANT_EQUALITY:
        return lambda operands: (ONE, None)
    if of.name == "kubernetes.NamedFormat":
        return lambda operands: (Span(1, _LONGEST_FORMAT_NAME).scaled(TRAVERSAL), None)
    if of.name == "kubernetes.URL":
        most = (operands[1].known_size or ONE).most
        return lambda operands: (Span(1, most).scaled(TRAVERSAL), None)
    return _compares


def _traverses_list(operands: Sequence[Operand]) -> Estimate:
    target = operands[0]
    if not target.type.params:
        return target.size.scaled(TRAVERSAL), None
    each = ONE
    if target.type.params[0].name in ("string", "bytes"):
        each = target.item_size.scaled(TRAVERSAL) + 1
    return target.size * each, None


def _join(operands: Sequence[Operand]) -> Estimate:
    items = operands[0]
    size = exactly(0)
    if items.type.params:
        size = items.size * items.item_size
    if len(operands) == 2:
        separators = Span(max(items.size.least - 1, 0), max(items.size.most - 1, 0))
        size += operands[1].size * separators
    return size.scaled(TRAVERSAL), size


def _validate(operands: Sequence[Operand]) -> Estimate:
    read = operands[1].size.scaled(TRAVERSAL)
    return read.scaled(_LONGEST_FORMAT_PATTERN * REGEX), None


def _literal_int(operand: Operand, otherwise: int, negative: int | None = 0) -> int:
    value = operand.node.value if isinstance(operand.node, ast.Literal) else None
    if type(value) is not int:
        return otherwise
    if value < 0:
        return value & MOST if negative is None else negative
    return value


def _allocates(factor: float, size: Span) -> Estimate:
    return size.scaled(factor) + 1 + LIST_COST, size


def _slice(operands: Sequence[Operand]) -> Estimate:
    start = _literal_int(operands[1], 0)
    end = _literal_int(operands[2], operands[0].size.most)
    return _allocates(1, exactly((end - start) & MOST))


def _flatten(operands: Sequence[Operand]) -> Estimate:
    depth = _literal_int(operands[1], MOST) if len(operands) == 2 else 1
    return _allocates(float(depth), operands[0].size)


def _sort(index: int, *, is_text: bool = False) -> Estimator:
    def cost(operands: Sequence[Operand]) -> Estimate:
        size = operands[index].size
        return _allocates(2 + TRAVERSAL if is_text else 2, size * size)

    return cost


def _replaced(operands: Sequence[Operand]) -> Span:
    text, old, new = (operand.size for operand in operands[:3])
    if old.least == 0:
        most_count, most_kept = min(text.most + 1, MOST), text.most
    elif new.most <= old.least:
        most_count, most_kept = 0, text.most
    else:
        most_count, most_kept = _quotient(text.most, old.least), 0
    if old.most == 0:
        least_count, least_kept = min(text.least + 1, MOST), text.least
    elif old.most <= new.least:
        least_count, least_kept = 0, text.least
    else:
        least_count, least_kept = _quotient(text.least, old.most), 0
    return Span(least_count, most_count) * new + Span(least_kept, most_kept)


def _quotient(size: int, part: int) -> int:
    """Go converts a float that is too large to 2**63."""
    count = math.ceil(float(size) / float(part))
    return count if count <= MOST else 1 << 63


def _parts(operands: Sequence[Operand]) -> Span:
    most = operands[0].size.most
    if len(operands) == 3:
        most = _literal_int(operands[2], most, negative=None)
    return Span(0, most)


def _quoted(operands: Sequence[Operand]) -> Span:
    size = operands[0].size
    return Span(size.least + 2 & MOST, size.most * 2 + 2 & MOST)


def _sum(operands: Sequence[Operand]) -> Span:
    return operands[0].size + operands[1].size


_RESULT_SIZES: dict[str, Callable[[Sequence[Operand]], Span]] = {
    **dict.fromkeys(
        ("url", "lowerAscii", "upperAscii", "substring", "trim"), lambda operands: operands[0].size
    ),
    "replace": _replaced,
    "split": _parts,
    **dict.fromkeys(("find", "findAll"), lambda operands: Span(0, operands[0].size.most)),
    "string_to_bytes": lambda operands: Span(
        operands[0].size.least, operands[0].size.most * 4 & MOST
    ),
    "bytes_to_string": lambda operands: Span(operands[0].size.least // 4, operands[0].size.most),
    "strings_quote": _quoted,
    **dict.fromkeys(("add_string", "add_bytes"), _sum),
}


def _by_rules(table: Mapping[str, rules.Rule]) -> dict[str, Estimator]:
    return {name: _by_rule(rule, _RESULT_SIZES.get(name)) for name, rule in table.items()}


def _by_rule(rule: rules.Rule, result: Callable[[Sequence[Operand]], Span] | None) -> Estimator:
    def cost(operands: Sequence[Operand]) -> Estimate:
        return rule([one.size for one in operands]), result(operands) if result else None

    return cost


def _of_address(rule: rules.Rule) -> Estimator:
    """The receiver is an address or a network."""
    return lambda operands: (rule([_ADDRESS, *(one.size for one in operands[1:])]), None)


_BY_OVERLOAD: dict[str, Estimator] = {
    **_by_rules(rules.BY_OVERLOAD),
    "list_slice": _slice,
    **dict.fromkeys(("list_flatten", "list_flatten_int"), _flatten),
    "lists_range": lambda operands: _allocates(1, exactly(_literal_int(operands[0], MOST))),
    "list_reverse": lambda operands: _allocates(1, operands[0].size),
    "list_distinct": _sort(0),
    "cidr_ip": lambda operands: (ONE, None),
    **{
        name: _of_address(rules.BY_OVERLOAD[name])
        for name in ("cidr_contains_ip_string", "cidr_contains_cidr_string")
    },
}
for _type in rules.SORTABLE:
    _is_text = _type in ("string", "bytes")
    _BY_OVERLOAD[f"list_{_type}_sort"] = _sort(0, is_text=_is_text)
    _BY_OVERLOAD[f"list_{_type}_sortByAssociatedKeys"] = _sort(1, is_text=_is_text)

_BY_FUNCTION: dict[str, Estimator] = {
    **_by_rules(rules.BY_FUNCTION),
    **dict.fromkeys(rules.TRAVERSES_LIST, _traverses_list),
    "join": _join,
    **{name: _of_address(rules.BY_FUNCTION[name]) for name in ("containsIP", "containsCIDR")},
    "validate": _validate,
}
_BY_STANDARD_OVERLOAD: dict[str, Estimator] = {
    **_by_rules(rules.BY_STANDARD_OVERLOAD),
    **dict.fromkeys(
        ("starts_with_string", "ends_with_string"),
        lambda operands: (operands[1].size.scaled(TRAVERSAL), None),
    ),
    "add_list": lambda operands: (ONE, _sum(operands)),
    **dict.fromkeys(("not_equals", *rules.COMPARISONS), _compares),
}
