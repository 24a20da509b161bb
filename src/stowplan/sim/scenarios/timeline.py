"""What happened in a scenario, as plain data: entries in order of time, and the outcome.

Filled by `recording` and `cluster`, read by the reports. Times are seconds since the scenario
began, in the cluster's own time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

import msgspec

from stowplan.sim.results.run import Run
from stowplan.sim.scenarios.drawing import Drawing
from stowplan.sim.scenarios.figures import Figures

#: The count of a trace's broken rows that were left out (`skipBroken`).
SKIPPED_ROWS: Final = "skippedRows"
#: The count of moments of a recording before which changes may be missing.
GAPS: Final = "gaps"


class EntryKind(StrEnum):
    """The kind of an entry."""

    STEP = "step"
    SAID = "said"
    CREATED = "created"
    CHANGED = "changed"
    DELETED = "deleted"
    DECIDED = "decided"
    UNSCHEDULABLE = "unschedulable"
    BOUND = "bound"
    PREEMPTED = "preempted"
    FINISHED = "finished"
    FAULT = "fault"
    EXPECTATION = "expectation"


class Entry(msgspec.Struct, frozen=True):
    """One thing that happened. `subject` is `pod default/web-0`, `node n1`, or ""."""

    at: float
    kind: EntryKind
    subject: str
    text: str
    details: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Expectation:
    """An expectation and its result; `found` is what was found instead."""

    text: str
    is_met: bool
    found: str = ""
    #: `file:line` or `step 3`.
    where: str = ""


@dataclass(slots=True)
class Outcome:
    """The outcome of a scenario."""

    name: str
    on: str
    seed: int
    # No part of a large outcome is in its repr(): asyncio makes one of every task's result.
    entries: list[Entry] = field(default_factory=list, repr=False)
    #: Every pod that was there at the end, by namespace/name, and its node or "".
    placements: dict[str, str] = field(default_factory=dict, repr=False)
    expectations: list[Expectation] = field(default_factory=list)
    #: Why it did not come to its end, in words: an assertion or an error of the scenario's.
    problem: str = ""
    #: The last exception or wrong answer of a plugin, even if the scenario came to its end.
    plugin_failure: str = ""
    #: What explains odd results: objects that were left out, pods that no profile serves.
    warnings: list[str] = field(default_factory=list)
    #: Real seconds, and the cluster's.
    took_s: float = 0.0
    cluster_s: float = 0.0
    #: How many pods were created, bound, finished, deleted, drained, lost with their node; how
    #: many attempts, failures and preemptions there were; how many decisions were verified.
    counts: dict[str, int] = field(default_factory=dict)
    figures: Figures = field(default_factory=Figures)
    #: The cluster as it was at the end: manifests by kind.
    #: What a page needs to draw it at any moment, if that was asked for.
    drawing: Drawing | None = field(default=None, repr=False)
    nodes: list[dict[str, Any]] = field(default_factory=list, repr=False)
    pods: list[dict[str, Any]] = field(default_factory=list, repr=False)

    #: For comparisons, if that was asked for.
    run: Run | None = field(default=None, repr=False)

    @property
    def is_ok(self) -> bool:
        return not self.problem and all(each.is_met for each in self.expectations)
