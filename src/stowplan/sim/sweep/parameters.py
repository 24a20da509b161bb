"""Parameters of a sweep: what varies in each configuration, and which combinations are tried."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Final

from stowplan.sim.results.comparing import FIGURES
from stowplan.sim.scenarios.manifests import plain
from stowplan.sim.sweep.places import parts_of
from stowplan.sim.traces.dice import Dice
from stowplan.workloads.fields import Fields

#: Limit of combinations and of tasks.
MOST: Final = 100_000
#: Fields of `search`.
SEARCH: Final = ("random", "seed")
#: Columns of the table that are not parameters.
_TAKEN: Final = frozenset(
    {
        "task",
        "run",
        "workload",
        "configuration",
        "seed",
        "seconds",
        "decisions",
        "problem",
        "unpriced",
        "warnings",
        *FIGURES,
    }
)
_FIX_SEARCH: Final = "Fix: add `search: {random: SAMPLES}`"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A value that varies, and where it goes in the configuration."""

    name: str
    places: tuple[str, ...]
    #: Its values, or `between` for random search: the ends of a range.
    values: tuple[Any, ...] = ()
    between: tuple[float, float] | None = None
    is_log: bool = False

    def drawn(self, dice: Dice) -> Any:
        if self.between is None:
            return self.values[int(dice.unit() * len(self.values))]
        low, high = self.between
        is_whole = isinstance(low, int) and isinstance(high, int)
        if self.is_log:
            number = math.exp(math.log(low) + dice.unit() * (math.log(high) - math.log(low)))
            return round(number) if is_whole else float(f"{number:.6g}")
        if is_whole:
            return int(low) + int(dice.unit() * (high - low + 1))
        return float(f"{low + dice.unit() * (high - low):.6g}")


def read_parameter(file: Path, name: str, written: Any) -> Parameter:
    """An entry of `parameters` in a sweep's file. Raises ConfigError."""
    fields = Fields(file, written, f"parameter {name}", ("path", "values", "between", "log"))
    if name in _TAKEN:
        fields.fail("has the name of another column of the table. Fix: choose another name")
    path = fields.value("path")
    places = (path,) if isinstance(path, str) else fields.texts("path")
    if not places:
        fields.fail("`path` must be given: where its value goes in the configuration")
    for place in places:
        try:
            parts_of(place)
        except ValueError as problem:
            fields.fail(str(problem), at="path")
    if ("values" in fields) == ("between" in fields):
        fields.fail("needs `values: [...]` or, for random search, `between: [LOW, HIGH]`")
    if "values" in fields:
        return Parameter(name, places, tuple(plain(fields.items("values"))))
    ends = fields.items("between")
    if len(ends) != 2 or not all(
        isinstance(end, int | float) and not isinstance(end, bool) for end in ends
    ):
        fields.fail("`between` must be two numbers", at="between")
    low, high = ends
    if not low < high or (fields.flag("log") and low <= 0):
        fields.fail("`between` must rise, and be above 0 with `log`", at="between")
    return Parameter(name, places, between=(low, high), is_log=fields.flag("log"))


def read_samples(search: Fields, parameters: Sequence[Parameter]) -> list[dict[str, Any]]:
    """The combinations to try: a grid, or random samples as `search` says. Raises ConfigError."""
    if "random" not in search:
        for each in parameters:
            if each.between is not None:
                search.fail(f"parameter {each.name} has `between`. {_FIX_SEARCH}")
        if (number := math.prod(len(each.values) for each in parameters)) > MOST:
            search.fail(f"the grid has {number:,} configurations. {_FIX_SEARCH}")
        names = [each.name for each in parameters]
        grid = product(*(each.values for each in parameters))
        return [dict(zip(names, values, strict=True)) for values in grid]
    number = search.whole("random")
    if not 0 < number <= MOST:
        search.fail(f"`random` must be 1 to {MOST:,} samples", at="random")
    if not parameters:
        search.fail("random search needs `parameters`")
    seed = search.whole("seed")
    # Each parameter has its own random numbers: adding another does not change its values.
    dice = [Dice(seed, each.name) for each in parameters]
    return [
        {each.name: each.drawn(own) for each, own in zip(parameters, dice, strict=True)}
        for _ in range(number)
    ]
