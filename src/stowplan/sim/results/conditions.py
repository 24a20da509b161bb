"""Conditions of `compare --fail-on`: `pending_p99>30s`, `cpu<60%`, `cost>1.1x` the first run."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from stowplan.config.durations import parse_duration
from stowplan.config.fields import did_you_mean
from stowplan.errors import ConfigError
from stowplan.sim.results.comparing import FIGURES, Comparison, shown

_TEXT: Final = re.compile(r"\s*([a-z_0-9]+)\s*(<=|>=|<|>)\s*(\S+)\s*")
#: Figures that need prices.
COSTS: Final = ("cost", "cost_in_use")
WITHOUT_PRICES: Final = (
    "no node has a price. Fix: give --prices (for a result, to the `replay` or `simulate` that"
    " writes it), or label nodes with stowplan.io/price-per-hour"
)
_COMPARES: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True)
class Condition:
    """True for a run that fails."""

    figure: str
    compares: str
    bound: float
    #: The bound as it was written.
    amount: str
    #: The bound is a multiple of the first run's figure.
    is_relative: bool = False

    def failures(self, comparison: Comparison) -> list[str]:
        """Of every run but the first; of one alone, of that.

        Raises ConfigError for a condition on costs if a run has no prices: it could never hold.
        """
        if self.figure in COSTS:
            self._check_prices(comparison)
        runs = list(zip(comparison.runs, comparison.figures, strict=True))
        found = []
        for run, figures in runs[1:] or runs:
            bound = self.bound
            if self.is_relative:
                bound *= comparison.figures[0][self.figure]
            if _COMPARES[self.compares](figures[self.figure], bound):
                value = shown(self.figure, figures[self.figure])
                found.append(f"{run.name}: {self.figure} is {value} ({self._limit(bound)})")
        return found

    def _check_prices(self, comparison: Comparison) -> None:
        for run in comparison.runs:
            if not run.has_prices:
                where = f"--fail-on {self.figure}{self.compares}{self.amount}"
                raise ConfigError(f"{run.name}: {WITHOUT_PRICES}", where=where)

    def _limit(self, bound: float) -> str:
        multiple = f": {shown(self.figure, bound)}" if self.is_relative else ""
        return f"{self.compares}{self.amount}{multiple}"


def parse_condition(text: str) -> Condition:
    """Raises ConfigError."""
    match = _TEXT.fullmatch(text)
    where = f"--fail-on {text}"
    if match is None:
        raise ConfigError("is not FIGURE>VALUE, such as pending_p99>30s or cost>1.1x", where=where)
    figure, compares, amount = match.groups()
    if figure not in FIGURES:
        hint = did_you_mean(figure, set(FIGURES))
        known = "" if hint else f"; known: {', '.join(FIGURES)}"
        raise ConfigError(f"there is no figure {figure}{hint}{known}", where=where)
    unit, _ = FIGURES[figure]
    try:
        if amount.endswith("x"):
            return Condition(figure, compares, float(amount[:-1]), amount, is_relative=True)
        if amount.endswith("%"):
            bound = float(amount[:-1]) / 100
        elif unit == "s" and not amount.replace(".", "", 1).isdigit():
            bound = float(parse_duration(amount))
        else:
            bound = float(amount)
    except ValueError:
        raise ConfigError(
            f"{amount!r:.40} is not a number, duration, share or multiple", where=where
        ) from None
    return Condition(figure, compares, bound, amount)
