"""Counts by row, and what readers of their log can rely on."""

from __future__ import annotations

import numpy as np

from stowplan.cluster.row_counts import RowCounts


def test_a_reader_that_replays_the_log_arrives_at_the_counts() -> None:
    counts = RowCounts()
    counts.start(np.array([1, 2]), np.array([3, 4]))
    position, seen = counts.position, dict(counts.counts)
    for row, delta in ((1, 1), (5, 2), (2, -4)):
        counts.change(row, delta)
    for row, delta in counts.since(position) or ():
        seen[row] = seen.get(row, 0) + delta
    assert {row: count for row, count in seen.items() if count} == counts.counts == {1: 4, 5: 2}
    assert counts.total == 6


def test_changes_are_merged_and_the_counts_stay_the_same() -> None:
    counts = RowCounts()
    counts.start(np.array([0]), np.array([1]))
    for row in range(2000):
        counts.change(row, 1)
    assert counts.counts == {0: 2} | dict.fromkeys(range(1, 2000), 1)
    assert counts.dense(2048).sum() == counts.total == 2001


def test_a_position_of_other_counts_is_unknown() -> None:
    first, second = RowCounts(), RowCounts()
    first.change(1, 1)
    second.change(1, 1)
    assert first.since(second.position) is second.since(first.position) is None


def test_counts_that_have_gone_remember_few_changes() -> None:
    counts = RowCounts()
    start = counts.position
    for _ in range(500):
        counts.change(1, 1)
        counts.change(1, -1)
    assert counts.since(start) is None
    assert len(counts.log) < 100
