"""From runs to figures: medians, the table, ratios, and whether the whole thing is to be believed.

Called by `__main__` with what `run` measured. Pure: nothing is started, read or written here. What
must stay true: figures of different benchmark runs are never mixed, and a ratio is only ever taken
between contestants of the same run.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

#: What may run besides before a run counts as disturbed.
QUIET_CORES = 0.3


@dataclass(frozen=True)
class Run:
    """One contestant in one round; times in seconds."""

    contestant: str
    round: int
    pods: int
    #: Between the first and the last bind.
    pods_per_s: float
    created_per_s: float
    #: From the start of the process.
    first_bind_s: float
    #: CPU time of the process until the first bind.
    startup_cpu_s: float
    #: CPU time of the process per 1,000 pods, from the first bind to the last bind or event.
    cpu_per_1000: float
    #: The same of kube-apiserver and etcd together.
    server_cpu_per_1000: float
    peak_rss_mib: float
    events_at_last_bind: int
    events: int
    #: After the last bind; None without events.
    last_event_s: float | None
    #: From a pod's bind to its event, as far as events were written.
    event_lag_p99_s: float | None
    #: From sending a pod's creation to its bind; only where pods are created while they are bound.
    latency_p50_s: float | None
    latency_p99_s: float | None
    #: How many cores other processes on the machine kept busy meanwhile: noise.
    others_cores: float


@dataclass(frozen=True)
class Spread:
    """A figure over all rounds."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(statistics.median(values), min(values), max(values))


@dataclass(frozen=True)
class Ratio:
    """How many times faster the first contestant is than the second."""

    above: str
    below: str
    #: Of the medians.
    value: float
    #: Round by round, as the machine's mood changes between rounds.
    rounds: Spread


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[max(math.ceil(share * len(ordered)), 1) - 1]


def throughput(times: Sequence[float]) -> float:
    """Things per second between the first and the last of them."""
    span = max(times) - min(times)
    return (len(times) - 1) / span if span > 0 else 0.0


def by_contestant(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """In the order in which contestants first ran."""
    grouped: dict[str, list[Run]] = {}
    for run in runs:
        grouped.setdefault(run.contestant, []).append(run)
    return grouped


# -- ratios ---------------------------------------------------------------------------------------


def ratios(runs: Sequence[Run], above: str, others: Sequence[str]) -> list[Ratio]:
    """`above` against each of the others that took part."""
    grouped = by_contestant(runs)
    found = []
    for below in others:
        if above not in grouped or below not in grouped:
            continue
        rates = {run.round: run.pods_per_s for run in grouped[below]}
        rounds = [
            run.pods_per_s / rates[run.round] for run in grouped[above] if rates.get(run.round)
        ]
        if rounds:
            value = _median_rate(grouped[above]) / _median_rate(grouped[below])
            found.append(Ratio(above, below, value, Spread.of(rounds)))
    return found


def ratio_line(ratio: Ratio, is_limit: bool) -> str:
    """``a / b = 3.1x``; a share of the limit is written without the x."""
    times = "" if is_limit else "x"
    digits = 2 if is_limit else 1
    line = f"{ratio.above} / {ratio.below} = {ratio.value:.{digits}f}{times}"
    if ratio.rounds.low == ratio.rounds.high:
        return line
    low, high = f"{ratio.rounds.low:.{digits}f}", f"{ratio.rounds.high:.{digits}f}"
    return f"{line} (by round {low}..{high})"


def faults(runs: Sequence[Run], limit: str) -> list[str]:
    """Why the run is invalid: nobody can be faster than bindings that need no thought."""
    limits = {run.round: run for run in runs if run.contestant == limit}
    found = []
    for run in runs:
        bare = limits.get(run.round)
        if bare is not None and run.contestant != limit and run.pods_per_s > bare.pods_per_s:
            found.append(
                f"round {run.round}: {run.contestant} bound {run.pods_per_s:.0f} pods/s, more than "
                f"{limit} with {bare.pods_per_s:.0f} (others kept {run.others_cores:.1f} and "
                f"{bare.others_cores:.1f} cores busy)"
            )
    return found


def disturbance(runs: Sequence[Run]) -> str:
    """A warning where others were busy while some ran, which makes every ratio a guess."""
    noisy = [run for run in runs if run.others_cores > QUIET_CORES]
    if not noisy:
        return ""
    return (
        f"{len(noisy)} of {len(runs)} runs had to share the machine (others kept more than "
        f"{QUIET_CORES} cores busy): the ratios are rough"
    )


def _median_rate(runs: Sequence[Run]) -> float:
    return statistics.median(run.pods_per_s for run in runs)


# -- the table ------------------------------------------------------------------------------------

Column: TypeAlias = tuple[str, Callable[[Sequence[Run]], str]]


def _median(
    value: Callable[[Run], float | None], digits: int, scale: float = 1.0
) -> Callable[[Sequence[Run]], str]:
    """The cell of a figure: its median, or a dash where no round has it."""

    def cell(runs: Sequence[Run]) -> str:
        known = [found for run in runs if (found := value(run)) is not None]
        return f"{statistics.median(known) * scale:.{digits}f}" if known else "-"

    return cell


def _spread(runs: Sequence[Run]) -> str:
    spread = Spread.of([run.pods_per_s for run in runs])
    return f"{spread.low:.0f}..{spread.high:.0f}"


COLUMNS: tuple[Column, ...] = (
    ("contestant", lambda runs: runs[0].contestant),
    ("pods/s", _median(lambda run: run.pods_per_s, 0)),
    ("min..max", _spread),
    ("created/s", _median(lambda run: run.created_per_s, 0)),
    ("p50 ms", _median(lambda run: run.latency_p50_s, 0, 1000)),
    ("p99 ms", _median(lambda run: run.latency_p99_s, 0, 1000)),
    ("CPU s/1k", _median(lambda run: run.cpu_per_1000, 2)),
    ("server CPU s/1k", _median(lambda run: run.server_cpu_per_1000, 2)),
    ("others' cores", _median(lambda run: run.others_cores, 2)),
    ("start CPU s", _median(lambda run: run.startup_cpu_s, 2)),
    ("first bind s", _median(lambda run: run.first_bind_s, 2)),
    ("peak MiB", _median(lambda run: run.peak_rss_mib, 0)),
    ("events at last bind", _median(lambda run: run.events_at_last_bind, 0)),
    ("events", _median(lambda run: run.events, 0)),
    ("last event +s", _median(lambda run: run.last_event_s, 2)),
    ("event lag p99 s", _median(lambda run: run.event_lag_p99_s, 2)),
)


def table(runs: Sequence[Run], order: Sequence[str]) -> str:
    """One row a contestant in the given order; columns that no contestant has are left out."""
    grouped = by_contestant(runs)
    rows = [
        [cell(grouped[contestant]) for _, cell in COLUMNS]
        for contestant in order
        if contestant in grouped
    ]
    lines = [[title for title, _ in COLUMNS], *rows]
    kept = [at for at in range(len(COLUMNS)) if any(row[at] != "-" for row in rows)]
    widths = {at: max(len(line[at]) for line in lines) for at in kept}
    texts = []
    for line in lines:
        cells = (
            line[at].ljust(widths[at]) if at == 0 else line[at].rjust(widths[at]) for at in kept
        )
        texts.append("  ".join(cells).rstrip())
    return "\n".join(texts)


def document(
    runs: Sequence[Run], found: Sequence[Ratio], invalid: Sequence[str], about: dict[str, Any]
) -> dict[str, Any]:
    """Everything, for a JSON file."""
    return {
        **about,
        "valid": not invalid,
        "faults": list(invalid),
        "disturbance": disturbance(runs),
        "pods_per_s": {
            contestant: asdict(Spread.of([run.pods_per_s for run in its]))
            for contestant, its in by_contestant(runs).items()
        },
        "ratios": [asdict(ratio) for ratio in found],
        "runs": [asdict(run) for run in runs],
    }
