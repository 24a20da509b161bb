"""The weights of very many node selector terms by row, for pods with thousands of terms.

A few terms are evaluated whenever they are asked for. Thousands take longer than a decision may, so
they are added up one by one in a value that is cached: the addition can be interrupted by
`Work.spend` after any term and goes on there. Nodes that change meanwhile are evaluated against the
terms that were done before.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from stowplan.api.selectors import CompiledNodeSelectorTerm
from stowplan.cluster.derived import Derived
from stowplan.cluster.work import STEP

if TYPE_CHECKING:
    from stowplan.cluster.table import BoolArray, Int64Array, NodeTable

WeightedNodeTerms: TypeAlias = Sequence[tuple[int, CompiledNodeSelectorTerm]]

#: Up to so many terms are evaluated at once.
FEW_TERMS: Final = 64
#: The size of a term in a cache key, about.
_TERM_BYTES: Final = 400


class TermSums(Derived[int]):
    """Sums by row. Follows the journal of nodes."""

    #: With more changed nodes, all terms are evaluated again.
    MOST_CHANGES = 16

    def __init__(self, table: NodeTable) -> None:
        super().__init__(table.capacity, (table.node_journal,))
        #: How many terms are added up.
        self._done = 0
        self.sums: Int64Array = np.zeros(table.capacity, np.int64)

    def add(
        self,
        table: NodeTable,
        terms: WeightedNodeTerms,
        mask_of: Callable[[CompiledNodeSelectorTerm], BoolArray],
    ) -> None:
        """Add up the terms that are missing; DecisionDeferred interrupts it."""
        while self._done < len(terms):
            weight, term = terms[self._done]
            self.sums += weight * mask_of(term)
            self._done += 1
            table.work.spend(10 * STEP + 4 * table.capacity)

    def renew(self, table: NodeTable, rows: Sequence[int], terms: WeightedNodeTerms) -> None:
        """Add up the same terms for nodes that changed."""
        for row in set(rows):
            node = table.nodes[row]
            self.sums[row] = 0
            if node is not None:
                labels, name = node.metadata.labels, node.name
                done = terms[: self._done]
                self.sums[row] = sum(weight for weight, term in done if term.matches(labels, name))
        self.confirm(table.capacity)
        table.work.spend(STEP * len(rows) * self._done)


def term_sums(
    table: NodeTable,
    key: Hashable,
    terms: WeightedNodeTerms,
    mask_of: Callable[[CompiledNodeSelectorTerm], BoolArray],
) -> Int64Array:
    """The weights of the terms that match, by row. Read only, and good for one decision.

    `key` stands for the terms. Slots without a node have no meaning.
    """
    found = table.term_sums.get(key)
    changed = None if found is None else found.changes(table.capacity, (table.node_journal,))
    if found is None or changed is None or len(changed) > found.MOST_CHANGES:
        found = TermSums(table)
        table.term_sums.put(key, found, found.sums.nbytes + _TERM_BYTES * len(terms))
    elif changed:
        found.renew(table, changed, terms)
    found.add(table, terms, mask_of)
    return found.sums
