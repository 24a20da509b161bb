"""Scratch arrays for calculations, reused from one decision to the next.

Allocating and freeing a column of a large cluster costs more than the calculation in it. Invariant:
a caller is done with its arrays before another caller borrows them, and no value survives in them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class Scratch:
    """A fixed number of float arrays that grow to the requested length."""

    def __init__(self, count: int) -> None:
        self._arrays: NDArray[np.float64] = np.empty((count, 0))

    def floats(self, size: int) -> NDArray[np.float64]:
        """The arrays at length `size`, uninitialized."""
        count, length = self._arrays.shape
        if length < size:
            self._arrays = np.empty((count, max(size, 2 * length)))
        return self._arrays[:, :size]
