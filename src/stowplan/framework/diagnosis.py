"""Why no node took a pod: what each filter said, kept as columns until it is read.

PreFilter, Filter and extenders write a `Diagnosis`; PostFilter plugins, the queue and the texts of
events read it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from stowplan.cluster.journal import Rows
from stowplan.cluster.table import BoolArray, Int32Array
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import FilterStep
from stowplan.framework.status import (
    SUCCESS,
    Code,
    SharedReasons,
    Status,
    fit_error,
    unresolvable,
)

_ABSENT: Final = unresolvable()


@dataclass(slots=True)
class Settled:
    """The final verdicts on a pod that fits nowhere. Pods of one shape share it: read only."""

    candidates: BoolArray
    columns: list[tuple[FilterStep, Int32Array]]
    #: Every status and its rows.
    groups: list[tuple[Status, Rows]]
    unschedulable_plugins: frozenset[str]
    pending_plugins: frozenset[str]
    #: Computed when they are read first.
    rows_by_code: dict[Code, Rows] = field(default_factory=dict)
    text: str = ""

    @property
    def nbytes(self) -> int:
        columns = sum(verdicts.nbytes for _, verdicts in self.columns)
        # The rows of all groups, and as many by code.
        return self.candidates.nbytes + columns + 2 * sum(rows.nbytes for _, rows in self.groups)


@dataclass(slots=True)
class Diagnosis:
    """Why no node took the pod."""

    cycle: Cycle
    total_nodes: int
    #: Rows that PreFilter left to Filter, and the status of all others. None: Filter did not run.
    candidates: BoolArray | None = None
    absent: Status = _ABSENT
    #: Each filter that ran and its verdict column, in running order: the first failure counts.
    columns: list[tuple[FilterStep, Int32Array]] = field(default_factory=list)
    #: Rows whose status is not in the columns: refused because of nominated pods, by an extender,
    #: or in the row-by-row pass.
    overrides: dict[int, Status] = field(default_factory=dict)
    pre_filter_message: str = ""
    post_filter_message: str = ""
    unschedulable_plugins: set[str] = field(default_factory=set)
    pending_plugins: set[str] = field(default_factory=set)
    #: Filters whose columns the search did not read, because it knew the rows that pass them.
    unread: Sequence[FilterStep] = ()
    #: If the search ended early: the order of nodes, where it began and how many it looked at.
    part: tuple[Rows, int, int] | None = None
    settled: Settled | None = None

    def reject(self, status: Status) -> None:
        """Note which plugin rejected: its events requeue the pod."""
        if status.plugin:
            names = self.pending_plugins if status.code is Code.PENDING else None
            (self.unschedulable_plugins if names is None else names).add(status.plugin)

    def groups(self) -> Iterator[tuple[Status, Rows]]:
        """Every distinct status and its rows."""
        return iter(self._find_groups() if self.settled is None else self.settled.groups)

    def _find_groups(self) -> Iterator[tuple[Status, Rows]]:
        if self.candidates is None:
            return
        left = self.candidates.copy()
        # Hundreds of rows may share one status, and then it is the same object.
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
                # Mostly all fail for one reason. Sorting would take longer than all the rest.
                yield step.status(self.cycle, int(ids[0])), rows
                left &= ~failed
                continue
            for verdict_id in np.unique(ids).tolist():
                yield step.status(self.cycle, verdict_id), rows[ids == verdict_id]
            left &= ~failed

    def absent_count(self) -> int:
        """How many nodes PreFilter kept from the search."""
        if self.candidates is None:
            return self.total_nodes
        outside = int(np.count_nonzero(~self.candidates[list(self.overrides)]))
        return self.total_nodes - int(np.count_nonzero(self.candidates)) - outside

    def status_of(self, row: int) -> Status:
        """One row's status."""
        if row in self.overrides:
            return self.overrides[row]
        if self.candidates is None or not self.candidates[row]:
            return self.absent
        for step, verdicts in self.columns:
            if verdicts[row]:
                return step.status(self.cycle, int(verdicts[row]))
        return SUCCESS

    def rows_of(self, code: Code) -> Rows:
        """Rows whose status has this code, in the order of nodes. Read only."""
        known = self.settled.rows_by_code if self.settled is not None else {}
        if code in known:
            return known[code]
        table = self.cycle.table
        mask = table.valid.copy() if self.absent.code is code else np.zeros_like(table.valid)
        if self.candidates is not None:
            mask &= ~self.candidates
        for status, rows in self.groups():
            mask[rows] = status.code is code
        found = known[code] = table.order[mask[table.order]]
        found.flags.writeable = False
        return found

    def settle(self) -> None:
        """Nothing fits: copy what changes with the table, and note every plugin that rejected."""
        if self.settled is not None:
            return
        assert self.candidates is not None
        self.candidates = self.candidates.copy()
        self.columns = [(step, verdicts.copy()) for step, verdicts in self.columns]
        groups = list(self._find_groups())
        for status, _ in groups:
            self.reject(status)
        self.settled = Settled(
            self.candidates,
            self.columns,
            groups,
            frozenset(self.unschedulable_plugins),
            frozenset(self.pending_plugins),
        )

    def settle_as(self, known: Settled) -> None:
        """Settle as a pod of the same shape did, on the same table."""
        self.candidates, self.columns, self.settled = known.candidates, known.columns, known
        self.unschedulable_plugins |= known.unschedulable_plugins
        self.pending_plugins |= known.pending_plugins

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
            absent = self.absent_count()
            if absent:
                for reason in self.absent.reasons:
                    counts[reason] += absent
        return counts

    def message(self) -> str:
        """kube-scheduler's FitError text."""
        if self.pre_filter_message:
            text = f"{fit_error(self.total_nodes, {})} {self.pre_filter_message}."
        elif self.settled is None:
            text = fit_error(self.total_nodes, self.reasons())
        else:
            if not self.settled.text:
                self.settled.text = fit_error(self.total_nodes, self.reasons())
            text = self.settled.text
        if self.post_filter_message:
            text += f" {self.post_filter_message}"
        return text
