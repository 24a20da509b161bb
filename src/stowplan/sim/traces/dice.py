"""Random numbers that are the same on every machine.

Python promises the numbers of `Random.random()` for a seed and nothing else of that class, so
all draws are built on it alone. Each purpose has dice of its own: a trace with other durations
still has the same arrivals.
"""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_right
from collections.abc import Sequence
from random import Random


class Dice:
    """Draws for one purpose of one seed."""

    def __init__(self, seed: int, purpose: str) -> None:
        digest = hashlib.sha256(f"{seed}/{purpose}".encode()).digest()
        #: At least 0, less than 1.
        self.unit = Random(int.from_bytes(digest[:8], "big")).random

    def exponential(self, mean: float) -> float:
        return -math.log(1.0 - self.unit()) * mean

    def normal(self) -> float:
        """Mean 0, deviation 1 (Box and Muller's first of two)."""
        length = math.sqrt(-2.0 * math.log(1.0 - self.unit()))
        return length * math.cos(2.0 * math.pi * self.unit())

    def weighted(self, heaps: Sequence[float]) -> int:
        """An index; `heaps` are the sums of all weights up to each, the last one of all."""
        return bisect_right(heaps, self.unit() * heaps[-1], hi=len(heaps) - 1)
