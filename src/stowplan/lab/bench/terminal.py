"""The tables that the command prints: one for each workload, and one of all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from stowplan.lab.bench.figures import (
    FEW_PODS,
    KUBE,
    QUIET_CORES,
    RAW,
    RAW_EVENTS,
    STOWPLAN,
    Run,
    Spread,
    WorkloadRuns,
)
from stowplan.lab.bench.results import Measured
from stowplan.present.tables import format_figures

Figure: TypeAlias = tuple[str, Callable[[Run], float | None], int, float]

#: Title, where it is, digits, factor.
FIGURES: Final[tuple[Figure, ...]] = (
    ("pods created/s", lambda run: run.created_per_s, 0, 1),
    ("creation to bind, p50 ms", lambda run: run.latency_p50_s, 0, 1000),
    ("creation to bind, p99 ms", lambda run: run.latency_p99_s, 0, 1000),
    ("CPU s per 1,000 pods", lambda run: run.cpu_per_1000, 2, 1),
    ("servers' CPU s per 1,000 pods", lambda run: run.server_cpu_per_1000, 2, 1),
    ("peak memory, MiB", lambda run: run.peak_rss_mib, 0, 1),
    ("start to first bind, s", lambda run: run.first_bind_s, 2, 1),
    ("events written", lambda run: run.events, 0, 1),
    ("events there at the last bind", lambda run: run.events_at_last_bind, 0, 1),
    ("last event after last bind, s", lambda run: run.last_event_s, 2, 1),
    ("bind to event, p99 s", lambda run: run.event_lag_p99_s, 2, 1),
    ("cores that others kept busy", lambda run: run.others_cores, 2, 1),
    ("cores that nice others kept busy", lambda run: run.nice_cores, 2, 1),
    ("fixed piece of work, CPU ms", lambda run: run.fixed_work_s, 2, 1000),
)


def number(spread: Spread | None, digits: int, factor: float = 1.0) -> str:
    """The median, or a dash where there is no such figure."""
    return "-" if spread is None else f"{spread.median * factor:.{digits}f}"


def span(spread: Spread | None, digits: int) -> str:
    return "-" if spread is None else f"{spread.low:.{digits}f}..{spread.high:.{digits}f}"


def figure_lines(outcome: WorkloadRuns) -> list[list[str]]:
    """A row for each figure, a column for each contestant: medians of the valid rounds."""
    names = outcome.contestants
    rates = [outcome.rate(name) for name in names]
    lines = [
        ["pods/s", *(number(rate, 0) for rate in rates)],
        ["  slowest..fastest round", *(span(rate, 0) for rate in rates)],
    ]
    for title, figure, digits, factor in FIGURES:
        spreads = [outcome.spread(name, figure) for name in names]
        if any(spreads):
            lines.append([title, *(number(spread, digits, factor) for spread in spreads)])
    return [["", *names], *lines]


def ratio_text(ratio: Spread | None, *, is_limit: bool, finer: int = 0) -> str:
    """``3.1x``, a share of the limit without the x; with the spread between rounds.

    `finer` by so many digits, where the figure is held against one that is nearly the same.
    """
    if ratio is None:
        return "-"
    digits, times = (2, "") if is_limit else (1, "x")
    digits += finer
    text = f"{ratio.median:.{digits}f}{times}"
    low, high = f"{ratio.low:.{digits}f}", f"{ratio.high:.{digits}f}"
    return text if low == high else f"{text} ({low}..{high})"


def describe(measured: Measured) -> str:
    """A workload with its table, ratios, and why not to believe them."""
    setup, outcome = measured.setup, measured.outcome
    lines = [
        f"{setup.title}: {setup.nodes:,} nodes, {setup.pods:,} pods, {setup.measured:,} of them "
        f"measured{scale_note(setup.scale)}, {setup.mode}, rounds: {measured.rounds}"
    ]
    if outcome.is_valid:
        lines.append(format_figures(figure_lines(outcome)))
        for below in (KUBE, RAW, RAW_EVENTS):
            ratio = outcome.ratio(below)
            if ratio is not None:
                text = ratio_text(ratio, is_limit=below != KUBE)
                lines.append(f"{STOWPLAN} / {below} = {text}")
    lines += [f"INVALID: {fault}" for fault in outcome.invalid.values()]
    if setup.measured < FEW_PODS:
        lines.append(f"FEW PODS: {few_pods(setup.measured)}")
    if outcome.disturbed:
        lines.append(f"DISTURBED: {disturbance(outcome)}")
    if measured.mixture:
        lines.append(f"MIXED: {measured.mixture}")
    return "\n".join(lines)


def few_pods(measured: int) -> str:
    return (
        f"{measured} measured pods are too few for a comparison; "
        f"take a workload with {FEW_PODS} or more"
    )


def disturbance(outcome: WorkloadRuns) -> str:
    return (
        f"{len(outcome.disturbed)} of {len(outcome.runs)} runs had to share the machine (others "
        f"kept more than {QUIET_CORES} cores busy): the ratios are rough"
    )


def scale_note(scale: float) -> str:
    return "" if scale == 1.0 else f" ({scale:g} of what upstream has)"


def summary(all_measured: Sequence[Measured]) -> str:
    """One row a workload."""
    lines = [["workload", "stowplan", "kube-scheduler", "raw", "/ kube", "/ raw", "/ raw+events"]]
    for one in all_measured:
        outcome = one.outcome
        lines.append(
            [
                one.setup.title,
                *(number(outcome.rate(name), 0) for name in (STOWPLAN, KUBE, RAW)),
                ratio_text(outcome.ratio(KUBE), is_limit=False),
                ratio_text(outcome.ratio(RAW), is_limit=True),
                ratio_text(outcome.ratio(RAW_EVENTS), is_limit=True),
            ]
        )
    return format_figures(lines)
