"""docs/performance.md: the targets with what was measured, written from stored results.

What must stay true: a target that is missed, or has not been measured, is called so in plain words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final, TypeAlias

from stowplan.lab.bench.decision_report import Decisions, decision_lines
from stowplan.lab.bench.figures import KUBE, RAW, RAW_EVENTS, STOWPLAN, Spread
from stowplan.lab.bench.method import method_lines
from stowplan.lab.bench.results import Measured
from stowplan.lab.bench.targets import STREAM, TargetRow, Targets, WorkloadEntry
from stowplan.lab.bench.targets import targets as all_targets
from stowplan.lab.bench.terminal import number, ratio_text

#: All that have a variant without queueing hints are measured with them.
_HINTS: Final = "_QueueingHintsEnabled"
_EVENT_LAG_S: Final = 10.0
_COLUMNS: Final = (
    "| workload | nodes, measured pods | Stowplan pods/s | kube-scheduler | raw | raw + events | "
    "/ kube-scheduler | / raw | / raw + events | CPU / kube-scheduler | targets |",
    "|---|---|---|---|---|---|---|---|---|---|---|",
)

#: By workload and mode.
_Found: TypeAlias = Mapping[tuple[str, str], Measured]


@dataclass(frozen=True)
class TargetResult:
    """A target of a workload, and whether it is met."""

    what: str
    wanted: str
    found: str
    is_met: bool

    def __str__(self) -> str:
        return f"{self.what}: wanted {self.wanted}, found {self.found}"


def check_targets(row: TargetRow, measured: Measured, first_bind: float) -> list[TargetResult]:
    """Compare the figures of a workload with every target of its row that applies."""
    outcome = measured.outcome
    of_kube, of_raw = outcome.ratio(KUBE), outcome.ratio(RAW)
    verdicts = []
    if of_kube is not None:
        is_met = of_kube.median >= row.against_kube
        wanted = f"at least {row.against_kube:g}x"
        if row.or_raw and row.against_raw is not None:
            wanted += f" (or {row.against_raw:.0%} of raw)"
            is_met = is_met or (of_raw is not None and of_raw.median >= row.against_raw)
        found = ratio_text(of_kube, is_limit=False, finer=1)
        limit = outcome.ratio(KUBE, above=RAW)
        if not is_met and limit is not None and limit.median < row.against_kube:
            found += f", and no more than {limit.median:.1f}x can be: that is raw"
        verdicts.append(TargetResult("against kube-scheduler", wanted, found, is_met))
    if of_raw is not None and row.against_raw is not None:
        is_met = of_raw.median >= row.against_raw
        wanted = f"at least {row.against_raw:.2f}"
        found = ratio_text(of_raw, is_limit=True, finer=1)
        verdicts.append(TargetResult("against raw", wanted, found, is_met))
    cpu = outcome.ratio(KUBE, lambda run: run.cpu_per_1000)
    if cpu is not None and row.cpu is not None:
        wanted = f"at most {row.cpu:.2f} of kube-scheduler's"
        verdicts.append(
            TargetResult("CPU per pod", wanted, f"{cpu.median:.2f}", cpu.median <= row.cpu + 0.005)
        )
    first = outcome.ratio(KUBE, lambda run: run.first_bind_s)
    if first is not None:
        ours, theirs = (
            outcome.spread(name, lambda run: run.first_bind_s) for name in (STOWPLAN, KUBE)
        )
        found = f"{number(ours, 2)} s beside {number(theirs, 2)} s ({_of_it(first)})"
        verdicts.append(
            TargetResult(
                "first bind", "at most kube-scheduler's", found, first.median <= first_bind
            )
        )
    lost = sum(run.pods - run.events for run in outcome.of(STOWPLAN))
    if lost:
        verdicts.append(TargetResult("events", "one for every pod", f"{lost} missing", False))
    lag = outcome.spread(STOWPLAN, lambda run: run.event_lag_p99_s)
    if lag is not None:
        found = f"p99 {lag.median:.1f} s"
        wanted = f"p99 at most {_EVENT_LAG_S:.0f} s after the bind"
        verdicts.append(TargetResult("events", wanted, found, lag.median <= _EVENT_LAG_S))
    return verdicts


def report(
    all_measured: Sequence[Measured], targets: Targets, decisions: Decisions | None = None
) -> str:
    found = {(one.setup.title, one.setup.mode): one for one in all_measured}
    lines = [
        *_head(),
        *_summary(found, targets),
        *_rows(found, targets),
        *_as_they_come(found, targets),
        *_tail(found, targets),
        *decision_lines(decisions, targets.decisions),
        *method_lines(all_measured),
    ]
    return "\n".join(lines)


def _head() -> Iterator[str]:
    yield "# Performance"
    yield ""
    yield (
        "<!-- Written by `stowplan bench headline --stored --report docs/performance.md`; "
        "do not edit. -->"
    )
    yield ""
    yield (
        "Stowplan beside kube-scheduler on a real kube-apiserver and etcd, with kube-scheduler's "
        "own benchmark, scheduler_perf. Figures are medians of rounds, with the lowest and the "
        "highest round in parentheses. [Method](#method) says what is measured and how."
    )
    yield ""


def _summary(all_found: _Found, targets: Targets) -> Iterator[str]:
    """One line for each group of workloads."""
    yield "| workloads | pods/s / kube-scheduler | CPU per pod / kube-scheduler | targets met |"
    yield "|---|---|---|---|"
    for row in targets.rows:
        found = [
            measured
            for entry in row.entries
            if (measured := all_found.get((entry.workload, entry.mode))) is not None
            and measured.outcome.is_valid
        ]
        rates = [one.outcome.ratio(KUBE) for one in found]
        costs = [one.outcome.ratio(KUBE, lambda run: run.cpu_per_1000) for one in found]
        met = sum(
            all(each.is_met for each in check_targets(row, one, targets.first_bind))
            for one in found
        )
        cells = [
            f"[{row.title}](#{row.title.lower().replace(' ', '-')})",
            _range(rates, 1, "x"),
            _range(costs, 2),
            f"{met} of {len(row.entries)}",
        ]
        yield f"| {' | '.join(cells)} |"
    yield ""


def _range(ratios: Sequence[Spread | None], digits: int, unit: str = "") -> str:
    """The lowest and the highest median."""
    medians = [f"{ratio.median:.{digits}f}{unit}" for ratio in ratios if ratio is not None]
    if not medians:
        return "not measured"
    lowest, highest = min(medians, key=_number), max(medians, key=_number)
    return lowest if lowest == highest else f"{lowest} to {highest}"


def _number(text: str) -> float:
    return float(text.rstrip("x"))


def _rows(all_found: _Found, targets: Targets) -> Iterator[str]:
    missed: list[str] = []
    absent: list[str] = []
    for row in targets.rows:
        yield f"## {row.title}"
        yield ""
        yield f"Wanted: {_wanted(row)}."
        yield ""
        yield from _COLUMNS
        for entry in row.entries:
            measured = all_found.get((entry.workload, entry.mode))
            if measured is None or not measured.outcome.is_valid:
                absent.append(_why_absent(entry, measured))
                yield f"| {_short(entry.workload)} | | | | | | | | | | not measured |"
                continue
            verdicts = check_targets(row, measured, targets.first_bind)
            failed = [verdict for verdict in verdicts if not verdict.is_met]
            missed += [f"{_short(entry.workload)}, {verdict}" for verdict in failed]
            word = f"missed: {', '.join(verdict.what for verdict in failed)}" if failed else "met"
            yield _row(measured, "; ".join([word, *_doubts(measured)]))
        yield ""
    yield "## Missed targets"
    yield ""
    yield from [f"- {each}" for each in missed] or ["None of those measured."]
    yield ""
    for one in all_found.values():
        if one.profile and any(each.startswith(f"{_short(one.setup.title)},") for each in missed):
            yield f"Where Stowplan's time goes on {_short(one.setup.title)}, under cProfile:"
            yield ""
            yield from ("```text", one.profile, "```", "")
    if absent:
        yield "Not measured:"
        yield ""
        yield from (f"- {each}" for each in absent)
        yield ""


def _doubts(measured: Measured) -> Iterator[str]:
    outcome = measured.outcome
    if outcome.disturbed:
        yield f"{len(outcome.disturbed)} of {len(outcome.runs)} runs disturbed"
    if outcome.invalid:
        yield f"{len(outcome.invalid)} of {measured.rounds} rounds do not count"


def _as_they_come(all_found: _Found, targets: Targets) -> Iterator[str]:
    yield "## As they come"
    yield ""
    yield (
        "Pods that are created while the scheduler runs, as in scheduler_perf itself. No targets "
        "are set here: on a machine with few cores the rate is that of the API server, which "
        "creates and binds at once."
    )
    yield ""
    yield from _COLUMNS
    limits = []
    for entry in (each.entry() for each in targets.as_they_come):
        measured = all_found.get((entry.workload, entry.mode))
        if measured is None or not measured.outcome.is_valid:
            yield f"| {_short(entry.workload)} | | | | | | | | | | not measured |"
            continue
        yield _row(measured, "; ".join(_doubts(measured)))
        limit = measured.outcome.ratio(KUBE, above=RAW)
        if limit is not None:
            limits.append(f"{ratio_text(limit, is_limit=False)} on {_short(entry.workload)}")
    yield ""
    if limits:
        yield f"`raw` itself is so many times kube-scheduler here: {', '.join(limits)}."
        yield ""


def _of_it(ratio: Spread) -> str:
    return f"{ratio_text(ratio, is_limit=True)} of it, round by round"


def _wanted(row: TargetRow) -> str:
    parts = [f"at least {row.against_kube:g}x kube-scheduler's pods per second"]
    if row.against_raw is not None:
        if row.or_raw:
            parts[0] += f" (or {row.against_raw:.0%} of raw, where that is lower)"
        parts.append(f"at least {row.against_raw:.0%} of raw")
    if row.cpu is not None:
        parts.append(f"CPU seconds per pod at most {row.cpu:.2f} of kube-scheduler's")
    return ", ".join(parts)


def _short(title: str) -> str:
    """The test's name, with the workload's where the targets have several of the test."""
    test, _, name = title.partition("/")
    of_test = {
        entry.workload
        for row in all_targets().rows
        for entry in row.entries
        if entry.workload.startswith(f"{test}/")
    }
    return f"{test}/{name.removesuffix(_HINTS)}" if len(of_test) > 1 else test


def _why_absent(entry: WorkloadEntry, measured: Measured | None) -> str:
    if measured is None:
        return f"{entry.workload}: no result"
    return f"{entry.workload}: INVALID, {'; '.join(measured.outcome.invalid.values())}"


def _spread(spread: Spread | None) -> str:
    if spread is None:
        return ""
    text = f"{spread.median:.0f}"
    return text if spread.low == spread.high else f"{text} ({spread.low:.0f}..{spread.high:.0f})"


def _row(measured: Measured, targets: str) -> str:
    setup, outcome = measured.setup, measured.outcome
    scale = "" if setup.scale == 1.0 else f" (scale {setup.scale:g})"
    rates = [_spread(outcome.rate(name)) for name in (STOWPLAN, KUBE, RAW, RAW_EVENTS)]
    ratios = [
        ratio_text(outcome.ratio(below), is_limit=below != KUBE).replace("-", "")
        for below in (KUBE, RAW, RAW_EVENTS)
    ]
    cpu = outcome.ratio(KUBE, lambda run: run.cpu_per_1000)
    cells = [
        _short(setup.title),
        f"{setup.nodes:,}, {setup.measured:,}{scale}",
        *rates,
        *ratios,
        "" if cpu is None else f"{cpu.median:.2f}",
        targets,
    ]
    return f"| {' | '.join(cells)} |"


def _tail(all_found: _Found, targets: Targets) -> Iterator[str]:
    yield "## Memory, start, latency, events"
    yield ""
    memory = all_found.get((targets.memory.workload, STREAM))
    if memory is not None and memory.outcome.is_valid:
        ours, theirs = (
            memory.outcome.spread(name, lambda run: run.peak_rss_mib) for name in (STOWPLAN, KUBE)
        )
        if ours is not None and theirs is not None:
            word = "met" if ours.median <= theirs.median else "MISSED"
            yield (
                f"Peak memory at {memory.setup.nodes:,} nodes and {memory.setup.pods:,} pods: "
                f"Stowplan {ours.median:.0f} MiB, kube-scheduler {theirs.median:.0f} MiB (wanted: "
                f"at most kube-scheduler's; {word})."
            )
            yield ""
    else:
        yield f"Peak memory at 30,000 pods ({targets.memory.workload}): not measured."
        yield ""
    yield (
        "Stowplan / kube-scheduler. Of a backlog the first bind is counted from the start of the "
        "process, whose CPU time is that of its start, too; as pods come, from the start of a "
        "second process on what the workload left behind. The event lag is from a pod's bind to "
        "its event; `at last bind` is how many of the events were there when the last pod was "
        "bound, `last event` how long after that the last one came."
    )
    yield ""
    yield (
        "| workload | pods | p50 ms | p99 ms | CPU s per 1,000 pods | peak MiB | first bind s | "
        "events | at last bind | last event s | event lag p99 s |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|---|"
    for one in all_found.values():
        if one.outcome.is_valid:
            yield _details(one)
    yield ""


def _details(measured: Measured) -> str:
    def pair(field: str, digits: int, factor: float = 1.0) -> str:
        texts = [
            number(measured.outcome.spread(name, attrgetter(field)), digits, factor)
            for name in (STOWPLAN, KUBE)
        ]
        return " / ".join(texts)

    cells = [
        _short(measured.setup.title),
        "as they come" if measured.setup.mode == STREAM else measured.setup.mode,
        pair("latency_p50_s", 0, 1000),
        pair("latency_p99_s", 0, 1000),
        pair("cpu_per_1000", 2),
        pair("peak_rss_mib", 0),
        pair("first_bind_s", 2),
        pair("events", 0),
        pair("events_at_last_bind", 0),
        pair("last_event_s", 2),
        pair("event_lag_p99_s", 2),
    ]
    return f"| {' | '.join(cells)} |"
