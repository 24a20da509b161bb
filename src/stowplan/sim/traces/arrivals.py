"""When pods arrive: an endless or finite run of moments, in milliseconds, for each kind.

Called by `generate` for as many moments as it needs pods. What must stay true: moments never go
back, and `peak` and `over` mean what docs/traces.md says.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from stowplan.sim.traces.description import Arrivals
from stowplan.sim.traces.dice import Dice


def moments(arrivals: Arrivals, dice: Dice) -> Iterator[int]:
    """The moment of each arrival; arrivals of one burst share a moment."""
    gap_ms = arrivals.over_ms / arrivals.count if arrivals.count else 0.0
    match arrivals.kind:
        case "poisson":
            return _poisson(gap_ms, dice)
        case "uniform":
            return _uniform(gap_ms)
        case "burst":
            return _bursts(arrivals, dice)
        case _:
            return _diurnal(arrivals, gap_ms, dice)


def _poisson(gap_ms: float, dice: Dice) -> Iterator[int]:
    now = 0.0
    while True:
        now += dice.exponential(gap_ms)
        yield round(now)


def _uniform(gap_ms: float) -> Iterator[int]:
    number = 0
    while True:
        yield round(number * gap_ms)
        number += 1


def _bursts(arrivals: Arrivals, dice: Dice) -> Iterator[int]:
    """Bursts: the first at once, then after exponential pauses."""
    now = 0.0
    while True:
        for _ in range(arrivals.size.draw(dice)):
            yield round(now)
        now += dice.exponential(arrivals.every_ms)


def _diurnal(arrivals: Arrivals, gap_ms: float, dice: Dice) -> Iterator[int]:
    """A Poisson process with a rate that swings about its mean, by thinning the peak's rate."""
    highest = 1.0 + arrivals.swing
    now = 0.0
    while True:
        now += dice.exponential(gap_ms / highest)
        angle = 2.0 * math.pi * (now - arrivals.peak_ms) / arrivals.period_ms
        if dice.unit() * highest < 1.0 + arrivals.swing * math.cos(angle):
            yield round(now)
