"""What the pure cycle asks of extenders. It yields a request; the loop sends it the answer.

Configurations with extenders are refused until the extender client exists; the cycle is ready.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import numpy as np

from stowplan.api.objects import Pod
from stowplan.cluster.journal import Rows
from stowplan.framework.cycle import Cycle
from stowplan.framework.status import unresolvable, unschedulable
from stowplan.scheduler.decision import Diagnosis, ScoreSheet

#: Who rejected, where it was an extender.
EXTENDER = "Extender"


class Extender(Protocol):
    """A configured extender, as far as the cycle needs to know it."""

    name: str
    filters: bool
    prioritizes: bool

    def is_interested(self, pod: Pod) -> bool: ...


@dataclass(frozen=True, slots=True)
class FilterRequest:
    extender: Extender
    pod: Pod
    nodes: Sequence[str]


@dataclass(frozen=True, slots=True)
class FilterAnswer:
    """Names that stay, and why others do not. A name in neither stays out without a word."""

    nodes: frozenset[str]
    failed: Mapping[str, str] = field(default_factory=dict)
    unresolvable: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PrioritizeRequest:
    extender: Extender
    pod: Pod
    nodes: Sequence[str]


@dataclass(frozen=True, slots=True)
class PrioritizeAnswer:
    """Scores to add, already on the scale of node scores times the extender's weight."""

    scores: Mapping[str, int] = field(default_factory=dict)


Request: TypeAlias = FilterRequest | PrioritizeRequest
Answer: TypeAlias = FilterAnswer | PrioritizeAnswer


def ask_to_filter(
    extenders: Sequence[Extender], feasible: Rows, cycle: Cycle, diagnosis: Diagnosis
) -> Generator[Request, Answer, Rows]:
    """Ask one extender after the other, each about what the one before has left."""
    for extender in extenders:
        if not extender.filters or not len(feasible):
            continue
        names = [cycle.table.names[row] for row in feasible]
        answer = yield FilterRequest(extender, cycle.pod, names)
        assert isinstance(answer, FilterAnswer)
        kept = np.ones(len(feasible), np.bool_)
        for place, (name, row) in enumerate(zip(names, feasible.tolist(), strict=True)):
            if name in answer.unresolvable:
                status = unresolvable(answer.unresolvable[name])
            elif name in answer.nodes:
                continue
            else:
                status = unschedulable(*filter(None, [answer.failed.get(name)]))
            kept[place] = False
            diagnosis.overrides[row] = status.by(EXTENDER)
        if not kept.all():
            diagnosis.unschedulable_plugins.add(EXTENDER)
        feasible = feasible[kept]
    return feasible


def ask_to_prioritize(
    extenders: Sequence[Extender], sheet: ScoreSheet, cycle: Cycle
) -> Generator[Request, Answer, None]:
    asked = [extender for extender in extenders if extender.prioritizes]
    if not asked:
        return
    names = [cycle.table.names[row] for row in sheet.rows]
    for extender in asked:
        answer = yield PrioritizeRequest(extender, cycle.pod, names)
        assert isinstance(answer, PrioritizeAnswer)
        scores = np.array([answer.scores.get(name, 0) for name in names], np.int64)
        sheet.by_plugin.append((extender.name, scores))
        sheet.totals += scores
