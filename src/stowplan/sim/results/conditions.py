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
from stowplan.present.tables import counted, printable
from stowplan.sim.results.comparing import FIGURES, Comparison, Unit, exactly, shown
from stowplan.sim.results.run import Run

#: Without nan and inf, with which a condition would never hold.
_NUMBER: Final = re.compile(r"[0-9]+(\.[0-9]*)?|\.[0-9]+")
#: What a figure is, by unit, and values that it can be compared with.
_UNITS: Final[Mapping[Unit, tuple[str, tuple[str, str]]]] = {
    "s": ("a time", ("30s", "1.1x")),
    "%": ("a share", ("60%", "0.6")),
    "": ("a count", ("3", "1.1x")),
    "nodes": ("a number of nodes", ("3", "1.1x")),
    "money": ("an amount of money", ("10", "1.1x")),
}
_TEXT: Final = re.compile(r"\s*([a-z_0-9]+)\s*(<=|>=|<|>)\s*(\S+)\s*")
#: Instance types that a message names.
_LISTED: Final = 5
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
            number = figures[self.figure]
            if _COMPARES[self.compares](number, bound):
                value, limit = shown(self.figure, number), shown(self.figure, bound)
                if value == limit and number != bound:  # they differ in digits that are not shown
                    value, limit = (exactly(self.figure, each) for each in (number, bound))
                multiple = f": {limit}" if self.is_relative else ""
                found.append(
                    f"{run.name}: {self.figure} is {value} ({self.compares}{self.amount}{multiple})"
                )
        return found

    def check_runs(self, number: int) -> None:
        """Raise ConfigError for a condition on the first run's figures if there is no other run."""
        if number < 2 and (self.is_relative or self.figure == "moved"):
            otherwise = ", or an absolute value" if self.figure != "moved" else ""
            raise ConfigError(
                "compares with the first run, and there is no other run. Fix: give two"
                f" runs{otherwise}",
                where=self._where,
            )

    @property
    def _where(self) -> str:
        return f"--fail-on {self.figure}{self.compares}{self.amount}"

    def _check_prices(self, comparison: Comparison) -> None:
        for run in comparison.runs:
            if not run.has_prices:
                why = WITHOUT_PRICES
                if run.unpriced:
                    why = f"no price for {unpriced_types(run)}. Fix: add it to the file of --prices"
                raise ConfigError(f"{run.name}: {why}", where=self._where)


def unpriced_types(run: Run) -> str:
    """The instance types of a run that have no price, with the number of their nodes."""
    listed = [
        f"{printable(kind)} ({counted(nodes, 'node')})"
        if kind
        else f"{counted(nodes, 'node')} without the label node.kubernetes.io/instance-type"
        for kind, nodes in run.unpriced.items()
    ]
    more = [f"{counted(len(listed) - _LISTED, 'more type')}"] if len(listed) > _LISTED else []
    return ", ".join([*listed[:_LISTED], *more])


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
    if amount.endswith("x") and _NUMBER.fullmatch(amount[:-1]):
        return Condition(figure, compares, float(amount[:-1]), amount, is_relative=True)
    unit, _ = FIGURES[figure]
    bound = _bound(unit, amount)
    if bound is None:
        what, examples = _UNITS[unit]
        if unit == "%" and _NUMBER.fullmatch(amount):
            examples = (f"{amount}%", f"{float(amount) / 100:g}")
        written = " or ".join(f"{figure}{compares}{each}" for each in examples)
        raise ConfigError(f"{figure} is {what}: write {written}", where=where)
    return Condition(figure, compares, bound, amount)


def _bound(unit: Unit, amount: str) -> float | None:
    """The amount in the unit of a figure, or None if it is of another unit."""
    if unit == "%" and _NUMBER.fullmatch(amount.removesuffix("%")):
        if amount.endswith("%"):
            return float(amount[:-1]) / 100
        # 60 is meant as 60%, and 1 might be 1% or all.
        return float(amount) if float(amount) < 1 else None
    if _NUMBER.fullmatch(amount):
        return float(amount)
    if unit == "s":
        try:
            seconds = float(parse_duration(amount))
        except ValueError:
            return None
        return seconds if seconds >= 0 else None
    return None
