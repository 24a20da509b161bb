"""Asks a plugin about a pod on a cluster as the scheduling cycle does, and writes down all it says.

`Asker` runs one instance through its points by the framework's own steps (`framework.forms`); the
`PluginAnswers` of two runs can be compared. An exception that a plugin raises is an answer, too, so
that a check fails for its own reason only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from stowplan.api.objects import Pod
from stowplan.cluster.journal import Rows
from stowplan.cluster.pod_info import compile_pod
from stowplan.errors import StowplanError
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import FilterStep, ScoreStep, as_status, call, row_set
from stowplan.framework.plugin import Plugin, PreFilterResult, points_of
from stowplan.framework.profile import Profile
from stowplan.framework.status import Status
from stowplan.framework.what_if import WhatIf
from stowplan.plugin_failures import describe
from stowplan.queue.pod import QueuedPod
from stowplan.testing.plugin_checks.subject import BREAKS, CaseCluster


@dataclass
class PluginAnswers:
    """What a plugin said about one pod, by node where it speaks of nodes."""

    pre_enqueue: str = ""
    sort_key: str = ""
    pre_filter: str = ""
    filter: dict[str, str] = field(default_factory=dict)
    pre_score: str = ""
    score: dict[str, int] = field(default_factory=dict)
    normalized: dict[str, int] = field(default_factory=dict)
    #: What it raised, and where.
    problem: str = ""
    raised: BaseException | None = field(default=None, compare=False, repr=False)

    def difference(self, other: PluginAnswers, here: str, there: str) -> str:
        """The first answer that is not the same, in words; "" if all are."""
        for each in fields(self):
            if not each.compare:
                continue
            mine, theirs = getattr(self, each.name), getattr(other, each.name)
            if mine == theirs:
                continue
            point = each.name.replace("problem", "raising")
            if not isinstance(mine, dict):
                return f"{point}: {mine or 'nothing'!s} {here}, {theirs or 'nothing'!s} {there}"
            for node in sorted({*mine, *theirs}):
                if mine.get(node) != theirs.get(node):
                    return (
                        f"{point} of node {node}: {_shown(mine.get(node))} {here},"
                        f" {_shown(theirs.get(node))} {there}"
                    )
        return ""


def _shown(answer: object) -> str:
    if answer is None:
        return "nothing"
    return "fits" if answer == "" else repr(answer)


class Asker:
    """One instance, asked again and again."""

    def __init__(self, plugin: Plugin, cluster: CaseCluster) -> None:
        self.plugin: Any = plugin
        self.cluster = cluster
        points = {point: [(plugin, 1)] for point in points_of(type(plugin))}
        self.profile = Profile("default-scheduler", points)
        self.filters: list[FilterStep] = self.profile.filters
        self.scores: list[ScoreStep] = self.profile.scores

    def start(self, pod: Pod) -> Cycle:
        return Cycle(self.cluster.table, compile_pod(pod), WhatIf(self.profile, None))

    def ask(self, pod: Pod) -> PluginAnswers:
        """All that the plugin has to say until a node is chosen."""
        answers = PluginAnswers()
        try:
            self._ask(pod, answers)
        except BREAKS as problem:
            told = str(problem) if isinstance(problem, StowplanError) else describe(problem)
            answers.problem, answers.raised = told, problem
        return answers

    def _ask(self, pod: Pod, answers: PluginAnswers) -> None:
        plugin, name = self.plugin, self.plugin.name
        if hasattr(plugin, "pre_enqueue"):
            said = call(plugin.pre_enqueue, name, "PreEnqueue", pod)
            answers.pre_enqueue = status_text(as_status(said, name, "PreEnqueue"))
        if hasattr(plugin, "sort_key"):
            queued = QueuedPod(pod, self.cluster.clock.monotonic())
            answers.sort_key = repr(call(plugin.sort_key, name, "QueueSort", queued))
        cycle = self.start(pod)
        rows = self.pre_filter(cycle, answers)
        if rows is None:
            return
        for step in self.filters:
            if name not in cycle.skip_filter:
                rows = self._filter(step, cycle, rows, answers)
        self._score(cycle, rows, answers)

    def pre_filter(self, cycle: Cycle, answers: PluginAnswers) -> Rows | None:
        """The rows to go on with; None if the pod is refused."""
        table, plugin = self.cluster.table, self.plugin
        rows = table.order
        if not hasattr(plugin, "pre_filter"):
            return rows
        said = call(plugin.pre_filter, plugin.name, "PreFilter", cycle)
        if isinstance(said, PreFilterResult):
            if said.nodes is None:
                return rows
            answers.pre_filter = f"only {', '.join(sorted(said.nodes))}"
            return np.array([r for r in rows.tolist() if table.names[r] in said.nodes], np.intp)
        status = as_status(said, plugin.name, "PreFilter")
        answers.pre_filter = status_text(status)
        if status.is_skip:
            cycle.skip_filter.add(plugin.name)
        elif not status.is_success:
            return None
        return rows

    def _filter(self, step: FilterStep, cycle: Cycle, rows: Rows, answers: PluginAnswers) -> Rows:
        table = self.cluster.table
        verdicts = np.zeros(table.capacity, np.int32)
        step.fill(cycle, row_set(table, rows), verdicts)
        for row in rows.tolist():
            verdict = int(verdicts[row])
            told = status_text(step.status(cycle, verdict)) if verdict else ""
            answers.filter[table.names[row]] = told
        passing: Rows = rows[verdicts[rows] == 0]
        return passing

    def _score(self, cycle: Cycle, rows: Rows, answers: PluginAnswers) -> None:
        if not len(rows) or not self.pre_score(cycle, rows, answers):
            return
        table = self.cluster.table
        for step in self.scores:
            raw = np.zeros(table.capacity, np.int64)
            step.fill(cycle, row_set(table, rows), raw)
            answers.score = self.by_node(rows, raw[rows])
            answers.normalized = self.by_node(rows, step.finish(cycle, raw[rows]))

    def pre_score(self, cycle: Cycle, rows: Rows, answers: PluginAnswers) -> bool:
        """Whether there is something to score."""
        plugin = self.plugin
        if not hasattr(plugin, "pre_score"):
            return True
        said = call(plugin.pre_score, plugin.name, "PreScore", cycle, rows)
        status = as_status(said, plugin.name, "PreScore")
        answers.pre_score = status_text(status)
        return status.is_success

    def by_node(self, rows: Rows, values: Any) -> dict[str, int]:
        names = self.cluster.table.names
        return {names[row]: int(value) for row, value in zip(rows.tolist(), values, strict=True)}


def status_text(status: Status) -> str:
    """A status in one line; "" is success."""
    if status.is_success:
        return ""
    return f"{status.code.label}: {status.message}" if status.reasons else status.code.label


def in_words(pod: Pod, answers: Mapping[str, Any] | None = None) -> str:
    """A pod as messages name it."""
    return f"pod {pod.key}"
