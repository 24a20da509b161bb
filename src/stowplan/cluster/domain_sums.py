"""Counts by row added up by topology domain: all rows with the same value of a node label.

Affinity asks for the sums of a counter, or of a group of terms, over one topology key. A few rows
are added up when asked; of many, the sums are kept beside the counts and follow their log. A ghost
row belongs to no domain. What must stay true: sums equal a recount over the label column.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stowplan.cluster.row_counts import RowCounts
from stowplan.cluster.table import Int64Array, NodeTable

#: Up to so many rows, adding up anew is quicker than keeping sums (and needs no memory).
FEW_ROWS = 48


@dataclass(slots=True)
class DomainSums:
    """Sums by value id of the label; the last entry, for nodes without the label, stays 0."""

    sums: Int64Array
    position: int
    label_version: int


def blank_sums(table: NodeTable, key: str) -> Int64Array:
    """Zeros by value id, and a last one where `ABSENT` (-1) looks."""
    return np.zeros(len(table.labels.values(key)) + 1, np.int64)


def add_domain_sums(
    table: NodeTable, source: RowCounts, key: str, into: Int64Array, weight: int = 1
) -> bool:
    """Add the counts to `into`, by value id of a label; False if no row has the label."""
    counts = source.counts
    if not counts:
        return False
    column = table.labels.column(key)
    if len(counts) == 1:
        # By far the commonest: a term of one pod.
        ((row, count),) = counts.items()
        value = column[row]
        if value < 0:
            return False
        into[value] += weight * count
        return True
    if len(counts) <= FEW_ROWS:
        values = column[list(counts)]
        np.add.at(into, values, weight * np.array(list(counts.values()), np.int64))
        into[-1] = 0
        return bool(values.max() >= 0)
    sums = _kept_sums(table, source, key)
    into += sums if weight == 1 else weight * sums
    return bool(sums.any())


def _kept_sums(table: NodeTable, source: RowCounts, key: str) -> Int64Array:
    column = table.labels.column(key)
    label_version = table.labels.version(key)
    kept = source.domain_sums.get(key)
    changes = None
    if kept is not None and kept.label_version == label_version:
        changes = source.since(kept.position)
    if kept is None or changes is None:
        sums = blank_sums(table, key)
        rows = np.fromiter(source.counts, np.intp, len(source.counts))
        counts = np.fromiter(source.counts.values(), np.int64, len(source.counts))
        np.add.at(sums, column[rows], counts)
        sums[-1] = 0
        source.domain_sums[key] = DomainSums(sums, source.position, label_version)
        return sums
    for row, delta in changes:
        value = column[row]
        if value >= 0:
            kept.sums[value] += delta
    kept.position = source.position
    return kept.sums
