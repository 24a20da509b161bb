"""Integer rules of kube-scheduler on columns, in one place.

Go divides towards zero and rounds half away from zero; numpy floors and rounds half to even. All
inputs here are int64 columns in canonical units.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stowplan.api.quantity import INT64_MAX
from stowplan.cluster.table import Int64Array

MAX_NODE_SCORE = 100
MIN_NODE_SCORE = 0

#: Below this, a float64 quotient of at most 100 never rounds up to the next integer.
EXACT_IN_FLOAT = 1 << 46
#: Below this, a hundred times as much still fits an int64.
_EXACT_IN_INT64 = 1 << 56


def percent_of(part: Int64Array, whole: Int64Array) -> Int64Array:
    """`part * 100 / whole` rounded down, for 0 <= part <= whole; 0 where whole is 0.

    DIVERGES: exact for every int64. Upstream's product overflows above some 80 PiB a node.
    """
    divisor = np.maximum(whole, 1)
    largest = int(divisor.max(initial=1))
    if largest < EXACT_IN_FLOAT:
        # Float division is several times faster than int64 division and exact in this range.
        return (part * 100.0 / divisor).astype(np.int64)
    if largest < _EXACT_IN_INT64:
        result: Int64Array = part * MAX_NODE_SCORE // divisor
        return result
    return _long_division(part, divisor)


def _long_division(part: Int64Array, divisor: Int64Array) -> Int64Array:
    """`part * 100 // divisor` by the binary digits of 100, as the product may not fit an int64.

    `rest` stays below the divisor: what would exceed it is carried before it is added.
    """
    percent, rest = np.divmod(part, divisor)
    whole, once = percent * MAX_NODE_SCORE, rest
    percent, rest = np.zeros_like(part), np.zeros_like(part)
    for digit in f"{MAX_NODE_SCORE:b}":
        percent *= 2
        for addend in (rest, once) if digit == "1" else (rest,):
            missing = divisor - addend
            carries = rest >= missing
            rest = np.where(carries, rest - missing, rest + addend)
            percent += carries
    result: Int64Array = whole + percent
    return result


def add_saturating(values: Int64Array, amount: int) -> Int64Array:
    """`values + amount`, at most what an int64 holds; neither is negative."""
    result: Int64Array = np.minimum(values, INT64_MAX - amount) + amount
    return result


def divide_towards_zero(numerator: Int64Array, denominator: int) -> Int64Array:
    """Go's integer division."""
    magnitude = np.abs(numerator) // abs(denominator)
    negative = (numerator < 0) != (denominator < 0)
    result: Int64Array = np.where(negative, -magnitude, magnitude)
    return result


def round_half_away(values: NDArray[np.float64]) -> Int64Array:
    """Go's math.Round."""
    whole = np.trunc(values)
    # Adding a half and truncating would round 0.49999999999999994 up.
    rest = values - whole
    whole += rest >= 0.5
    whole -= rest <= -0.5
    return whole.astype(np.int64)


def default_normalize(scores: Int64Array, *, reverse: bool) -> Int64Array:
    """Scale raw scores to 0..100 by their maximum, upside down if `reverse`."""
    highest = int(scores.max(initial=0))
    if highest == 0:
        return np.full_like(scores, MAX_NODE_SCORE) if reverse else scores
    # The product of larger scores would not fit an int64.
    exact = scores if highest < _EXACT_IN_INT64 else scores.astype(object)
    scaled = divide_towards_zero(exact * MAX_NODE_SCORE, highest).astype(np.int64, copy=False)
    return MAX_NODE_SCORE - scaled if reverse else scaled
