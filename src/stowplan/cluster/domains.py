"""Pods by topology domain, counted over those nodes that take part.

A domain is all rows with one value of a node label. Spreading asks for a counter's pods by domain,
but only nodes that carry certain labels and pass the pod's inclusion policies (`Inclusion`) take
part. Sums are kept for each (counter, label, inclusion) and follow the counter's log, so that a
decision costs the same however many pods there are. What must stay true: sums equal a recount over
the rows that take part; when nodes come or go, or their labels or taints change
(`NodeTable.layout_version`), everything is counted anew. A ghost row takes part nowhere.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from stowplan.api.objects import Toleration
from stowplan.cluster.counters import CounterKey, PodCounter
from stowplan.cluster.node_masks import RequiredNodes, required_mask, tolerated_mask

if TYPE_CHECKING:
    from stowplan.cluster.table import BoolArray, Int64Array, NodeTable

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

#: More changes than this are not replayed one by one: counting anew is quicker.
_MANY_CHANGES = 64


class Inclusion(NamedTuple):
    """Which nodes take part in the spreading of a pod."""

    #: Labels that a node must carry, whatever their values.
    labels: tuple[str, ...] = ()
    #: The pod's node selector and affinity; None: they do not matter.
    required: RequiredNodes | None = None
    #: Hard taints must be tolerated by these; None: taints do not matter.
    tolerations: tuple[Toleration, ...] | None = None


class _Participants:
    """The rows that take part, and the domains that they form; good for one layout of nodes."""

    __slots__ = ("_are_domains", "_table", "capacity", "layout_version", "mask")

    def __init__(self, table: NodeTable, inclusion: Inclusion) -> None:
        self._table = table
        self.layout_version = table.layout_version
        self.capacity = table.capacity
        mask: BoolArray = table.valid.copy()
        for label in inclusion.labels:
            mask &= table.labels.column(label) >= 0
        if inclusion.required is not None:
            mask &= required_mask(table, inclusion.required, slice(None))
        if inclusion.tolerations is not None:
            mask &= tolerated_mask(table, inclusion.tolerations, slice(None))
        self.mask = mask
        self._are_domains: dict[str, BoolArray] = {}

    @property
    def is_stale(self) -> bool:
        # A ghost row may widen the table without a change of its layout.
        table = self._table
        return self.layout_version != table.layout_version or self.capacity != table.capacity

    def are_domains(self, label: str) -> BoolArray:
        """By value id: whether some participant has the value; the last entry is False."""
        found = self._are_domains.get(label)
        if found is None:
            found = np.zeros(len(self._table.labels.values(label)) + 1, np.bool_)
            found[self._table.labels.column(label)[self.mask]] = True
            found[-1] = False
            self._are_domains[label] = found
        return found


class DomainCounts:
    """One counter's pods by value id of a label. Read only, and good for one decision."""

    __slots__ = ("_position", "are_domains", "counter", "counts", "domain_count", "participants")

    def __init__(
        self, table: NodeTable, counter: PodCounter, label: str, participants: _Participants
    ) -> None:
        self.counter = counter
        self.participants = participants
        #: Values that a participant has. Others have no pods here, and are no domains.
        self.are_domains = participants.are_domains(label)
        self.domain_count = int(np.count_nonzero(self.are_domains))
        #: The last entry is for participants that lack the label, where `ABSENT` (-1) finds it.
        self.counts: Int64Array = np.zeros(len(self.are_domains), np.int64)
        rows = np.fromiter(counter.counts, np.intp, len(counter.counts))
        amounts = np.fromiter(counter.counts.values(), np.int64, len(counter.counts))
        inside = participants.mask[rows]
        np.add.at(self.counts, table.labels.column(label)[rows[inside]], amounts[inside])
        self._position = counter.position

    def follow(self, table: NodeTable, label: str) -> bool:
        """Catch up with the counter; False when too much happened since."""
        changes = self.counter.since(self._position)
        if changes is None or len(changes) > _MANY_CHANGES:
            return False
        if changes:
            column, mask = table.labels.column(label), self.participants.mask
            for row, delta in changes:
                if mask[row]:
                    self.counts[column[row]] += delta
            self._position = self.counter.position
        return True


class _RowColumn:
    """One counter's pods as a column of the table."""

    __slots__ = ("_position", "counter", "counts")

    def __init__(self, counter: PodCounter, capacity: int) -> None:
        self.counter = counter
        self.counts = counter.dense(capacity)
        self._position = counter.position

    def follow(self) -> bool:
        """Catch up with the counter; False when too much happened since."""
        changes = self.counter.since(self._position)
        if changes is None or len(changes) > _MANY_CHANGES:
            return False
        for row, delta in changes:
            self.counts[row] += delta
        self._position = self.counter.position
        return True


class Domains:
    """All sums of one table; the least recently asked for are dropped when there are too many."""

    def __init__(self, table: NodeTable, *, limit: int = 1024) -> None:
        self._table = table
        self._limit = limit
        self._participants: OrderedDict[Inclusion, _Participants] = OrderedDict()
        self._sums: OrderedDict[tuple[CounterKey, str, Inclusion], DomainCounts] = OrderedDict()
        self._columns: OrderedDict[CounterKey, _RowColumn] = OrderedDict()

    def counts(self, counted: CounterKey, label: str, inclusion: Inclusion) -> DomainCounts:
        """The pods of a key by domain of a label, up to date."""
        table = self._table
        counter = table.counters.get(counted)
        participants = self.participants(inclusion)
        key = (counted, label, inclusion)
        sums = self._sums.get(key)
        if (
            sums is None
            or sums.counter is not counter
            or sums.participants is not participants
            or not sums.follow(table, label)
        ):
            sums = DomainCounts(table, counter, label, participants)
        self._keep(self._sums, key, sums)
        return sums

    def by_row(self, counted: CounterKey) -> Int64Array:
        """The pods of a key by row, whoever takes part. Read only, and good for one decision."""
        counter = self._table.counters.get(counted)
        column = self._columns.get(counted)
        if (
            column is None
            or column.counter is not counter
            or len(column.counts) != self._table.capacity
            or not column.follow()
        ):
            column = _RowColumn(counter, self._table.capacity)
        self._keep(self._columns, counted, column)
        return column.counts

    def participants(self, inclusion: Inclusion) -> _Participants:
        """The rows that take part now."""
        found = self._participants.get(inclusion)
        if found is None or found.is_stale:
            found = _Participants(self._table, inclusion)
        self._keep(self._participants, inclusion, found)
        return found

    def _keep(self, recent: OrderedDict[K, V], key: K, value: V) -> None:
        recent[key] = value
        recent.move_to_end(key)
        if len(recent) > self._limit:
            recent.popitem(last=False)


def lowest_of(counts: Int64Array, are_domains: BoolArray) -> int | None:
    """The smallest of the domains' counts; None if there is no domain."""
    chosen = counts[are_domains]
    return int(chosen.min()) if len(chosen) else None
