"""Arrays to calculate in, kept from one decision to the next.

A column of a large cluster is large enough that getting its memory from the system and giving it
back costs more than the calculation. Whoever borrows arrays here must be done with them before
anybody else's turn: nothing else runs meanwhile, and nothing stays in them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class Scratch:
    """So many arrays of floats, as long as they are asked for."""

    def __init__(self, count: int) -> None:
        self._arrays: NDArray[np.float64] = np.empty((count, 0))

    def floats(self, size: int) -> list[NDArray[np.float64]]:
        """Of any values."""
        count, length = self._arrays.shape
        if length < size:
            self._arrays = np.empty((count, max(size, 2 * length)))
        return [array[:size] for array in self._arrays]
