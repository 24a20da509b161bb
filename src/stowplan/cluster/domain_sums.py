"""Counts by row added up by topology domain: all rows with the same value of a node label.

Affinity asks for the sums of a counter over one topology key. A few rows are added up when asked;
of many, the sums are kept beside the counts and follow their log. A ghost row belongs to no domain.
What must stay true: sums equal a recount over the label column.
"""

from __future__ import annotations

import numpy as np

from stowplan.cluster.derived import Derived
from stowplan.cluster.label_columns import LabelColumn
from stowplan.cluster.row_counts import RowCounts
from stowplan.cluster.table import Int64Array, NodeTable
from stowplan.cluster.work import STEP

#: Up to so many rows, adding up each time is faster than keeping sums (and needs no memory).
FEW_ROWS = 48


class DomainSums(Derived[tuple[int, int]]):
    """Sums by value id of the label; the last entry, for nodes without the label, stays 0.

    Follows the log of the counts; rebuilt when the label's value ids change.
    """

    __slots__ = ("_label", "_source", "sums", "total")

    def follow(self, source: RowCounts, label: LabelColumn) -> bool:
        """Bring the sums up to date; True if they were added up again."""
        self._source, self._label = source, label
        return self.update(label.version, source.log)

    def rebuild(self) -> None:
        rows, amounts = self._source.arrays()
        self.sums: Int64Array = np.zeros(len(self._label.values) + 1, np.int64)
        np.add.at(self.sums, self._label.value_ids[rows], amounts)
        self.sums[-1] = 0
        #: All of them together.
        self.total = int(self.sums.sum())

    def refresh(self, changes: list[tuple[int, int]]) -> None:
        column = self._label.value_ids
        for row, delta in changes:
            value = column[row]
            if value >= 0:
                self.sums[value] += delta
                self.total += delta

    @property
    def nbytes(self) -> int:
        return self.sums.nbytes


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
    sums = np.zeros(len(table.labels.values(key)) + 1, np.int64)
    np.add.at(sums, values, amounts)
    sums[-1] = 0
    return sums if sums.any() else None


def _kept_sums(table: NodeTable, source: RowCounts, key: str) -> DomainSums:
    kept = source.domain_sums.get(key) or DomainSums()
    if kept.follow(source, table.labels.find(key)):
        source.domain_sums[key] = kept
        source.has_grown = True
        table.work.spend(20 * STEP + 10 * source.size + len(kept.sums))
    return kept
