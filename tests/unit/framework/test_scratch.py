"""Arrays to calculate in: as long as asked for, and the same memory again."""

from __future__ import annotations

import numpy as np

from stowplan.framework.scratch import Scratch


def test_arrays_are_apart_and_come_back() -> None:
    scratch = Scratch(2)
    one, other = scratch.floats(5)
    one[:], other[:] = 1, 2
    assert (one.tolist(), other.tolist()) == ([1] * 5, [2] * 5)
    again, _ = scratch.floats(3)
    assert np.shares_memory(again, one)
    assert len(again) == 3


def test_they_grow_when_more_is_needed() -> None:
    scratch = Scratch(1)
    (small,) = scratch.floats(2)
    (large,) = scratch.floats(1000)
    assert (len(small), len(large)) == (2, 1000)
    assert not np.shares_memory(small, large)
