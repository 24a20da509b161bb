"""Preferred terms: where a pod would rather be, and where others would rather have it.

Weights add up by topology key and by the value of the node's label, as arrays over value ids: the
weight of each of the pod's preferred terms for every pod that matches it, and the weight of each
standing pod's term that matches the incoming one. Required affinity of standing pods counts as if
it were preferred, with the weight that the arguments give it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from stowplan.api.objects import Pod
from stowplan.cluster.class_weights import add_term_weights
from stowplan.cluster.pod_affinity import PodTerms
from stowplan.cluster.table import Int64Array, NodeTable
from stowplan.cluster.views import NodeView
from stowplan.framework.forms import RowSet
from stowplan.framework.integers import MAX_NODE_SCORE
from stowplan.plugins.inter_pod_affinity.terms import KnownNamespaces


@dataclass(slots=True)
class ScoreNotes:
    """Topology key -> weight by value id of that label.

    A key is there if any term found a pod for it, even if weights cancel each other out.
    """

    weights: dict[str, Int64Array] = field(default_factory=dict)

    def add_all(self, others: Mapping[str, Int64Array], times: int = 1) -> None:
        for key, weights in others.items():
            more = weights if times == 1 else times * weights
            known = self.weights.get(key)
            self.weights[key] = more if known is None else known + more


def prepare(
    table: NodeTable,
    pod: Pod,
    terms: PodTerms,
    namespaces: KnownNamespaces,
    hard_affinity_weight: int,
) -> ScoreNotes:
    """Add up the weights that a pod's preferred terms, and others' terms about it, lead to."""
    notes = ScoreNotes()
    add_term_weights(
        table,
        terms.preferred,
        namespaces.counted_by,
        notes.weights,
        lambda: ("preferred", terms, namespaces.version),
    )
    carried = table.affinity_terms
    if len(carried.preferred) or len(carried.required):
        labels = namespaces.labels_of(pod.metadata.namespace)
        if len(carried.preferred):
            notes.add_all(carried.preferred.about(pod, labels).weights)
        if hard_affinity_weight and len(carried.required):
            notes.add_all(carried.required.about(pod, labels).weights, hard_affinity_weight)
    return notes


def score_rows(table: NodeTable, notes: ScoreNotes, rows: RowSet, out: Int64Array) -> None:
    labels = table.labels
    first, *more = [
        weights.take(labels.column(key)[rows]) for key, weights in notes.weights.items()
    ]
    out[rows] = sum(more, start=first)


def score(table: NodeTable, notes: ScoreNotes, node: NodeView) -> int:
    total = 0
    for key, weights in notes.weights.items():
        value = node.labels.get(key)
        if value is not None:
            number = table.labels.values(key).get(value)
            assert number is not None, "a node's label values are known"
            total += int(weights[number])
    return total


def normalize(scores: Int64Array) -> Int64Array:
    """From the lowest to the highest, in Go's floating point and cut off as Go does."""
    low, high = int(scores.min()), int(scores.max())
    if low == high:
        return np.zeros_like(scores)
    share = (scores - low).astype(np.float64) / float(high - low)
    return (float(MAX_NODE_SCORE) * share).astype(np.int64)
