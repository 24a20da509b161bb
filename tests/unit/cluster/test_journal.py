"""The log of changed rows."""

from __future__ import annotations

from stowplan.cluster.journal import Journal


def test_reader_gets_each_changed_row_once_in_order() -> None:
    journal = Journal()
    start = journal.end
    for row in (5, 3, 5, 9, 3):
        journal.mark(row)
    assert journal.entries_since(start) == [3, 5, 9]
    assert journal.entries_since(journal.end - 1) == [3]
    assert journal.entries_since(journal.end) == []
    journal.mark(7)
    assert journal.entries_since(start) == [3, 5, 7, 9], "the answer before is out of date"


def test_old_entries_are_dropped_and_old_readers_told() -> None:
    journal = Journal(limit=4)
    start = journal.end
    for row in range(8):
        journal.mark(row)
    assert journal.entries_since(start) == list(range(8))
    journal.mark(8)
    assert journal.end == start + 9
    assert journal.entries_since(start) is None
    assert journal.entries_since(start + 4) is None
    assert journal.entries_since(start + 5) == [5, 6, 7, 8]


def test_positions_never_go_back() -> None:
    journal = Journal(limit=2)
    seen = [journal.end]
    for row in range(20):
        journal.mark(row)
        seen.append(journal.end)
    assert seen == list(range(seen[0], seen[0] + 21))


def test_a_position_of_another_journal_is_unknown_whichever_is_older() -> None:
    older, newer = Journal(), Journal()
    older.mark(1)
    newer.mark(2)
    assert older.entries_since(newer.end) is None
    assert newer.entries_since(older.end) is None
    assert older.count_since(newer.end) is newer.count_since(older.end) is None


def test_a_restart_makes_every_reader_start_over() -> None:
    journal = Journal()
    journal.mark(1)
    current = journal.end
    journal.restart()
    assert journal.entries_since(current) is None
    assert journal.end != current
    assert journal.entries_since(journal.end) == []
