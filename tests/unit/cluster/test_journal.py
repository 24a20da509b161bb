"""The log of changed rows."""

from __future__ import annotations

from stowplan.cluster.journal import Journal


def since(journal: Journal, position: int) -> list[int] | None:
    rows = journal.since(position)
    return None if rows is None else rows.tolist()


def test_reader_gets_each_changed_row_once_in_order() -> None:
    journal = Journal()
    start = journal.end
    for row in (5, 3, 5, 9, 3):
        journal.mark(row)
    assert since(journal, start) == [3, 5, 9]
    assert since(journal, journal.end - 1) == [3]
    assert since(journal, journal.end) == []


def test_old_entries_are_dropped_and_old_readers_told() -> None:
    journal = Journal(limit=4)
    for row in range(8):
        journal.mark(row)
    assert since(journal, 0) == list(range(8))
    journal.mark(8)
    assert journal.end == 9
    assert since(journal, 0) is None
    assert since(journal, 4) is None
    assert since(journal, 5) == [5, 6, 7, 8]


def test_positions_never_go_back() -> None:
    journal = Journal(limit=2)
    seen = [journal.end]
    for row in range(20):
        journal.mark(row)
        seen.append(journal.end)
    assert seen == list(range(21))
