"""The figures of a run: recovery times by fault, and the verdict, as text and as JSON."""

from __future__ import annotations

import bisect
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from tools.chaos.game import Outcome
from tools.chaos.verdict import Verdict

#: Binds that arrive so soon after a fault were on their way before it.
_IN_FLIGHT_S = 0.2


def recoveries(outcome: Outcome, binds: Sequence[float]) -> dict[str, list[float]]:
    """Seconds from each fault to the next bind, by kind of fault."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    for struck in outcome.struck:
        index = bisect.bisect_right(binds, struck.at + _IN_FLIGHT_S)
        if index < len(binds):
            found[struck.label].append(binds[index] - struck.at)
    return {label: sorted(found[label]) for label in sorted(found)}


def percentile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def document(
    settings: dict[str, Any], outcome: Outcome, binds: Sequence[float], verdict: Verdict
) -> dict[str, Any]:
    """Everything in one JSON object."""
    return {
        **settings,
        "faults": dict(sorted(Counter(struck.label for struck in outcome.struck).items())),
        "skipped": outcome.skipped,
        "binds": verdict.binds,
        "revisions": verdict.revisions,
        "double_binds": verdict.counts["double-bind"],
        "overcommits": verdict.counts["overcommit"],
        "lost_pods": len(verdict.lost),
        "without_event": verdict.counts["no-event"],
        "gone_before_event": verdict.gone_before_event,
        "other_findings": verdict.counts.total()
        - sum(verdict.counts[kind] for kind in ("double-bind", "overcommit", "no-event")),
        "recovery_s": {
            label: {
                "count": len(times),
                "p50": round(percentile(times, 0.5), 2),
                "p99": round(percentile(times, 0.99), 2),
            }
            for label, times in recoveries(outcome, binds).items()
        },
        "findings": verdict.findings[:200],
    }


def table(figures: dict[str, Any]) -> str:
    """For a terminal."""
    lines = [f"{'fault':32} {'times':>6} {'p50 s':>7} {'p99 s':>7}   (fault to next bind)"]
    lines += [
        f"{label:32} {row['count']:6} {row['p50']:7.2f} {row['p99']:7.2f}"
        for label, row in figures["recovery_s"].items()
    ]
    for kind, count in figures["skipped"].items():
        lines.append(f"{kind:32} {count:6} skipped: not possible with {figures['scheduler']}")
    lines.append(
        f"{figures['binds']} binds in {figures['revisions']} revisions:"
        f" {figures['double_binds']} double binds, {figures['overcommits']} overcommits,"
        f" {figures['lost_pods']} lost pods, {figures['without_event']} bound pods without an event"
        f" ({figures['gone_before_event']} more were gone before it),"
        f" {figures['other_findings']} other findings"
    )
    return "\n".join([*lines, *figures["findings"][:20]])
