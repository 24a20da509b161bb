"""Random amounts, described in a line of YAML: what requests, durations and sizes are drawn from.

    cpu: 500m
    cpu: {uniform: [100m, 2]}
    memory: {choice: [1Gi, 4Gi, 16Gi], weights: [6, 3, 1]}
    duration: {lognormal: {median: 2m, sigma: 1.2}, max: 1h}
    duration: {exponential: {mean: 90s}, min: 1s}

All of them draw whole numbers in the unit of their field, so that a draw is the same everywhere.
`min`, `max` and `step` (rounded up to whole steps) go with each of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, TypeAlias

from stowplan.sim.traces.amounts import MOST
from stowplan.sim.traces.dice import Dice
from stowplan.workloads.fields import Fields

Reader: TypeAlias = Callable[[object], int]
_Draw: TypeAlias = Callable[[Dice], int]
#: Makes a number one that may be drawn.
_Fit: TypeAlias = Callable[[float], int]

KINDS = ("constant", "uniform", "choice", "lognormal", "exponential")


@dataclass(frozen=True, slots=True)
class Distribution:
    """A random whole number, within the bounds and in the steps of its description."""

    draw: _Draw


def constant(number: int) -> Distribution:
    return Distribution(lambda _: number)


def distribution(fields: Fields, name: str, read: Reader, *, step: int = 1) -> Distribution | None:
    """The field's distribution, None where the field is absent; mistakes name the field.

    `read` makes a number of a value as it is written; `step` holds for draws that are not
    picked from a list, where the description does not say another.
    """
    value = fields.value(name)
    if value is None:
        return None
    if not isinstance(value, dict):
        return constant(_read(fields, name, value, read))
    inner = fields.inner(name, (*KINDS, "weights", "min", "max", "step"))
    kinds = [kind for kind in KINDS if kind in inner]
    if len(kinds) != 1:
        inner.fail(f"expected one of {', '.join(KINDS)}, got {' and '.join(kinds) or 'none'}")
    kind = kinds[0]
    if "weights" in inner and kind != "choice":
        inner.fail("`weights` go with `choice` only", at="weights")

    def bound(field: str, default: int) -> int:
        return _read(inner, field, inner.value(field), read) if field in inner else default

    least, most = bound("min", 0), bound("max", MOST)
    step = bound("step", 1 if kind in ("constant", "choice") else step)
    if least > most:
        inner.fail("`min` is more than `max`", at="min")
    if step < 1:
        inner.fail("`step` must be more than nothing", at="step")

    def fit(number: float) -> int:
        exact = min(max(number, least), most)
        # The small tolerance is for floats that should be whole and are not quite.
        return min(math.ceil(exact / step - 1e-9) * step, most)

    return Distribution(_DRAWS[kind](inner, read, fit))


def _read(fields: Fields, name: str, value: object, read: Reader) -> int:
    try:
        return read(value)
    except ValueError as problem:
        fields.fail(f"`{name}`: {problem}", at=name)


def _constant(inner: Fields, read: Reader, fit: _Fit) -> _Draw:
    number = fit(_read(inner, "constant", inner.value("constant"), read))
    return lambda _: number


def _uniform(inner: Fields, read: Reader, fit: _Fit) -> _Draw:
    ends = inner.items("uniform")
    if len(ends) != 2:
        inner.fail("`uniform` takes two values: the least and the most", at="uniform")
    least, most = (_read(inner, "uniform", end, read) for end in ends)
    if least > most:
        inner.fail("`uniform`: the first value is the least, the second the most", at="uniform")
    return lambda dice: fit(least + (most - least) * dice.unit())


def _choice(inner: Fields, read: Reader, fit: _Fit) -> _Draw:
    numbers = [fit(_read(inner, "choice", each, read)) for each in inner.items("choice")]
    weights: list[Any] = inner.items("weights") if "weights" in inner else [1] * len(numbers)
    if len(weights) != len(numbers):
        inner.fail(f"{len(weights)} weights for {len(numbers)} choices")
    heaps = heaps_of(weights)
    if heaps is None:
        inner.fail("`weights` must be numbers, none negative and not all 0", at="weights")
    return lambda dice: numbers[dice.weighted(heaps)]


def _lognormal(inner: Fields, read: Reader, fit: _Fit) -> _Draw:
    shape = inner.inner("lognormal", ("median", "sigma"))
    median = _read(shape, "median", shape.value("median"), read)
    sigma = shape.number("sigma")
    if not 0 <= sigma <= 10:
        shape.fail("`sigma` must be between 0 and 10", at="sigma")
    return lambda dice: fit(median * math.exp(sigma * dice.normal()))


def _exponential(inner: Fields, read: Reader, fit: _Fit) -> _Draw:
    shape = inner.inner("exponential", ("mean",))
    mean = _read(shape, "mean", shape.value("mean"), read)
    return lambda dice: fit(dice.exponential(mean))


_DRAWS: dict[str, Callable[[Fields, Reader, _Fit], _Draw]] = {
    "constant": _constant,
    "uniform": _uniform,
    "choice": _choice,
    "lognormal": _lognormal,
    "exponential": _exponential,
}


def heaps_of(weights: list[Any]) -> list[float] | None:
    """Sums of the weights up to each, as `Dice.weighted` takes them; None if they are none."""
    for weight in weights:
        if isinstance(weight, bool) or not isinstance(weight, int | float):
            return None
        if not 0 <= weight <= MOST:
            return None
    heaps = [float(heap) for heap in accumulate(weights)]
    return heaps if heaps and heaps[-1] > 0 else None
