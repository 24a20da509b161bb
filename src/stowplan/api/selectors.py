"""Selectors of API objects, compiled once into small hashable values that can key caches.

Called where pods, Services and the like are compiled for the decision core; the node table reads
`requirements` to evaluate a selector over whole columns. An invalid label selector is a
ValueError, and the caller does what upstream does at that place (drop the pod's terms, fail the
cycle, skip the budget). An invalid node selector term matches nothing and keeps its `errors`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from stowplan.api.labels import (
    EVERYTHING,
    NOTHING,
    CompiledSelector,
    Operator,
    Requirement,
    all_match,
    canonical,
    invalid,
    make_requirement,
    requirement_errors,
)
from stowplan.api.objects import (
    LabelSelector,
    LabelSelectorRequirement,
    NodeSelector,
    NodeSelectorTerm,
)
from stowplan.api.selector_text import FieldSelector, parse_field_selector, parse_label_selector

__all__ = [
    "EVERYTHING",
    "NOTHING",
    "CompiledNodeSelector",
    "CompiledNodeSelectorTerm",
    "CompiledSelector",
    "FieldSelector",
    "Operator",
    "Requirement",
    "compile_label_selector",
    "compile_label_set",
    "compile_node_selector",
    "compile_node_selector_term",
    "parse_field_selector",
    "parse_label_selector",
]

_LABEL_OPERATORS: Final[dict[str, Operator]] = {
    "In": "In", "NotIn": "NotIn", "Exists": "Exists", "DoesNotExist": "DoesNotExist",
}  # fmt: skip
_NODE_OPERATORS: Final[dict[str, Operator]] = {**_LABEL_OPERATORS, "Gt": "Gt", "Lt": "Lt"}
_FIELD_OPERATORS: Final[dict[str, Operator]] = {"In": "In", "NotIn": "NotIn"}
_NODE_NAME_FIELD = "metadata.name"


def compile_label_selector(selector: LabelSelector | None) -> CompiledSelector:
    """None matches nothing, an empty selector everything; an invalid one is a ValueError."""
    if selector is None:
        return NOTHING
    requirements = [
        make_requirement(key, "In", (value,))
        for key, value in (selector.match_labels or {}).items()
    ]
    for expression in selector.match_expressions or ():
        operator = _LABEL_OPERATORS.get(expression.operator)
        if operator is None:
            raise ValueError(f'"{expression.operator}" is not a valid label selector operator')
        requirements.append(make_requirement(expression.key, operator, expression.values or None))
    return CompiledSelector(canonical(requirements)) if requirements else EVERYTHING


def compile_label_set(labels: Mapping[str, str] | None) -> CompiledSelector:
    """Exactly these labels (spec.nodeSelector, a Service's selector): none at all match
    everything, and nothing is checked."""
    pairs = [Requirement(key, "In", (value,)) for key, value in (labels or {}).items()]
    return CompiledSelector(canonical(pairs)) if pairs else EVERYTHING


class CompiledNodeSelectorTerm(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """Requirements on labels and on fields, all of which must hold."""

    requirements: tuple[Requirement, ...] = ()
    field_requirements: tuple[Requirement, ...] = ()
    """In or NotIn with one value; only `metadata.name` has a value on a node."""
    nothing: bool = False
    """The term is empty or invalid, and so matches no node."""
    errors: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str] | None, name: str) -> bool:
        if self.nothing or not all_match(self.requirements, labels or {}):
            return False
        # A node without a name (a template) has no fields, and is not asked for any.
        return not name or all(
            ((name if key == _NODE_NAME_FIELD else "") in values) == (operator == "In")
            for key, operator, values in self.field_requirements
        )


class CompiledNodeSelector(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """Terms of which one must hold; those that can match nothing are left out."""

    terms: tuple[CompiledNodeSelectorTerm, ...] = ()
    errors: tuple[str, ...] = ()
    """What is wrong with its invalid terms (`labels.join_errors` makes one text of them)."""

    def matches(self, labels: Mapping[str, str] | None, name: str) -> bool:
        return any(term.matches(labels, name) for term in self.terms)


def compile_node_selector(selector: NodeSelector) -> CompiledNodeSelector:
    """Without terms, or with only empty or invalid ones, it matches nothing."""
    terms = [
        compile_node_selector_term(term, f"nodeSelectorTerms[{index}]")
        for index, term in enumerate(selector.node_selector_terms or ())
    ]
    usable = {term for term in terms if not term.nothing}
    return CompiledNodeSelector(
        terms=tuple(sorted(usable, key=lambda t: (t.requirements, t.field_requirements))),
        errors=tuple(error for term in terms for error in term.errors),
    )


def compile_node_selector_term(term: NodeSelectorTerm, path: str = "") -> CompiledNodeSelectorTerm:
    """`path` names the term's place in its object, for its errors."""
    if not term.match_expressions and not term.match_fields:
        return CompiledNodeSelectorTerm(nothing=True)
    at = f"{path}." if path else ""
    errors: list[str] = []
    requirements = []
    for index, expression in enumerate(term.match_expressions or ()):
        where = f"{at}matchExpressions[{index}]"
        operator = _NODE_OPERATORS.get(expression.operator)
        if operator is None:
            errors.append(_unsupported(expression, where, _NODE_OPERATORS))
        elif found := requirement_errors(expression.key, operator, expression.values, where):
            errors += found
        else:
            values = tuple(sorted(set(expression.values or ())))
            requirements.append(Requirement(expression.key, operator, values))
    fields = []
    for index, expression in enumerate(term.match_fields or ()):
        where = f"{at}matchFields[{index}]"
        operator = _FIELD_OPERATORS.get(expression.operator)
        if operator is None:
            errors.append(_unsupported(expression, where, _FIELD_OPERATORS))
        elif len(expression.values or ()) != 1:
            errors.append(invalid(f"{where}.values", expression.values, "must have one element"))
        else:
            fields.append(Requirement(expression.key, operator, expression.values or ()))
    if errors:
        return CompiledNodeSelectorTerm(nothing=True, errors=tuple(errors))
    return CompiledNodeSelectorTerm(canonical(requirements), canonical(fields))


def _unsupported(
    expression: LabelSelectorRequirement, path: str, operators: Mapping[str, Operator]
) -> str:
    supported = ", ".join(f'"{name}"' for name in operators)
    return (
        f'{path}.operator: Unsupported value: "{expression.operator}": '
        f"supported values: {supported}"
    )
