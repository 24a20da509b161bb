"""One attempt's outcome: the record that events, conditions, logs, metrics and explanations read.

There is no second explanation logic: whoever wants to say why a pod went somewhere or nowhere
asks its `Decision`. Success keeps arrays, not a dict per node; failure keeps verdict columns and
counts; texts are made when they are read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from stowplan.api.objects import Pod
from stowplan.cluster.journal import Rows
from stowplan.cluster.table import BoolArray, Int32Array, Int64Array, NodeTable
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import FilterStep
from stowplan.framework.plugin import Eviction
from stowplan.framework.status import (
    SUCCESS,
    Code,
    SharedReasons,
    Status,
    fit_error,
    unresolvable,
)

NO_NODES = "no nodes available to schedule pods"


@dataclass(frozen=True, slots=True)
class NodeScore:
    """A node's weighted score, in all and by plugin."""

    node: str
    total: int
    by_plugin: dict[str, int]


@dataclass(slots=True)
class ScoreSheet:
    """Weighted scores of the feasible rows, one array a plugin."""

    table: NodeTable
    rows: Rows
    totals: Int64Array
    by_plugin: list[tuple[str, Int64Array]] = field(default_factory=list)
    #: Rows among which a tie is drawn, because an extender scored them; None: no extender did.
    drawn: BoolArray | None = None

    def top(self, count: int) -> list[NodeScore]:
        """The best nodes, highest total first."""
        best = np.argsort(-self.totals, kind="stable")[:count]
        return [self._score(int(place)) for place in best]

    def _score(self, place: int) -> NodeScore:
        return NodeScore(
            self.table.names[self.rows[place]],
            int(self.totals[place]),
            {name: int(scores[place]) for name, scores in self.by_plugin},
        )


@dataclass(slots=True)
class Diagnosis:
    """Why no node took the pod."""

    cycle: Cycle
    total_nodes: int
    #: Rows that Filter looked at, and what PreFilter had to say of all others.
    candidates: BoolArray | None = None
    absent: Status = field(default_factory=unresolvable)
    #: Each filter that ran and its verdict column, in running order: the first failure counts.
    columns: list[tuple[FilterStep, Int32Array]] = field(default_factory=list)
    #: Rows whose answer is not in the columns: nominated pods in the way, or an extender's word.
    overrides: dict[int, Status] = field(default_factory=dict)
    pre_filter_message: str = ""
    post_filter_message: str = ""
    unschedulable_plugins: set[str] = field(default_factory=set)
    pending_plugins: set[str] = field(default_factory=set)
    #: Every answer and its rows, once nothing about them changes any more.
    settled: list[tuple[Status, Rows]] | None = None

    def reject(self, status: Status) -> None:
        """Note which plugin rejected: its events bring the pod back."""
        if status.plugin:
            names = self.pending_plugins if status.code is Code.PENDING else None
            (self.unschedulable_plugins if names is None else names).add(status.plugin)

    def groups(self) -> Iterator[tuple[Status, Rows]]:
        """Every distinct answer and the rows that gave it."""
        return iter(self._find_groups() if self.settled is None else self.settled)

    def _find_groups(self) -> Iterator[tuple[Status, Rows]]:
        if self.candidates is None:
            return
        left = self.candidates.copy()
        # Hundreds of rows may share one answer, and then it is the same object.
        overridden: dict[int, tuple[Status, list[int]]] = {}
        for row, status in self.overrides.items():
            overridden.setdefault(id(status), (status, []))[1].append(row)
        for status, some in overridden.values():
            rows = np.array(some, dtype=np.intp)
            left[rows] = False
            yield status, rows
        for step, verdicts in self.columns:
            failed = left & (verdicts != 0)
            rows = np.flatnonzero(failed)
            if not len(rows):
                continue
            ids = verdicts[rows]
            if ids.min() == ids.max():
                # All for the same reason, mostly; sorting them would take longer than all the rest.
                yield step.status(self.cycle, int(ids[0])), rows
                left &= ~failed
                continue
            for verdict_id in np.unique(ids).tolist():
                yield step.status(self.cycle, verdict_id), rows[ids == verdict_id]
            left &= ~failed

    def status_of(self, row: int) -> Status:
        """One row's answer."""
        if row in self.overrides:
            return self.overrides[row]
        if self.candidates is None or not self.candidates[row]:
            return self.absent
        for step, verdicts in self.columns:
            if verdicts[row]:
                return step.status(self.cycle, int(verdicts[row]))
        return SUCCESS

    def rows_of(self, code: Code) -> Rows:
        """Rows that answered with this code, in the order of nodes."""
        table = self.cycle.table
        mask = table.valid.copy() if self.absent.code is code else np.zeros_like(table.valid)
        if self.candidates is not None:
            mask &= ~self.candidates
        for status, rows in self.groups():
            mask[rows] = status.code is code
        return table.order[mask[table.order]]

    def settle(self) -> None:
        """Nothing fits: keep what moves on with the table, note every plugin that rejected."""
        assert self.candidates is not None
        self.candidates = self.candidates.copy()
        self.columns = [(step, verdicts.copy()) for step, verdicts in self.columns]
        self.settled = list(self._find_groups())
        for status, _ in self.settled:
            self.reject(status)

    def reasons(self) -> Counter[str]:
        """How many nodes gave each reason."""
        counts: Counter[str] = Counter()
        common: dict[int, tuple[Sequence[str], int]] = {}
        for status, rows in self.groups():
            own = status.reasons
            if isinstance(own, SharedReasons):
                # Thousands of nodes may give thousands of reasons: count the common ones once.
                rest, total = common.get(id(own.common), (own.common, 0))
                common[id(rest)] = rest, total + len(rows)
                own = own.own
            for reason in own:
                counts[reason] += len(rows)
        for rest, total in common.values():
            for reason in rest:
                counts[reason] += total
        if self.candidates is not None:
            outside = int(np.count_nonzero(~self.candidates[list(self.overrides)]))
            absent = self.total_nodes - int(self.candidates.sum()) - outside
            if absent:
                for reason in self.absent.reasons:
                    counts[reason] += absent
        return counts

    def message(self) -> str:
        """kube-scheduler's FitError text."""
        if self.pre_filter_message:
            text = f"{fit_error(self.total_nodes, {})} {self.pre_filter_message}."
        else:
            text = fit_error(self.total_nodes, self.reasons())
        if self.post_filter_message:
            text += f" {self.post_filter_message}"
        return text


@dataclass(slots=True)
class Decision:
    """What one attempt came to."""

    cycle: Cycle
    profile: str
    status: Status
    #: The chosen node; None when there is none.
    node: str | None = None
    #: The text of the failure, as events and the condition show it.
    message: str = ""
    diagnosis: Diagnosis | None = None
    #: The scores, or what makes them when they are read.
    sheet: ScoreSheet | Callable[[], ScoreSheet] | None = None
    evaluated_nodes: int = 0
    feasible_nodes: int = 0
    #: Where the next attempt starts to look at nodes.
    cursor: int = 0
    table_version: int = 0
    #: From PostFilter: None leaves the pod's nomination alone, "" clears it.
    nominated_node: str | None = None
    #: From PostFilter: who must leave which node to make room.
    eviction: Eviction | None = None

    @property
    def pod(self) -> Pod:
        return self.cycle.pod

    @property
    def scores(self) -> ScoreSheet | None:
        """What the feasible nodes scored, if they were scored; good until the next decision."""
        return self.sheet() if callable(self.sheet) else self.sheet

    @property
    def unschedulable_plugins(self) -> set[str]:
        return self.diagnosis.unschedulable_plugins if self.diagnosis is not None else set()

    @property
    def pending_plugins(self) -> set[str]:
        return self.diagnosis.pending_plugins if self.diagnosis is not None else set()
