"""What came of a scenario, for people and for programs.

`timeline_line` is one line of the timeline, printed while it happens; `tables` and `summary` come
at the end; `as_data` is `-o json`, `decision_log` what `--decisions` writes. Pure text and data.
What must stay true: nothing that a cluster says can move a terminal's cursor, and a decision log
holds nothing that differs between two runs of one seed in virtual time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from stowplan.present.tables import printable
from stowplan.sim.scenarios.facts import key_of, message_of, node_of, phase_of
from stowplan.sim.scenarios.timeline import Entry, EntryKind, Expectation, Outcome

#: More pods than this are listed by node, not one by one.
FEW_PODS: Final = 50
#: How many pending pods are listed even then.
_MOST_WAITING: Final = 10
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
        pods = sorted(outcome.pods, key=key_of)
        told = [(printable(key_of(pod)), node_of(pod), _state(pod)) for pod in pods]
        return [Table(("pod", "node", "state"), tuple(told))]
    held: dict[str, int] = {node["metadata"]["name"]: 0 for node in outcome.nodes}
    for pod in outcome.pods:
        if node := node_of(pod):
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


def summary(outcome: Outcome) -> list[str]:
    """The last lines: what was not met, and figures."""
    failed = [each for each in outcome.expectations if not each.is_met]
    lines = [f"FAIL {where_and_what(each)}" for each in failed]
    if outcome.problem:
        lines += [f"FAIL {printable(line)}" for line in outcome.problem.splitlines()]
    bound = sum(bool(node) for node in outcome.placements.values())
    parts = [_met(outcome)] if outcome.expectations else []
    parts.append(f"{bound:,} of {len(outcome.placements):,} pods have a node")
    counts = outcome.counts
    for name, word in (
        ("attempts", "attempt"),
        ("preemptions", "preemption"),
        ("finished", "finished pod"),
    ):
        if number := counts.get(name, 0):
            parts.append(f"{number:,} {word}{'s' if number != 1 else ''}")
    parts.append(f"{outcome.cluster_s:.1f} s of the cluster's time in {outcome.took_s:.1f} s")
    lines.append("; ".join(parts))
    return lines


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
        "tookSeconds": round(outcome.took_s, 3),
        "clusterSeconds": round(outcome.cluster_s, 3),
    }
    if with_timeline:
        data["timeline"] = [entry_data(entry) for entry in outcome.entries]
    return data


def entry_data(entry: Entry) -> dict[str, Any]:
    data: dict[str, Any] = {"at": round(entry.at, 6), "kind": entry.kind.value}
    if entry.subject:
        data["subject"] = entry.subject
    return data | {"text": entry.text, **entry.details}


def decision_log(entries: Iterable[Entry]) -> Iterator[str]:
    """A line of JSON for every attempt, eviction and binding."""
    for entry in entries:
        if entry.kind in _DECISIONS:
            yield json.dumps(entry_data(entry), ensure_ascii=False, sort_keys=True) + "\n"


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
