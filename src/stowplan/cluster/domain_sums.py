"""Counts by row added up by topology domain: all rows with the same value of a node label.

Affinity asks for the sums of a counter over one topology key. A few rows are added up when asked;
of many, the sums are kept beside the counts and follow their log. A ghost row belongs to no domain.
What must stay true: sums equal a recount over the label column.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stowplan.cluster.row_counts import RowCounts
from stowplan.cluster.table import Int64Array, NodeTable
from stowplan.cluster.work import STEP

#: Up to so many rows, adding up anew is quicker than keeping sums (and needs no memory).
FEW_ROWS = 48


@dataclass(slots=True)
class DomainSums:
    """Sums by value id of the label; the last entry, for nodes without the label, stays 0."""

    sums: Int64Array
    #: All of them together.
    total: int
    position: int
    label_version: int


def add_domain_sums(
    table: NodeTable, source: RowCounts, key: str, into: dict[str, Int64Array], weight: int = 1
) -> None:
    """Add the counts, by value id of a label, to those that `into` has for the label.

    The last entry, where `ABSENT` (-1) looks, is 0. Nothing is added if no row has the label. The
    arrays of `into` may be the kept ones: read only, and good for one decision.
    """
    sums = _sums(table, source, key)
    if sums is None:
        return
    if weight != 1:
        sums = weight * sums
    others = into.get(key)
    into[key] = sums if others is None else others + sums


def _sums(table: NodeTable, source: RowCounts, key: str) -> Int64Array | None:
    if not source.total or not table.labels.carriers(key):
        return None
    if source.size > FEW_ROWS:
        kept = _kept_sums(table, source, key)
        return kept.sums if kept.total else None
    rows, amounts = source.arrays()
    values = table.labels.column(key)[rows]
    if values.max() < 0:
        return None
    sums = _blank_sums(table, key)
    np.add.at(sums, values, amounts)
    sums[-1] = 0
    return sums if sums.any() else None


def _blank_sums(table: NodeTable, key: str) -> Int64Array:
    return np.zeros(len(table.labels.values(key)) + 1, np.int64)


def _kept_sums(table: NodeTable, source: RowCounts, key: str) -> DomainSums:
    label = table.labels.find(key)
    column, label_version = label.value_ids, label.version
    kept = source.domain_sums.get(key)
    changes = None
    if kept is not None and kept.label_version == label_version:
        changes = source.since(kept.position)
    if kept is None or changes is None:
        sums = _blank_sums(table, key)
        rows, amounts = source.arrays()
        np.add.at(sums, column[rows], amounts)
        sums[-1] = 0
        kept = DomainSums(sums, int(sums.sum()), source.position, label_version)
        source.domain_sums[key] = kept
        source.has_grown = True
        table.work.spend(20 * STEP + 10 * len(rows) + len(sums))
        return kept
    for row, delta in changes:
        value = column[row]
        if value >= 0:
            kept.sums[value] += delta
            kept.total += delta
    kept.position = source.position
    return kept
