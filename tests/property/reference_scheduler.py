"""kube-scheduler's cycle, node by node in plain Python: no columns, no caches, no cleverness.

Written after schedule_one.go and runtime/framework.go, with the plugins' per-node forms, one worker
and no extenders. It shares nothing with the product's cycle but the plugins and the table's order.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stowplan.cluster.pod_info import PodInfo, compile_pod
from stowplan.cluster.table import NodeTable
from stowplan.cluster.views import NodeView, Overlay
from stowplan.framework.cycle import Cycle
from stowplan.framework.plugin import Plugin, PreFilterResult
from stowplan.framework.status import SUCCESS, Code, Status
from stowplan.queue.nominator import Nominator
from tests.unit.scheduler.go_heap import GoHeap


@dataclass
class Outcome:
    """What is compared."""

    node: str | None
    message: str
    cursor: int
    evaluated: int = 0
    feasible: int = 0
    plugins: set[str] = field(default_factory=set)
    totals: dict[str, int] | None = None


class Reference:
    """One attempt."""

    def __init__(
        self,
        table: NodeTable,
        info: PodInfo,
        plugins: Sequence[Plugin],
        *,
        weights: Mapping[str, int],
        percentage: int,
        cursor: int,
        nominated: Nominator,
    ) -> None:
        self.table = table
        self.info = info
        self.pod = info.pod
        self.plugins = plugins
        self.weights = weights
        self.percentage = percentage
        self.cursor = cursor
        self.nominated = nominated
        self.cycle = Cycle(table, info)
        self.order = [table.names[row] for row in table.order]
        self.statuses: dict[str, Status] = {}
        self.absent = ""
        self.rejected_by: set[str] = set()
        self.skip_filter: set[str] = set()
        self.narrowed: set[str] | None = None

    def run(self) -> Outcome:
        if not self.order:
            return Outcome(None, "no nodes available to schedule pods", self.cursor)
        message = self._pre_filter()
        if message is not None:
            return self._nowhere(f" {message}.")
        feasible = self._evaluate_nominated()
        if not feasible:
            names = self.order
            if self.narrowed is not None:
                names = [name for name in self.order if name in self.narrowed]
                plugins = " ".join(sorted(self.rejected_by))
                self.absent = f"node(s) didn't satisfy plugin(s) [{plugins}]"
            feasible = self._find(names)
            processed = len(feasible) + len(self.statuses)
            self.cursor = (self.cursor + processed) % len(self.order)
        if not feasible:
            return self._nowhere(self._histogram())
        totals = self._prioritize(feasible) if len(feasible) > 1 else None
        chosen = feasible[0]
        if totals is not None:
            chosen = feasible[GoHeap([totals[name] for name in feasible]).pop()]
        evaluated = len(feasible) + len(self.statuses)
        return Outcome(chosen, "", self.cursor, evaluated, len(feasible), set(), totals)

    # Points

    def _with(self, *methods: str) -> list[Any]:
        return [p for p in self.plugins if any(hasattr(p, method) for method in methods)]

    def _pre_filter(self) -> str | None:
        last: Status | None = None
        with_nodes: set[str] = set()
        for plugin in self._with("pre_filter"):
            answer = plugin.pre_filter(self.cycle)
            if isinstance(answer, PreFilterResult):
                if answer.nodes is None:
                    continue
                with_nodes.add(plugin.name)
                names = set(answer.nodes)
                self.narrowed = names if self.narrowed is None else self.narrowed & names
                if not self.narrowed:
                    self.rejected_by = with_nodes
                    listed = sorted(with_nodes)
                    if len(listed) == 1:
                        return f"node(s) didn't satisfy plugin {listed[0]}"
                    return f"node(s) didn't satisfy plugin(s) [{' '.join(listed)}] simultaneously"
                continue
            status = answer or SUCCESS
            if status.code is Code.SKIP:
                self.skip_filter.add(plugin.name)
            elif status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                self.rejected_by = {plugin.name}
                return ", ".join(status.reasons)
            elif status.code is Code.UNSCHEDULABLE:
                last = status.by(plugin.name)
        self.rejected_by = with_nodes
        if last is not None:
            self.rejected_by = with_nodes | {last.plugin}
            return ", ".join(last.reasons)
        return None

    def _evaluate_nominated(self) -> list[str]:
        name = self.pod.status.nominated_node_name
        return self._filter_in_turn([name], 0) if name in self.order else []

    def _find(self, names: Sequence[str]) -> list[str]:
        return self._filter_in_turn(names, self.cursor) if names else []

    def _filter_in_turn(self, names: Sequence[str], start: int) -> list[str]:
        wanted = self._how_many(len(names))
        feasible: list[str] = []
        for i in range(len(names)):
            name = names[(start + i) % len(names)]
            status = self._filter_with_nominated(name)
            if status is not None:
                self.statuses[name] = status
                self.rejected_by.add(status.plugin)
            elif len(feasible) == wanted:
                break
            else:
                feasible.append(name)
        return feasible

    def _how_many(self, total: int) -> int:
        if not self._with("score", "score_columns"):
            return 1
        if total < 100:
            return total
        percentage = self.percentage or max(50 - total // 125, 5)
        return max(total * percentage // 100, 100)

    def _filter_with_nominated(self, name: str) -> Status | None:
        row = self.table.row_of[name]
        promised = [
            compile_pod(other)
            for other in self.nominated.for_node(name)
            if other.priority >= self.pod.priority and other.uid != self.pod.uid
        ]
        if promised:
            overlay = Overlay(self.table, {row: promised})
            status = self._filter(NodeView(self.table, row, overlay))
            if status is not None:
                return status
        return self._filter(NodeView(self.table, row))

    def _filter(self, node: NodeView) -> Status | None:
        for plugin in self._with("filter"):
            if plugin.name in self.skip_filter:
                continue
            answer = self._ask(plugin.filter, node)
            if answer is not None:
                assert isinstance(answer, Status)
                return answer.by(plugin.name)
        return None

    def _prioritize(self, names: Sequence[str]) -> dict[str, int]:
        rows = [self.table.row_of[name] for name in names]
        skip = {
            plugin.name
            for plugin in self._with("pre_score")
            if (status := plugin.pre_score(self.cycle, np.array(rows))) is not None
            and status.code is Code.SKIP
        }
        totals = dict.fromkeys(names, 0)
        for plugin in self._with("score"):
            if plugin.name in skip:
                continue
            raw = [self._ask(plugin.score, NodeView(self.table, row)) for row in rows]
            if hasattr(plugin, "normalize"):
                raw = plugin.normalize(self.cycle, np.array(raw, np.int64)).tolist()
            for name, score in zip(names, raw, strict=True):
                assert 0 <= score <= 100
                totals[name] += score * self.weights.get(plugin.name, 1)
        return totals

    def _ask(self, method: Any, node: NodeView) -> Any:
        wants_cycle = len(inspect.signature(method).parameters) == 3
        return method(self.pod, node, self.cycle) if wants_cycle else method(self.pod, node)

    # Failure

    def _nowhere(self, why: str) -> Outcome:
        message = f"0/{len(self.order)} nodes are available:{why}"
        return Outcome(None, message, self.cursor, plugins=self.rejected_by)

    def _histogram(self) -> str:
        counts: Counter[str] = Counter()
        for status in self.statuses.values():
            counts.update(status.reasons)
        absent = len(self.order) - len(self.statuses)
        if absent and self.absent:
            counts[self.absent] += absent
        texts = sorted(f"{count} {reason}" for reason, count in counts.items())
        return f" {', '.join(texts)}." if texts else ""
