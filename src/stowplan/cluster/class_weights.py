"""The terms of one pod added up over classes of pods, for pods with very many terms.

A few terms are looked up in counters, which follow every change. Thousands of them would evict all
other counters, so each term is evaluated once over the classes of pods (`ClassWeights`), and one
pass over the standing pods then gives the sums by domain. The addition can be interrupted by
`Work.spend` after any term and goes on there: pods that come and go meanwhile do not matter, only
new classes are evaluated against the terms that were done before.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from stowplan.cluster.derived import Derived
from stowplan.cluster.domain_sums import add_domain_sums
from stowplan.cluster.pod_affinity import AffinityTerm
from stowplan.cluster.pod_classes import CounterKey, PodClass, PodClasses
from stowplan.cluster.work import STEP

if TYPE_CHECKING:
    from stowplan.cluster.table import Int64Array, NodeTable

WeightedTerms: TypeAlias = Sequence[tuple[int, AffinityTerm]]

#: Up to so many terms are looked up in counters.
FEW_TERMS: Final = 64


class ClassWeights(Derived[PodClass]):
    """Weights of terms by class of pods. Follows the log of new classes."""

    #: With more new classes, all terms are evaluated again.
    MOST_CHANGES = 32

    def __init__(self, classes: PodClasses) -> None:
        super().__init__(classes.capacity, (classes.new_classes,))
        #: How many terms are added up.
        self._done = 0
        self._weights: Int64Array = np.zeros(classes.capacity, np.int64)
        self._is_matched = np.zeros(classes.capacity, np.bool_)

    @property
    def nbytes(self) -> int:
        return self._weights.nbytes + self._is_matched.nbytes

    def add(
        self,
        classes: PodClasses,
        terms: WeightedTerms,
        counted_by: Callable[[AffinityTerm], CounterKey],
    ) -> None:
        """Add up the terms that are missing; DecisionDeferred interrupts it."""
        while self._done < len(terms):
            weight, term = terms[self._done]
            chosen = classes.matching(counted_by(term))
            self._weights[chosen] += weight
            self._is_matched[chosen] = True
            self._done += 1
            classes.work.spend(15 * STEP + 2 * len(chosen))

    def include(
        self,
        new: Sequence[PodClass],
        classes: PodClasses,
        terms: WeightedTerms,
        counted_by: Callable[[AffinityTerm], CounterKey],
    ) -> None:
        """Add up the same terms for classes that are new."""
        for each in new:
            # An index may have belonged to another class before.
            self._weights[each.index] = 0
            self._is_matched[each.index] = False
            for weight, term in terms[: self._done]:
                if each.is_counted_by(counted_by(term)):
                    self._weights[each.index] += weight
                    self._is_matched[each.index] = True
        self.confirm(classes.capacity)
        classes.work.spend(STEP * len(new) * self._done)

    def sums(self, table: NodeTable, topology_key: str) -> Int64Array | None:
        """Weights times pods by value id of a label; None if no term matches a pod there."""
        places = table.pod_classes.places()
        values = table.labels.column(topology_key)[places.rows]
        inside = self._is_matched[places.classes] & (places.counts > 0) & (values >= 0)
        if not inside.any():
            return None
        sums = np.zeros(len(table.labels.values(topology_key)) + 1, np.int64)
        weights = self._weights[places.classes[inside]] * places.counts[inside]
        np.add.at(sums, values[inside], weights)
        return sums


def add_term_weights(
    table: NodeTable,
    terms: WeightedTerms,
    counted_by: Callable[[AffinityTerm], CounterKey],
    into: dict[str, Int64Array],
    identity: Callable[[], Hashable],
) -> None:
    """Add, by topology key and domain, the weight of each term for every pod that it matches.

    `identity` returns a value that stands for the terms and for what `counted_by` says of them: of
    many terms, what was added up is kept under it.
    """
    if len(terms) <= FEW_TERMS:
        for weight, term in terms:
            counter = table.counters.get(counted_by(term))
            add_domain_sums(table, counter, term.topology_key, into, weight)
        return
    by_key: dict[str, list[tuple[int, AffinityTerm]]] = {}
    for weight, term in terms:
        if table.labels.carriers(term.topology_key):
            by_key.setdefault(term.topology_key, []).append((weight, term))
    for topology_key, chosen in by_key.items():
        key = (identity(), topology_key)
        sums = _class_weights(table, key, chosen, counted_by).sums(table, topology_key)
        if sums is not None:
            known = into.get(topology_key)
            into[topology_key] = sums if known is None else known + sums


def _class_weights(
    table: NodeTable,
    key: Hashable,
    terms: WeightedTerms,
    counted_by: Callable[[AffinityTerm], CounterKey],
) -> ClassWeights:
    classes = table.pod_classes
    found = table.class_weights.get(key)
    new = None if found is None else found.changes(classes.capacity, (classes.new_classes,))
    if found is None or new is None or len(new) > found.MOST_CHANGES:
        found = ClassWeights(classes)
        table.class_weights.put(key, found, found.nbytes)
    elif new:
        found.include(new, classes, terms, counted_by)
    found.add(classes, terms, counted_by)
    return found
