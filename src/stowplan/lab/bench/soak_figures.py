"""The arithmetic of a soak: samples, how memory goes over time, and the verdict.

Called by `soak`. Pure. What must stay true: a run that measured nothing fails.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

#: Memory counts as flat if the line through its samples rises less than this from the end of the
#: warm-up to the end: a share of its mean, or so many MiB where that is more.
GROWTH_SHARE = 0.05
GROWTH_MIB = 8.0
#: Fewer samples make no line.
FEWEST_SAMPLES = 5
_LOG_LINE = re.compile(r'([IWEF])\d{4} [\d:.]+ +\d+ [^ ]+\] "((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class Sample:
    """One look at the scheduler; times in seconds, rates since the sample before."""

    at_s: float
    rss_mib: float
    cpu_cores: float
    created_per_s: float
    bound_per_s: float
    deleted_per_s: float
    #: As we see it from outside: created and not yet bound.
    waiting: int
    #: From creation to bind, of pods that could be bound at once; None if there were none.
    bind_p99_s: float | None
    #: From a bind to its event.
    event_lag_p99_s: float | None
    #: How long the scheduler took to answer /healthz: what its event loop is late by.
    health_s: float
    #: Chosen series of /metrics, by name and labels.
    series: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Trend:
    """The straight line nearest to some points."""

    slope: float
    mean: float
    span: float

    @property
    def growth(self) -> float:
        """The growth from the first to the last point."""
        return self.slope * self.span


def fit(points: Sequence[tuple[float, float]]) -> Trend:
    """Fit a line by least squares; needs two points that differ in x."""
    count = len(points)
    mean_x = sum(x for x, _ in points) / count
    mean_y = sum(y for _, y in points) / count
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread
    return Trend(slope, mean_y, points[-1][0] - points[0][0])


def memory_line(samples: Iterable[Sample], warm_up_s: float) -> Trend | None:
    """RSS in MiB over seconds, after the warm-up; None if there is too little to tell."""
    points = [(sample.at_s, sample.rss_mib) for sample in samples if sample.at_s >= warm_up_s]
    return fit(points) if len(points) >= FEWEST_SAMPLES else None


def allowed_growth(line: Trend) -> float:
    return max(line.mean * GROWTH_SHARE, GROWTH_MIB)


def p99(values: Sequence[float]) -> float | None:
    """The smallest value that 99 % do not exceed; None of nothing."""
    return sorted(values)[math.ceil(0.99 * len(values)) - 1] if values else None


def count_log_lines(lines: Iterable[str]) -> dict[str, dict[str, int]]:
    """Messages of warnings ("W") and errors ("E"), the commonest first, with their numbers."""
    found: dict[str, Counter[str]] = {"W": Counter(), "E": Counter()}
    for line in lines:
        match = _LOG_LINE.match(line)
        if match is None:
            if line.startswith("Traceback"):
                found["E"]["(a traceback outside the log)"] += 1
            continue
        severity, message = match.groups()
        if severity != "I":
            found["W" if severity == "W" else "E"][message] += 1
    return {severity: dict(messages.most_common()) for severity, messages in found.items()}


@dataclass(frozen=True)
class SoakOutcome:
    """The measurements of a soak test."""

    samples: Sequence[Sample]
    warm_up_s: float
    #: Bare binding requests, as many as this machine takes, and the arrivals that were asked for.
    raw_per_s: float
    rate: float
    created: int
    bound: int
    deleted: int
    preempted: int
    #: Of those preempted: on the way to their node.
    never_bound: int
    #: Names of pods that were never bound, as far as they should have been.
    unbound: Sequence[str]
    #: Nodes that hold more than they offer.
    overfull: Sequence[str]
    #: What the scheduler said when asked to compare: None if it did not answer.
    agrees: bool | None
    log_lines: Mapping[str, Mapping[str, int]]
    events_dropped: int


def document(outcome: SoakOutcome, about: Mapping[str, object]) -> str:
    """The outcome as JSON."""
    line = memory_line(outcome.samples, outcome.warm_up_s)
    verdict = {"faults": faults(outcome), "memory": None if line is None else asdict(line)}
    return json.dumps({**about, **verdict, **asdict(outcome)}, indent=1) + "\n"


def faults(outcome: SoakOutcome) -> list[str]:
    """Why the soak failed; empty if it did not."""
    found: list[str] = []
    line = memory_line(outcome.samples, outcome.warm_up_s)
    if line is None:
        found.append("too few samples after the warm-up to say anything about memory")
    elif line.growth > allowed_growth(line):
        found.append(
            f"memory grew by {line.growth:.1f} MiB in {line.span / 60:.1f} minutes after the "
            f"warm-up; {allowed_growth(line):.1f} MiB are allowed"
        )
    if outcome.bound == 0 or outcome.preempted == 0:
        found.append(f"nothing to see: {outcome.bound} binds, {outcome.preempted} preempted")
    if outcome.unbound:
        found.append(f"{len(outcome.unbound)} pods were not bound: {_some(outcome.unbound)}")
    if outcome.overfull:
        found.append(f"{len(outcome.overfull)} nodes are overfull: {_some(outcome.overfull)}")
    if outcome.agrees is None:
        found.append("the scheduler did not compare its cache when asked")
    elif not outcome.agrees:
        found.append("the scheduler's cache and the API server differ; see its log")
    if outcome.events_dropped:
        found.append(f"{outcome.events_dropped} events were dropped")
    found += [
        f"error in the log, {count} times: {message}"
        for message, count in outcome.log_lines["E"].items()
    ]
    return found


def table(outcome: SoakOutcome) -> str:
    """A few lines for people."""
    samples = [each for each in outcome.samples if each.at_s >= outcome.warm_up_s]
    rows = [
        ("pods created, bound, deleted", _numbers(outcome.created, outcome.bound, outcome.deleted)),
        (
            "of these preempted (before they were bound)",
            f"{_numbers(outcome.preempted)} ({_numbers(outcome.never_bound)})",
        ),
    ]
    line = memory_line(outcome.samples, outcome.warm_up_s)
    if line is not None:
        trend = f"{line.slope * 3600:+.1f} MiB an hour, {line.growth:+.1f} in {line.span:.0f} s"
        rows += [
            ("memory after the warm-up, mean", f"{line.mean:.1f} MiB"),
            ("  trend (allowed)", f"{trend} ({allowed_growth(line):.1f})"),
        ]
    if samples:
        made = [each.created_per_s for each in samples]
        bound = [each.bound_per_s for each in samples]
        rows += [
            ("arrivals a second (asked for)", f"{_mean(made):.0f} ({outcome.rate:.0f})"),
            ("binds a second (bare)", f"{_mean(bound):.0f} ({outcome.raw_per_s:.0f})"),
            ("CPU", f"{_mean(each.cpu_cores for each in samples):.2f} cores"),
            ("waiting pods, most", _numbers(max(each.waiting for each in samples))),
            ("creation to bind, worst p99", _worst(each.bind_p99_s for each in samples)),
            ("bind to event, worst p99", _worst(each.event_lag_p99_s for each in samples)),
            ("answer of /healthz, worst", _worst(each.health_s for each in samples)),
        ]
    compared = {None: "no answer", True: "agree", False: "DIFFER"}[outcome.agrees]
    rows.append(("cache and API server", compared))
    rows += [
        (f"warning, {count} times", message) for message, count in outcome.log_lines["W"].items()
    ]
    width = max(len(title) for title, _ in rows)
    return "\n".join(f"{title:<{width}}  {figure}" for title, figure in rows)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")


def _numbers(*numbers: int) -> str:
    return ", ".join(f"{number:,}" for number in numbers)


def _mean(values: Iterable[float]) -> float:
    known = list(values)
    return sum(known) / len(known)


def _worst(values: Iterable[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{max(known) * 1e3:.0f} ms" if known else "-"
