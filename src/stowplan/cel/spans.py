"""The least and the most that a size or a cost can be, in Go's unsigned 64 bits."""

from __future__ import annotations

import math
from dataclasses import dataclass

MOST = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Span:
    """Bounds of a number. Sums and products stop at `MOST` instead of wrapping around."""

    least: int
    most: int

    def __add__(self, other: Span | int) -> Span:
        other = exactly(other) if isinstance(other, int) else other
        return Span(min(self.least + other.least, MOST), min(self.most + other.most, MOST))

    def __mul__(self, other: Span) -> Span:
        return Span(min(self.least * other.least, MOST), min(self.most * other.most, MOST))

    def scaled(self, factor: float) -> Span:
        return Span(_scaled(self.least, factor), _scaled(self.most, factor))

    def either(self, other: Span) -> Span:
        return Span(min(self.least, other.least), max(self.most, other.most))


def exactly(number: int) -> Span:
    return Span(number, number)


def _scaled(number: int, factor: float) -> int:
    return min(math.ceil(float(number) * factor), MOST)


NOTHING, ONE = exactly(0), exactly(1)
UNKNOWN = Span(0, MOST)
#: The neutral element of `either`.
EMPTY = Span(MOST, 0)
