"""Pods by topology domain, counted over those nodes that take part.

A domain is all rows with one value of a node label. Spreading asks for a counter's pods by domain,
but only nodes that carry certain labels and pass the pod's inclusion policies (`Inclusion`) take
part. Sums are kept for each (counter, label, inclusion) and follow the counter's log, so that a
decision costs the same however many pods there are. What must stay true: sums equal a recount over
the rows that take part; when nodes come or go, or their labels or taints change
(`NodeTable.layout_journal`), everything is counted again. A ghost row takes part nowhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stowplan.api.labels import NOTHING, Requirement
from stowplan.api.objects import Toleration
from stowplan.cluster.bytes_lru import BytesLru
from stowplan.cluster.counters import PodCounter
from stowplan.cluster.derived import Derived
from stowplan.cluster.label_columns import LabelColumn
from stowplan.cluster.node_masks import RequiredNodes, required_mask, tolerated_mask
from stowplan.cluster.pod_classes import CounterKey
from stowplan.cluster.work import STEP

if TYPE_CHECKING:
    from stowplan.cluster.table import BoolArray, Int64Array, NodeTable

#: What a key takes, about; the rest of it is shared with the pod and the counter.
_KEY_BYTES = 500
#: What is counted where no node takes part.
_NO_PODS = CounterKey(frozenset(), NOTHING)
_NO_DOMAINS = np.zeros(1, np.bool_)


class Inclusion(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """Which nodes take part in the spreading of a pod."""

    labels: tuple[str, ...] = ()
    """Labels that a node must carry, whatever their values."""
    required: RequiredNodes | None = None
    """The pod's node selector and affinity; None: they do not matter."""
    tolerations: tuple[Toleration, ...] | None = None
    """Hard taints must be tolerated by these; None: taints do not matter."""


class _Participants:
    """The rows that take part, and the domains that they form; good for one layout of nodes."""

    __slots__ = ("_are_domains", "_table", "is_empty", "layout", "mask")

    def __init__(self, table: NodeTable, inclusion: Inclusion) -> None:
        self._table = table
        #: The layout of nodes for which they are good.
        self.layout = table.layout_journal.end
        mask: BoolArray = table.valid.copy()
        table.labels.narrow(mask, tuple(Requirement(key, "Exists") for key in inclusion.labels))
        if inclusion.required is not None:
            mask &= required_mask(table, inclusion.required, slice(None))
        if inclusion.tolerations is not None:
            mask &= tolerated_mask(table, inclusion.tolerations, slice(None))
        self.mask = mask
        self.is_empty = not mask.any()
        #: Label -> its version, and by value id whether some participant has the value.
        self._are_domains: dict[str, tuple[int, BoolArray]] = {}

    @property
    def nbytes(self) -> int:
        return self.mask.nbytes + sum(found.nbytes for _, found in self._are_domains.values())

    def are_domains(self, label: str) -> BoolArray:
        """By value id: whether some participant has the value; the last entry is False."""
        labels = self._table.labels
        version, found = self._are_domains.get(label, (-1, _NO_DOMAINS))
        if version != labels.version(label):
            found = np.zeros(len(labels.values(label)) + 1, np.bool_)
            found[labels.column(label)[self.mask]] = True
            found[-1] = False
            if labels.carriers(label):
                self._are_domains[label] = (labels.version(label), found)
        return found


class DomainCounts(Derived[tuple[int, int]]):
    """One counter's pods by value id of a label. Read only, and good for one decision.

    Follows the counter's log; rebuilt when the layout of nodes or the label's value ids change.
    """

    __slots__ = ("_source", "are_domains", "counts", "domain_count")

    def follow(
        self, counter: PodCounter, label: LabelColumn, participants: _Participants, key: str
    ) -> bool:
        """Bring the sums up to date; True if they were counted again."""
        self._source = (counter, label, participants, key)
        return self.update((participants.layout, label.version), counter.log)

    def rebuild(self) -> None:
        counter, label, participants, key = self._source
        #: Values that a participant has. Others have no pods here, and are no domains.
        self.are_domains = participants.are_domains(key)
        self.domain_count = int(np.count_nonzero(self.are_domains))
        #: The last entry is for participants that lack the label, where `ABSENT` (-1) finds it.
        self.counts: Int64Array = np.zeros(len(self.are_domains), np.int64)
        rows, amounts = counter.arrays()
        inside = participants.mask[rows]
        np.add.at(self.counts, label.value_ids[rows[inside]], amounts[inside])

    def refresh(self, changes: list[tuple[int, int]]) -> None:
        _, label, participants, _ = self._source
        column, mask = label.value_ids, participants.mask
        for row, delta in changes:
            if mask[row]:
                self.counts[column[row]] += delta

    @property
    def participants(self) -> _Participants:
        """The rows that are counted."""
        return self._source[2]

    @property
    def label_version(self) -> int:
        """The version of the label whose value ids these are."""
        return self._source[1].version

    @property
    def nbytes(self) -> int:
        return self.counts.nbytes + self.are_domains.nbytes


class _RowColumn(Derived[tuple[int, int]]):
    """One counter's pods as a column of the table. Follows the counter's log."""

    __slots__ = ("_capacity", "_counter", "counts")

    def follow(self, counter: PodCounter, capacity: int) -> bool:
        """Bring the column up to date; True if it was built again."""
        self._counter, self._capacity = counter, capacity
        return self.update(capacity, counter.log)

    def rebuild(self) -> None:
        self.counts = self._counter.dense(self._capacity)

    def refresh(self, changes: list[tuple[int, int]]) -> None:
        for row, delta in changes:
            self.counts[row] += delta

    @property
    def nbytes(self) -> int:
        return self.counts.nbytes


class Domains:
    """All sums of one table, kept within a budget of bytes."""

    def __init__(self, table: NodeTable, *, limit_bytes: int = 32 << 20) -> None:
        self._table = table
        self._participants: BytesLru[Inclusion, _Participants] = BytesLru(limit_bytes // 4)
        self._sums: BytesLru[tuple[CounterKey, str, Inclusion], DomainCounts]
        self._sums = BytesLru(limit_bytes // 4)
        self._columns: BytesLru[CounterKey, _RowColumn] = BytesLru(limit_bytes // 2)

    @property
    def nbytes(self) -> int:
        """The memory used."""
        return self._participants.nbytes + self._sums.nbytes + self._columns.nbytes

    def advance(self, ticks: int) -> None:
        """Let time pass, so that what is no longer asked for is evicted."""
        self._participants.advance(ticks)
        self._sums.advance(ticks)
        self._columns.advance(ticks)

    def counts(self, counted: CounterKey, label: str, inclusion: Inclusion) -> DomainCounts:
        """The pods of a key by domain of a label, up to date."""
        table = self._table
        participants = self.participants(inclusion)
        if participants.is_empty:
            counted = _NO_PODS
        counter = table.counters.get(counted)
        key = (counted, label, inclusion)
        sums = self._sums.get(key) or DomainCounts()
        if sums.follow(counter, table.labels.find(label), participants, label):
            self._sums.put(key, sums, sums.nbytes + _KEY_BYTES)
            self._participants.resize(inclusion, participants.nbytes + _KEY_BYTES)
            table.work.spend(20 * STEP + 5 * counter.size + 2 * len(sums.counts))
        return sums

    def by_row(self, counted: CounterKey) -> Int64Array:
        """The pods of a key by row, over all rows. Read only, and valid for one decision."""
        counter = self._table.counters.get(counted)
        column = self._columns.get(counted) or _RowColumn()
        if column.follow(counter, self._table.capacity):
            self._columns.put(counted, column, column.nbytes + _KEY_BYTES)
            self._table.work.spend(10 * STEP + 2 * self._table.capacity)
        return column.counts

    def participants(self, inclusion: Inclusion) -> _Participants:
        """The rows that take part now."""
        found = self._participants.get(inclusion)
        if found is None or found.layout != self._table.layout_journal.end:
            found = _Participants(self._table, inclusion)
            self._participants.put(inclusion, found, found.nbytes + _KEY_BYTES)
        return found


def lowest_of(counts: Int64Array, are_domains: BoolArray) -> int | None:
    """The smallest of the domains' counts; None if there is no domain."""
    chosen = counts[are_domains]
    return int(chosen.min()) if len(chosen) else None
