"""`Derived`: a value computed from other data, kept up to date through logs of changes.

A derived value has two kinds of sources:

  generation   a number or a tuple of numbers that must stay equal; if it differs, rebuild.
               Mostly the position in a journal; else the version of a label's value ids, of images
               or of the catalog, which have no log, or the length of an array
  logs         `ChangeLog`s whose new entries are applied one by one (`refresh`)

The position in a log is the generation number of its owner. Positions of two logs are never equal
(see `ChangeLog`), so a value that belongs to another table, or to a counter that was evicted and
counted again, is rebuilt without a further check. A reader pays for changes, never for a scan.

What must stay true: after `update`, the value equals what `rebuild` computes from nothing.
`python -m pytest tests/unit/cluster/test_derived.py` states the rules.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, ClassVar, Final, Generic, TypeAlias, TypeVar

from stowplan.cluster.journal import ChangeLog, Journal

if TYPE_CHECKING:
    from stowplan.cluster.table import NodeTable

E = TypeVar("E")
Logs: TypeAlias = tuple[ChangeLog[E], ...]

#: The generation of a value that must be rebuilt.
_STALE: Final = object()
#: Up to so many rows are always refreshed; above, a quarter of all rows is as dear as a rebuild.
_FEW_ROWS: Final = 4


class Derived(Generic[E]):
    """Base class. Override `rebuild` and `refresh` and call `update`, or call `changes` alone."""

    __slots__ = ("_generation", "_positions")

    #: More entries than this are not applied one by one: a rebuild is quicker.
    MOST_CHANGES: ClassVar[int] = 64

    def __init__(self, generation: Hashable = _STALE, logs: Logs[E] = ()) -> None:
        """Without arguments the value is computed by the first `update`; else it is up to date."""
        self._generation = generation
        self._positions = [log.end for log in logs]

    def rebuild(self) -> None:
        """Compute the value from nothing."""
        raise NotImplementedError

    def refresh(self, changes: list[E]) -> None:
        """Apply the entries of the logs since the last update. Default: rebuild."""
        self.rebuild()

    @property
    def nbytes(self) -> int:
        """What the value takes in memory, about."""
        return 0

    def update(self, generation: Hashable, *logs: ChangeLog[E]) -> bool:
        """Bring the value up to date; True if it was rebuilt, and so may have another size."""
        changes = self.changes(generation, logs)
        if changes is not None and len(changes) <= self.MOST_CHANGES:
            if changes:
                self.refresh(changes)
                self._generation = generation
            return False
        self._generation = _STALE
        self.rebuild()
        self.stamp(generation, logs)
        return True

    def stamp(self, generation: Hashable, logs: Logs[E]) -> None:
        """Record that the value is up to date with its sources."""
        self._generation = generation
        self._positions = [log.end for log in logs]

    def changes(self, generation: Hashable, logs: Logs[E]) -> list[E] | None:
        """The entries since the value was up to date; None if it must be rebuilt.

        If there are any, the value is stale until `confirm`: whatever keeps the caller from
        applying them (a plugin fails, the decision is deferred), the value is rebuilt then.
        """
        if generation != self._generation:
            return None
        found: list[E] = []
        for place, log in enumerate(logs):
            position = self._positions[place]
            if position != log.end:
                entries = log.entries_since(position)
                self._generation = _STALE
                if entries is None:
                    return None
                self._positions[place] = log.end
                found = found + entries if found else entries
        return found

    def confirm(self, generation: Hashable) -> None:
        """State that the entries which `changes` returned are applied."""
        self._generation = generation


class DerivedRows(Derived[int]):
    """A value by row: rebuilt when a node changes, refreshed where pods change.

    Owners replace it by a new one instead of calling `rebuild`, as it is made for one pod's needs.
    """

    __slots__ = ("_journals",)

    def __init__(self, table: NodeTable, *, reads_details: bool = False) -> None:
        journals: tuple[Journal, ...] = (table.pod_journal,)
        if reads_details:
            journals = (table.pod_journal, table.detail_journal)
        super().__init__(table.node_journal.end, journals)
        self._journals = journals

    @property
    def reads_details(self) -> bool:
        """Whether a change of any field of a pod is a change of its row."""
        return len(self._journals) > 1

    def follow_details(self, table: NodeTable) -> None:
        """Treat a change of any field of a pod as a change of its row from now on."""
        self._journals = (table.pod_journal, table.detail_journal)
        self.stamp(self._generation, self._journals)

    def has_same_nodes(self, table: NodeTable) -> bool:
        """Whether no node has come, changed or gone since the value was computed."""
        return self._generation == table.node_journal.end

    def changed_rows(self, table: NodeTable) -> list[int] | None:
        """Rows whose pods changed; None: rebuild the value. Call `confirm_rows` when it is done."""
        journals = self._journals
        return few_rows(self.changes(table.node_journal.end, journals), journals, table)

    def confirm_rows(self, table: NodeTable) -> None:
        """State that the rows which `changed_rows` returned are up to date."""
        self._generation = table.node_journal.end


def few_rows(
    rows: list[int] | None, journals: tuple[Journal, ...], table: NodeTable
) -> list[int] | None:
    """Distinct rows in order; None if they are unknown, or so many that a rebuild is quicker."""
    if rows is None or len(rows) <= 1:
        return rows
    if len(journals) > 1:
        rows = sorted(set(rows))
    if len(rows) > _FEW_ROWS and len(rows) * 4 >= len(table) + 16:
        return None
    return rows
