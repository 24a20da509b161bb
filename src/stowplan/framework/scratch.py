"""Arrays to calculate in, kept from one decision to the next.

A column of a large cluster is large enough that getting its memory from the system and giving it
back costs more than the calculation. Whoever borrows arrays here must be done with them before
anybody else's turn: nothing else runs meanwhile, and nothing stays in them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


class Scratch:
    """So many arrays of integers and of floats, as long as they are asked for."""

    def __init__(self, *, ints: int = 0, floats: int = 0) -> None:
        self._ints: NDArray[np.int64] = np.empty((ints, 0), np.int64)
        self._floats: NDArray[np.float64] = np.empty((floats, 0), np.float64)

    def ints(self, size: int) -> list[NDArray[np.int64]]:
        """Integers of any values."""
        self._ints = _at_least(self._ints, size)
        return [array[:size] for array in self._ints]

    def floats(self, size: int) -> list[NDArray[np.float64]]:
        """Floats of any values."""
        self._floats = _at_least(self._floats, size)
        return [array[:size] for array in self._floats]


def _at_least(arrays: NDArray[Any], size: int) -> NDArray[Any]:
    count, length = arrays.shape
    if length >= size:
        return arrays
    return np.empty((count, max(size, 2 * length)), arrays.dtype)
