"""Arrays to calculate in: as long as asked for, and the same memory again."""

from __future__ import annotations

import numpy as np

from stowplan.framework.integers import percent_in_place, percent_of
from stowplan.framework.scratch import Scratch


def test_arrays_are_apart_and_come_back() -> None:
    scratch = Scratch(ints=2, floats=1)
    one, other = scratch.ints(5)
    one[:], other[:] = 1, 2
    assert (one.tolist(), other.tolist()) == ([1] * 5, [2] * 5)
    again, _ = scratch.ints(3)
    assert np.shares_memory(again, one)
    assert len(again) == 3
    (floats,) = scratch.floats(4)
    assert floats.dtype == np.float64


def test_they_grow_when_more_is_needed() -> None:
    scratch = Scratch(ints=1)
    (small,) = scratch.ints(2)
    (large,) = scratch.ints(1000)
    assert (len(small), len(large)) == (2, 1000)
    assert not np.shares_memory(small, large)


def test_percentages_in_place_are_the_same() -> None:
    for whole in (7, 2**45 + 3, 2**46, 2**60):
        parts = np.array([0, 1, whole // 3, whole // 2, whole - 1, whole], np.int64)
        wholes = np.full(len(parts), whole, np.int64)
        expected = percent_of(parts, wholes)
        percent_in_place(parts, wholes, np.empty(len(parts)), whole)
        assert parts.tolist() == expected.tolist()
