"""From runs to figures: medians, spreads, ratios, and whether a round is to be believed.

`run` makes the `Run`s, `results` stores them, and every figure shown (table, page, report) is
computed here. Pure. What must stay true: a ratio is only ever taken between contestants of the same
round of the same workload, and a round in which a contestant beats `raw` is discarded.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import msgspec

STOWPLAN: Final = "stowplan"
KUBE: Final = "kube-scheduler"
RAW: Final = "raw"
RAW_EVENTS: Final = "raw + events"
#: The order in which contestants are shown.
ORDER: Final = (STOWPLAN, KUBE, RAW, RAW_EVENTS)
#: Cores that others may keep busy before a run counts as disturbed.
QUIET_CORES: Final = 0.3
#: With fewer measured pods a run is too short for a meaningful rate.
FEW_PODS: Final = 500


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One contestant in one round of one workload; times in seconds."""

    contestant: str
    round: int
    #: Measured pods that were bound.
    pods: int
    #: Of the measured pods, between their first and their last bind.
    pods_per_s: float
    #: From the first request to create a measured pod to the last bind.
    took_s: float
    #: How fast they were created.
    created_per_s: float | None = None
    #: From sending a pod's creation to its bind.
    latency_p50_s: float | None = None
    latency_p99_s: float | None = None
    #: CPU time of the process per 1,000 measured pods, until the last bind or event.
    cpu_per_1000: float
    #: The same of kube-apiserver and etcd together.
    server_cpu_per_1000: float
    peak_rss_mib: float
    #: From the start of a second process, on what the workload left behind, to its first bind. None
    #: for raw, which knows no cluster, and where that bind took longer than a minute.
    first_bind_s: float | None = None
    #: "Scheduled" events of measured pods.
    events: int = 0
    events_at_last_bind: int = 0
    #: After the last bind; None without events.
    last_event_s: float | None = None
    #: From a pod's bind to its event.
    event_lag_p99_s: float | None = None
    #: How many cores other processes on the machine kept busy meanwhile: noise. Without processes
    #: with a nice value above 0, which yield to the others.
    others_cores: float
    #: How many cores the nice processes kept busy. None in results of older versions.
    nice_cores: float | None = None
    #: CPU time of a piece of work that never changes, meanwhile: how fast the machine itself was.
    fixed_work_s: float | None = None
    #: Binds in each half second from the first one on.
    binds_over_time: tuple[int, ...] = ()


@dataclass(frozen=True)
class Spread:
    """A figure over several rounds."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float | None]) -> Spread | None:
        """The spread of a figure; None if no round has it."""
        known = [value for value in values if value is not None]
        return cls(statistics.median(known), min(known), max(known)) if known else None


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[max(math.ceil(share * len(ordered)), 1) - 1]


def throughput(times: Sequence[float]) -> float:
    """Things per second between the first and the last of them."""
    span = max(times) - min(times) if times else 0.0
    return (len(times) - 1) / span if span > 0 else 0.0


def over_time(times: Sequence[float], bucket_s: float = 0.5) -> tuple[int, ...]:
    """How many in each slice of time from the first on."""
    if not times:
        return ()
    begin = min(times)
    slices = [0] * (int((max(times) - begin) / bucket_s) + 1)
    for at in times:
        slices[int((at - begin) / bucket_s)] += 1
    return tuple(slices)


class WorkloadRuns:
    """All runs of one workload."""

    def __init__(self, runs: Iterable[Run]) -> None:
        self.all_runs = sorted(runs, key=lambda run: (run.round, run.contestant))

    @cached_property
    def invalid(self) -> dict[int, str]:
        """Invalid rounds and the reasons: no contestant can be faster than the limit."""
        limits = {run.round: run for run in self.all_runs if run.contestant == RAW}
        found: dict[int, str] = {}
        for run in self.all_runs:
            limit = limits.get(run.round)
            if limit is not None and run is not limit and run.pods_per_s > limit.pods_per_s:
                found[run.round] = (
                    f"round {run.round} does not count: {run.contestant} bound "
                    f"{run.pods_per_s:.0f} pods/s, more than {RAW} with {limit.pods_per_s:.0f} "
                    f"(others kept {run.others_cores:.1f} and {limit.others_cores:.1f} cores busy)"
                )
        return found

    @cached_property
    def runs(self) -> list[Run]:
        """The runs of valid rounds."""
        return [run for run in self.all_runs if run.round not in self.invalid]

    @property
    def is_valid(self) -> bool:
        return bool(self.runs)

    @cached_property
    def contestants(self) -> list[str]:
        present = {run.contestant for run in self.all_runs}
        return [name for name in ORDER if name in present] + sorted(present - set(ORDER))

    def of(self, contestant: str) -> list[Run]:
        return [run for run in self.runs if run.contestant == contestant]

    def spread(self, contestant: str, figure: Callable[[Run], float | None]) -> Spread | None:
        return Spread.of(figure(run) for run in self.of(contestant))

    def rate(self, contestant: str) -> Spread | None:
        return self.spread(contestant, lambda run: run.pods_per_s)

    def ratio(
        self,
        below: str,
        figure: Callable[[Run], float | None] = lambda run: run.pods_per_s,
        above: str = STOWPLAN,
    ) -> Spread | None:
        """A figure of `above` divided by that of `below`, round by round."""
        base = {run.round: figure(run) for run in self.of(below)}
        ratios = []
        for run in self.of(above):
            upper, lower = figure(run), base.get(run.round)
            if upper is not None and lower:
                ratios.append(upper / lower)
        return Spread.of(ratios)

    @property
    def disturbed(self) -> list[Run]:
        """Runs during which others were busy, which makes every ratio a guess."""
        return [run for run in self.runs if run.others_cores > QUIET_CORES]
