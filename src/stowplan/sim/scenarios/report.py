"""What came of a scenario, for people and for programs.

`timeline_line` is one line of the timeline, printed while it happens; `tables` and `summary` come
at the end; `as_data` is `-o json`, `DecisionLog` what `--decisions` writes.
What must stay true: nothing that a cluster says can move a terminal's cursor, and a decision log
holds nothing that differs between two runs of one seed in virtual time.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Final

from stowplan.present.tables import counted, printable
from stowplan.sim.scenarios.facts import FINISHED_PHASES, key_of, message_of, node_of, phase_of
from stowplan.sim.scenarios.figures import Figures, Spread, Waits
from stowplan.sim.scenarios.timeline import (
    GAPS,
    SKIPPED_ROWS,
    Entry,
    EntryKind,
    Expectation,
    Outcome,
)

#: More pods than this are listed by node, not one by one.
FEW_PODS: Final = 50
#: How many pending pods are listed even then.
_MOST_WAITING: Final = 10
_RESOURCES: Final = {"cpu": "CPU"}
#: Names of counts, and how these pods lost their node.
_EVICTIONS: Final = {
    "preemptions": "preempted",
    "drained": "drained",
    "lost": "lost with their node",
}
_DECISIONS: Final = (
    EntryKind.DECIDED,
    EntryKind.UNSCHEDULABLE,
    EntryKind.PREEMPTED,
    EntryKind.BOUND,
)


@dataclass(frozen=True, slots=True)
class Table:
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def timeline_line(entry: Entry) -> str:
    """`   1.000  pod default/web-0 bound to n1`."""
    return f"{entry.at:10.3f}  {entry_text(entry)}"


def entry_text(entry: Entry) -> str:
    match entry.kind:
        case EntryKind.STEP:
            what = f"{entry.subject}: " if entry.subject else ""
            return printable(f"{what}{entry.text}")
        case EntryKind.SAID:
            return printable(entry.text)
        case EntryKind.EXPECTATION:
            if entry.details.get("is_met"):
                return printable(f"  ok    {entry.text}")
            found = entry.details.get("found", "")
            return printable(f"  FAIL  {entry.text}{f'; found: {found}' if found else ''}")
        case EntryKind.UNSCHEDULABLE:
            return printable(f"  {entry.subject} unschedulable: {entry.text}")
    return printable(f"  {entry.subject} {entry.text}")


def tables(outcome: Outcome) -> list[Table]:
    """Tables of the pods and their nodes; for many pods, counts by node and the pending pods."""
    if not outcome.pods:
        return []
    if len(outcome.pods) <= FEW_PODS:
        pods = sorted(outcome.pods, key=lambda pod: _natural(key_of(pod)))
        told = [(printable(key_of(pod)), node_of(pod), _state(pod)) for pod in pods]
        return [Table(("pod", "node", "state"), tuple(told))]
    held: dict[str, int] = {node["metadata"]["name"]: 0 for node in outcome.nodes}
    for pod in outcome.pods:
        if (node := node_of(pod)) and phase_of(pod) not in FINISHED_PHASES:
            held[node] = held.get(node, 0) + 1
    found = []
    if len(held) <= FEW_PODS:
        rows = tuple((name, str(number)) for name, number in held.items())
        found.append(Table(("node", "pods"), rows))
    waiting = [pod for pod in outcome.pods if not node_of(pod)]
    if waiting:
        rows = tuple((printable(key_of(pod)), _state(pod)) for pod in waiting[:_MOST_WAITING])
        if len(waiting) > _MOST_WAITING:
            rows += ((f"and {len(waiting) - _MOST_WAITING:,} more", "..."),)
        found.append(Table(("waiting pod", "state"), rows))
    return found


def _natural(name: str) -> list[tuple[int, str]]:
    """Sort web-2 before web-10."""
    parts = re.split(r"([0-9]+)", name)
    return [(int(part) if part.isdecimal() else -1, part) for part in parts]


def summary(outcome: Outcome, *, with_real_time: bool = True) -> list[str]:
    """The last lines: what was not met, and figures.

    Without the real time they are the same for every run.
    """
    failed = [each for each in outcome.expectations if not each.is_met]
    lines = [f"FAIL {where_and_what(each)}" for each in failed]
    if outcome.problem:
        lines += [f"FAIL {printable(line)}" for line in outcome.problem.splitlines()]
    parts = [_met(outcome)] if outcome.expectations else []
    counts = Counter(outcome.counts)
    pods = f"{counts['bound']:,} of {counts['created']:,} pods bound"
    for number, what in (
        (counts["finished"], "finished"),
        (counts["deleted"], "deleted"),
        (outcome.figures.waits.still, "waiting"),
    ):
        pods += f", {number:,} {what}" if number else ""
    parts.append(pods)
    if number := counts[SKIPPED_ROWS]:
        parts.append(f"{number:,} row{'s' if number != 1 else ''} skipped")
    if number := counts[GAPS]:
        parts.append(f"{number:,} gap{'s' if number != 1 else ''} in the recording")
    if number := counts["attempts"]:
        attempts = f"{number:,} attempt{'s' if number != 1 else ''}"
        parts.append(f"{attempts}, {counts['verified']:,} verified")
    took = f" in {outcome.took_s:.1f} s" if with_real_time else ""
    parts.append(f"{outcome.cluster_s:,.1f} s of the cluster's time{took}")
    lines.append("; ".join(parts))
    return lines


def figure_rows(outcome: Outcome) -> list[tuple[str, str]]:
    """Names and texts of the figures; none if there was no pod."""
    counts, figures = Counter(outcome.counts), outcome.figures
    skipped = counts[SKIPPED_ROWS]
    if not counts["created"]:
        return []
    use = figures.nodes_in_use
    shares = [
        f"{_RESOURCES.get(name, name)} {share.mean:.1%} on average, {share.peak:.1%} at most"
        for name, share in figures.utilisation.items()
    ]
    nothing = "no pod requested anything" if figures.nodes else "the scenario created no node"
    evictions = {what: counts[name] for name, what in _EVICTIONS.items() if counts[name]}
    causes = ", ".join(f"{number:,} {what}" for what, number in evictions.items())
    return [
        ("waiting time", _waiting_time(figures.waits)),
        ("utilisation", "; ".join(shares) or nothing),
        (
            "nodes in use",
            f"{use.mean:,.1f} on average, {use.peak:,.0f} at most, {use.end:,.0f} at the end, "
            f"of {figures.nodes:,}",
        ),
        ("evictions", f"{sum(evictions.values()):,}{f': {causes}' if causes else ''}"),
        ("decisions", _decisions(counts)),
        *([("broken rows", f"{skipped:,} skipped")] if skipped else ()),
    ]


def _waiting_time(waits: Waits) -> str:
    still = f"{waits.still:,} still waiting, for up to {_seconds(waits.longest_still)}"
    if not waits.pods:
        return f"no pod was bound by the scheduler{f'; {still}' if waits.still else ''}"
    parts = [f"{name} {_seconds(getattr(waits, name))}" for name in ("p50", "p90", "p99")]
    text = f"{', '.join(parts)}, longest {_seconds(waits.longest)}"
    return f"{text}; {still}" if waits.still else text


def _decisions(counts: Counter[str]) -> str:
    attempts = counted(counts["attempts"], "attempt")
    text = f"{attempts}, {counts['failures']:,} of them found no node"
    return f"{text}; {counts['verified']:,} verified by the self-check"


def _seconds(number: float) -> str:
    return f"{number:,.0f} s" if number >= 1000 else f"{number:.1f} s"


def where_and_what(expectation: Expectation) -> str:
    where = f"{expectation.where}: " if expectation.where else ""
    found = f"; found: {expectation.found}" if expectation.found else ""
    return printable(f"{where}{expectation.text}{found}")


def as_data(outcome: Outcome, *, with_timeline: bool = True) -> dict[str, Any]:
    """Everything as plain data."""
    data: dict[str, Any] = {
        "name": outcome.name,
        "target": outcome.on,
        "seed": outcome.seed,
        "ok": outcome.is_ok,
        "problem": outcome.problem,
        "warnings": outcome.warnings,
        "expectations": [
            {
                "text": each.text,
                "met": each.is_met,
                "found": each.found,
                "where": each.where,
            }
            for each in outcome.expectations
        ],
        "placements": dict(sorted(outcome.placements.items())),
        "waiting": {key_of(pod): message_of(pod) for pod in outcome.pods if not node_of(pod)},
        "counts": dict(sorted(outcome.counts.items())),
        "figures": _figure_data(outcome.figures),
        "tookSeconds": round(outcome.took_s, 3),
        "clusterSeconds": round(outcome.cluster_s, 3),
    }
    if with_timeline:
        data["timeline"] = [entry_data(entry) for entry in outcome.entries]
    return data


def _figure_data(figures: Figures) -> dict[str, Any]:
    """Unrounded but for noise of floating point numbers."""

    def spread(of: Spread) -> dict[str, float]:
        return {name: round(number, 6) for name, number in asdict(of).items()}

    waits = figures.waits
    seconds = {name: round(getattr(waits, name), 6) for name in ("p50", "p90", "p99", "longest")}
    return {
        "waitingSeconds": {
            "pods": waits.pods,
            **seconds,
            "stillWaiting": waits.still,
            "longestStillWaiting": round(waits.longest_still, 6),
        },
        "utilisation": {name: spread(share) for name, share in figures.utilisation.items()},
        "nodesInUse": spread(figures.nodes_in_use),
        "nodes": figures.nodes,
    }


def entry_data(entry: Entry) -> dict[str, Any]:
    data: dict[str, Any] = {"at": round(entry.at, 6), "kind": entry.kind.value}
    if entry.subject:
        data["subject"] = entry.subject
    return data | {"text": entry.text, **entry.details}


class DecisionLog:
    """Writes a line of JSON for every attempt, eviction and binding as it happens."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self.lines = 0

    def __call__(self, entry: Entry) -> None:
        """Write the entry if it is a decision."""
        if entry.kind in _DECISIONS:
            text = json.dumps(entry_data(entry), ensure_ascii=False, sort_keys=True)
            self._write(f"{text}\n")
            self.lines += 1


def _state(pod: dict[str, Any]) -> str:
    """The phase; of one that has a node but no kubelet yet, that; of one that waits, why."""
    if node_of(pod):
        phase = phase_of(pod)
        return "Scheduled" if phase == "Pending" else phase
    message = message_of(pod)
    return printable(f"Pending: {message}" if message else "Pending")


def _met(outcome: Outcome) -> str:
    met, number = sum(each.is_met for each in outcome.expectations), len(outcome.expectations)
    if met == number:
        return f"{number} expectation{'s' if number != 1 else ''} met"
    return f"{number - met} of {number} expectations NOT met"


def is_worth_a_line(entry: Entry) -> bool:
    """True if the entry is shown even where a scenario has too many to show all."""
    return entry.kind in (
        EntryKind.STEP,
        EntryKind.SAID,
        EntryKind.FAULT,
        EntryKind.EXPECTATION,
    )
