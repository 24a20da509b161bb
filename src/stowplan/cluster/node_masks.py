"""Node selectors over whole columns: which rows does a pod's node affinity allow?

A requirement is decided once for each distinct value of its label and then looked up by value id,
so the price does not grow with the number of labels on a node. Plugins that need the same answer
(node affinity, topology spreading) share these functions instead of importing each other. For
every row that holds a node, a mask says what `matches` says of that node.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stowplan.api.objects import NodeSelector, Pod, Toleration
from stowplan.api.selectors import (
    EVERYTHING,
    CompiledNodeSelector,
    CompiledNodeSelectorTerm,
    CompiledSelector,
    Requirement,
    compile_label_set,
    compile_node_selector,
)
from stowplan.api.tolerations import HARD_EFFECTS, Tolerations
from stowplan.cluster.compiled import compile_once
from stowplan.cluster.journal import Rows
from stowplan.cluster.term_sums import FEW_TERMS, WeightedNodeTerms, term_sums

if TYPE_CHECKING:
    from stowplan.cluster.table import BoolArray, Int64Array, NodeTable

NODE_NAME_FIELD = "metadata.name"


class RequiredNodes(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """A pod's nodeSelector and required node affinity, both of which must hold."""

    labels: CompiledSelector
    terms: CompiledNodeSelector | None = None

    def matches(self, labels: Mapping[str, str] | None, name: str) -> bool:
        return self.labels.matches(labels) and (
            self.terms is None or self.terms.matches(labels, name)
        )


_ANY_NODE = RequiredNodes(EVERYTHING)


def required_nodes(pod: Pod) -> RequiredNodes:
    """What a pod demands of its node; compiled once for all pods that demand the same."""
    labels = pod.spec.node_selector
    affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
    required = affinity.required if affinity else None
    if not labels and required is None:
        return _ANY_NODE
    return compile_once("nodes", (labels, required), lambda: _compile(labels, required), pod.spec)


def _compile(labels: Mapping[str, str] | None, required: NodeSelector | None) -> RequiredNodes:
    terms = compile_node_selector(required) if required is not None else None
    return RequiredNodes(compile_label_set(labels), terms)


def required_mask(table: NodeTable, required: RequiredNodes, rows: Rows | slice) -> BoolArray:
    """Which of `rows` a pod's demands allow."""
    mask = labels_mask(table, required.labels.requirements, rows)
    if required.terms is not None:
        mask &= node_selector_mask(table, required.terms, rows)
    return mask


def node_selector_mask(
    table: NodeTable, selector: CompiledNodeSelector, rows: Rows | slice
) -> BoolArray:
    """Which of `rows` one of the selector's terms allows."""
    if len(selector.terms) > FEW_TERMS:
        every: BoolArray = term_weights(table, selector, [(1, t) for t in selector.terms], rows) > 0
        return every
    mask = np.zeros(_count(table, rows), np.bool_)
    for term in selector.terms:
        mask |= term_mask(table, term, rows)
    return mask


def term_weights(
    table: NodeTable, key: Hashable, terms: WeightedNodeTerms, rows: Rows | slice
) -> Int64Array:
    """The weights of the terms that match each of `rows`, in sum; `key` stands for the terms."""
    if len(terms) > FEW_TERMS:
        all_rows = slice(None)
        return term_sums(table, key, terms, lambda term: term_mask(table, term, all_rows))[rows]
    weights = np.zeros(_count(table, rows), np.int64)
    for weight, term in terms:
        weights += weight * term_mask(table, term, rows)
    return weights


def term_mask(table: NodeTable, term: CompiledNodeSelectorTerm, rows: Rows | slice) -> BoolArray:
    """Which of `rows` meet every requirement of a term."""
    if term.nothing:
        return np.zeros(_count(table, rows), np.bool_)
    mask = labels_mask(table, term.requirements, rows)
    for requirement in term.field_requirements:
        mask &= _field_mask(table, requirement, rows)
    return mask


def labels_mask(
    table: NodeTable, requirements: tuple[Requirement, ...], rows: Rows | slice
) -> BoolArray:
    """Which of `rows` carry labels that meet all requirements."""
    return table.labels.narrow(np.ones(_count(table, rows), np.bool_), requirements, rows)


def tolerated_mask(
    table: NodeTable, tolerations: tuple[Toleration, ...], rows: Rows | slice
) -> BoolArray:
    """Which of `rows` have no taint that keeps off a pod with these tolerations."""
    index = Tolerations(tolerations)
    by_class = np.array(
        [
            index.find_untolerated(taints, HARD_EFFECTS) is None
            for taints in table.taint_classes.values
        ]
    )
    mask: BoolArray = by_class[table.taint_class[rows]]
    return mask


def _field_mask(table: NodeTable, requirement: Requirement, rows: Rows | slice) -> BoolArray:
    """The name is the only field that a node has here; any other is empty."""
    key, operator, (wanted,) = requirement
    mask = np.zeros(_count(table, rows), np.bool_)
    if key == NODE_NAME_FIELD:
        row = table.row_of.get(wanted)
        if row is not None:
            mask[:] = np.arange(table.capacity)[rows] == row
    elif not wanted:
        mask[:] = True
    return mask if operator == "In" else ~mask


def _count(table: NodeTable, rows: Rows | slice) -> int:
    return len(range(table.capacity)[rows]) if isinstance(rows, slice) else len(rows)
