"""Integer rules of kube-scheduler on columns, in one place.

Go divides towards zero and rounds half away from zero; numpy floors and rounds half to even. All
inputs here are int64 columns in canonical units.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stowplan.cluster.table import Int64Array

MAX_NODE_SCORE = 100
MIN_NODE_SCORE = 0

#: Below this, a float64 quotient of at most 100 never rounds up to the next integer.
_EXACT_IN_FLOAT = 1 << 46


def percent_of(part: Int64Array, whole: Int64Array) -> Int64Array:
    """`part * 100 / whole` rounded down, for 0 <= part <= whole; 0 where whole is 0."""
    divisor = np.maximum(whole, 1)
    if divisor.size and int(divisor.max()) < _EXACT_IN_FLOAT:
        # Float division is several times faster than int64 division and exact in this range.
        return (part * 100.0 / divisor).astype(np.int64)
    # Too large for part * 100 to be safe in int64 beyond 2**56: split off the whole hundredths.
    quotient, rest = np.divmod(part, divisor)
    step = np.maximum(divisor // 100, 1)
    exact = np.where(divisor < (1 << 56), rest * 100 // divisor, rest // step)
    result: Int64Array = quotient * 100 + exact
    return result


def divide_towards_zero(numerator: Int64Array, denominator: int) -> Int64Array:
    """Go's integer division."""
    magnitude = np.abs(numerator) // abs(denominator)
    negative = (numerator < 0) != (denominator < 0)
    result: Int64Array = np.where(negative, -magnitude, magnitude)
    return result


def round_half_away(values: NDArray[np.float64]) -> Int64Array:
    """Go's math.Round."""
    return np.trunc(values + np.copysign(0.5, values)).astype(np.int64)


def default_normalize(scores: Int64Array, *, reverse: bool) -> Int64Array:
    """Scale raw scores to 0..100 by their maximum, upside down if `reverse`."""
    highest = int(scores.max(initial=0))
    if highest == 0:
        return np.full_like(scores, MAX_NODE_SCORE) if reverse else scores
    scaled = scores * MAX_NODE_SCORE // highest
    return MAX_NODE_SCORE - scaled if reverse else scaled
