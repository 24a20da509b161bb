"""What is kept of a run: the life of every pod, and the cluster at some hundred moments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

FORMAT: Final = "stowplan/run/v1"
#: What is measured at each moment.
SAMPLED: Final = (
    "at",
    "waiting",
    "placed",
    "nodes",
    "nodes_in_use",
    "cpu",
    "memory",
    "fragmentation",
    "imbalance",
    "cost_per_hour",
)


class PodLife(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel", gc=False):
    """Times are seconds since the run began; None: not yet, or not seen."""

    created: float
    bound: float | None = None
    node: str = ""
    ended: float | None = None
    #: It had its node before the run began, or was created with it.
    was_placed: bool = False
    #: It was evicted for another pod.
    preempted: bool = False


class Gap(msgspec.Struct, frozen=True, gc=False):
    """A moment of a recording before which changes may be missing."""

    at: float
    note: str


class Run(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """One run."""

    run: str
    name: str
    #: Seconds that it lasted.
    seconds: float = 0.0
    pods: dict[str, PodLife] = {}
    #: By name in `SAMPLED`: a value per moment.
    samples: dict[str, list[float]] = {}
    #: Money for the nodes that existed, and for those that held pods, by `Prices`.
    cost: float = 0.0
    cost_in_use: float = 0.0
    #: Of the recording, or of the one that was replayed.
    gaps: list[Gap] = []
    #: Nodes without a price, by instance type; empty if the run had no table of prices.
    unpriced: dict[str, int] = {}

    @property
    def has_prices(self) -> bool:
        """True if a node had a price at some moment."""
        return self.cost > 0 or any(self.samples.get("cost_per_hour", ()))

    def waits(self) -> list[float]:
        """Sorted seconds that pods waited for a node: to their binding, to their deletion, or to
        the end of the run.
        """
        return sorted(
            next(each for each in (life.bound, life.ended, self.seconds) if each is not None)
            - life.created
            for life in self.pods.values()
            if not life.was_placed
        )

    def mean(self, name: str) -> float:
        """The mean of a sampled value; moments are equally far apart."""
        values = self.samples.get(name) or [0.0]
        return sum(values) / len(values)


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The nearest-rank percentile of sorted numbers; 0 of none."""
    if not ordered:
        return 0.0
    rank = -(-len(ordered) * percent // 100)
    return ordered[max(int(rank), 1) - 1]
