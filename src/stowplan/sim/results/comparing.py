"""Runs side by side: figures of each, and which pods went elsewhere, fit now or no longer."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from stowplan.sim.results.run import Gap, Run, percentile

Unit: TypeAlias = Literal["s", "%", "", "nodes", "money"]

#: The key of a pod in a recording with hashed names; a replay numbers pods that it preempts.
_HASHED: Final = re.compile(r".*/h[0-9a-f]{16}(-r[0-9]+)?")
#: Figures by name, as `--fail-on` and JSON call them: unit, and words for people.
FIGURES: Final[dict[str, tuple[Unit, str]]] = {
    "pods": ("", "pods"),
    "placed": ("", "pods that got a node"),
    "unplaced": ("", "pods that never got a node"),
    "pending": ("", "pods that wait at the end"),
    "pending_p50": ("s", "waiting time, p50"),
    "pending_p90": ("s", "waiting time, p90"),
    "pending_p99": ("s", "waiting time, p99"),
    "evictions": ("", "pods evicted for others"),
    "cpu": ("%", "CPU requested, mean"),
    "memory": ("%", "memory requested, mean"),
    "nodes_in_use": ("nodes", "nodes in use, mean"),
    "fragmentation": ("%", "unusable free CPU (too small for the most common pod), mean"),
    "imbalance": ("%", "zone imbalance (fullest minus emptiest, share of pods), mean"),
    "cost": ("money", "cost of all nodes"),
    "cost_in_use": ("money", "cost of nodes in use"),
    "gaps": ("", "gaps in the recording"),
    "moved": ("", "pods on another node than in the first run"),
}


@dataclass(frozen=True, slots=True)
class Moves:
    """The pods of a run beside those of the first one."""

    #: Pod, node in the first run, node in this one.
    moved: tuple[tuple[str, str, str], ...] = ()
    #: Pods that got a node here, and not in the first run; and the other way round.
    fit_now: tuple[str, ...] = ()
    fit_no_longer: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Comparison:
    runs: tuple[Run, ...]
    #: By run.
    figures: tuple[dict[str, float], ...]
    moves: tuple[Moves, ...] = field(default=())


def compare(runs: Sequence[Run]) -> Comparison:
    """All runs beside the first one."""
    moves = tuple(moves_between(runs[0], run) for run in runs)
    figures = tuple(
        {**figures_of(run), "moved": len(each.moved)} for run, each in zip(runs, moves, strict=True)
    )
    return Comparison(tuple(runs), figures, moves)


def figures_of(run: Run) -> dict[str, float]:
    """Every figure but `moved`; counts are whole numbers."""
    lives = run.pods.values()
    waits = run.waits()
    placed = sum(1 for life in lives if life.bound is not None)
    return {
        "pods": len(lives),
        "placed": placed,
        "unplaced": len(lives) - placed,
        "pending": sum(1 for life in lives if life.bound is None and life.ended is None),
        **{f"pending_p{share}": percentile(waits, share) for share in (50, 90, 99)},
        "evictions": sum(1 for life in lives if life.preempted),
        **{name: run.mean(name) for name in ("cpu", "memory", "nodes_in_use")},
        **{name: run.mean(name) for name in ("fragmentation", "imbalance")},
        "cost": run.cost,
        "cost_in_use": run.cost_in_use,
        "gaps": len(run.gaps),
    }


def moves_between(first: Run, other: Run) -> Moves:
    moved: list[tuple[str, str, str]] = []
    now: list[str] = []
    no_longer: list[str] = []
    for name, life in first.pods.items():
        there = other.pods.get(name)
        if there is None:
            continue
        if life.node and there.node:
            if life.node != there.node:
                moved.append((name, life.node, there.node))
        elif there.node:
            now.append(name)
        elif life.node:
            no_longer.append(name)
    return Moves(tuple(moved), tuple(now), tuple(no_longer))


def few_shared_pods(first: Run, other: Run) -> str:
    """A sentence if less than half of the smaller run's pods are in the other one, or nothing."""
    shared = len(first.pods.keys() & other.pods.keys())
    smaller = min(first, other, key=lambda run: len(run.pods))
    if first.pods.keys() == other.pods.keys() or 2 * shared >= max(len(smaller.pods), 1):
        return ""
    count = "no pods" if not shared else f"{shared:,} of {len(smaller.pods):,} pods"
    why = "the runs may be of different workloads"
    match sum(any(map(_HASHED.fullmatch, run.pods)) for run in (first, other)):
        case 1:
            why = "names are hashed in only one of the runs"
        case 2:
            why += ", or names are hashed with different keys"
    return f"{first.name} and {other.name} share {count}. Pods are matched by name; {why}"


def shared_gaps(runs: Sequence[Run]) -> dict[tuple[str, ...], list[Gap]]:
    """Gaps by the names of the runs that have them: replays have those of their recording."""
    holders: dict[tuple[Gap, int], list[str]] = {}
    for run in runs:
        seen: Counter[Gap] = Counter()
        for gap in run.gaps:
            seen[gap] += 1  # equal gaps of one run all count
            holders.setdefault((gap, seen[gap]), []).append(run.name)
    found: dict[tuple[str, ...], list[Gap]] = {}
    for (gap, _), names in holders.items():
        found.setdefault(tuple(names), []).append(gap)
    return found


def exactly(name: str, number: float) -> str:
    """A figure with all its digits."""
    unit, _ = FIGURES[name]
    scale, suffix = {"%": (100, "%"), "s": (1, " s")}.get(unit, (1, ""))
    return f"{number * scale:.10g}{suffix}"


def shown(name: str, number: float) -> str:
    """A figure for people."""
    unit, _ = FIGURES[name]
    match unit:
        case "s":
            return f"{number:,.0f} s" if number >= 1000 else f"{number:.1f} s"
        case "%":
            return f"{number:.1%}"
        case "money":
            return f"{number:,.2f}"
        case "nodes":
            return f"{number:,.1f}"
    return f"{number:,.0f}"
