"""NodeResourcesBalancedAllocation: prefers nodes whose resources would be used evenly.

A pod scores by how much it improves a node's balance: 75 when it changes nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from stowplan.api.objects import Pod
from stowplan.cluster.pod_info import PodInfo
from stowplan.cluster.requests import CPU, EPHEMERAL_STORAGE, MEMORY
from stowplan.cluster.table import Int64Array, NodeTable
from stowplan.cluster.views import NodeView
from stowplan.config.plugin_args import CPU_AND_MEMORY, NodeResourcesBalancedAllocationArgs
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import RowSet
from stowplan.framework.handle import Handle
from stowplan.framework.plugin import Plugin, Reads
from stowplan.framework.scratch import Scratch
from stowplan.framework.shapes import Follower
from stowplan.framework.status import SKIP, Status


class NodeResourcesBalancedAllocation(Plugin):
    name = "NodeResourcesBalancedAllocation"
    Args = NodeResourcesBalancedAllocationArgs
    reads = Reads.PODS

    def __init__(
        self,
        args: NodeResourcesBalancedAllocationArgs | None = None,
        handle: Handle | None = None,
    ) -> None:
        super().__init__(args, handle)
        self._resources = args.resources if args is not None else CPU_AND_MEMORY
        self._scratch = Scratch(ints=2, floats=2)
        self._kept: _BalanceNow | None = None

    def sign(self, info: PodInfo) -> Hashable:
        return info.held

    def pre_score(self, cycle: Cycle, rows: object) -> Status | None:
        wanted = dict(cycle.info.held)
        return None if any(wanted.get(r.name) for r in self._resources) else SKIP

    def score_columns(self, cycle: Cycle, rows: RowSet, out: Int64Array) -> None:
        table = cycle.table
        wanted = [(table.resource_row(name), amount) for name, amount in self._wanted(cycle.info)]
        size = len(out[rows])
        if self._is_plain(table, wanted, rows):
            after, before = self._scratch.ints(size)
            self._balance_of_two(table, wanted, rows, after)
            if isinstance(rows, slice):
                before = self._balance_now(cycle, [index for index, _ in wanted])[rows]
            else:
                self._balance_of_two(table, [(index, 0) for index, _ in wanted], rows, before)
        else:
            after, before = _balances(table, wanted, rows)
        np.subtract(after, before, out=after)
        after += 50
        after >>= 1
        after += 50
        out[rows] = after

    def _is_plain(self, table: NodeTable, wanted: Sequence[tuple[int, int]], rows: RowSet) -> bool:
        """Whether it is about two resources, and every row offers both: by far the commonest."""
        return len(wanted) == 2 and all(
            int(table.allocatable[index][rows].min(initial=1)) > 0 for index, _ in wanted
        )

    def _balance_of_two(
        self,
        table: NodeTable,
        wanted: Sequence[tuple[int, int]],
        rows: RowSet,
        out: Int64Array,
    ) -> None:
        """`_balance` for every row at once, in the same order of operations."""
        fractions = self._scratch.floats(len(out))
        for (index, amount), fraction in zip(wanted, fractions, strict=True):
            np.add(table.requested[index][rows], amount, out=out)
            np.divide(out, table.allocatable[index][rows], out=fraction)
            np.minimum(fraction, 1.0, out=fraction)
        deviation, other = fractions
        deviation -= other
        deviation /= 2
        np.abs(deviation, out=deviation)
        np.subtract(1, deviation, out=deviation)
        deviation *= 100
        np.copyto(out, deviation, casting="unsafe")

    def _balance_now(self, cycle: Cycle, indices: Sequence[int]) -> Int64Array:
        """How even every row is used as it is: no matter of the pod, so it is kept."""
        table = cycle.table
        kept = self._kept
        if kept is None or kept.indices != indices or not kept.follow(table):
            kept = self._kept = _BalanceNow(table, indices)
            wanted = [(index, 0) for index in indices]
            used = table.used_slots
            self._balance_of_two(table, wanted, used, kept.values[used])
        return kept.values

    def score(self, pod: Pod, node: NodeView, cycle: Cycle) -> int:
        before: list[float] = []
        after: list[float] = []
        for name, amount in self._wanted(cycle.info):
            allocatable = node.allocatable(name)
            if allocatable:
                # Floats first, as upstream and the columns: integers this large divide otherwise.
                held = node.requested(name)
                before.append(min(float(held) / float(allocatable), 1.0))
                after.append(min(float(held + amount) / float(allocatable), 1.0))
        return 50 + (50 + _balance(after) - _balance(before)) // 2

    def _wanted(self, info: PodInfo) -> list[tuple[str, int]]:
        """The resources that take part; a scalar one only if the pod asks for it."""
        amounts = dict(info.held)
        return [
            (r.name, amounts.get(r.name, 0))
            for r in self._resources
            if r.name in (CPU, MEMORY, EPHEMERAL_STORAGE) or amounts.get(r.name)
        ]


class _BalanceNow(Follower):
    """The balance of every row as it is, over two resources that all rows offer."""

    def __init__(self, table: NodeTable, indices: Sequence[int]) -> None:
        super().__init__(table)
        self.table = table
        self.indices = indices
        self.values: Int64Array = np.zeros(table.capacity, np.int64)

    def follow(self, table: NodeTable) -> bool:
        """Catch up with rows whose pods changed; False: make it anew."""
        rows = self.changed_rows(table) if table is self.table else None
        if rows is None:
            return False
        for row in rows:
            shares = [
                float(table.requested[index, row]) / float(table.allocatable[index, row])
                for index in self.indices
            ]
            self.values[row] = _balance([min(share, 1.0) for share in shares])
        return True


def _balance(fractions: Sequence[float]) -> int:
    """100 when all fractions are equal, less the further they lie apart."""
    deviation = 0.0
    if len(fractions) == 2:
        deviation = abs((fractions[0] - fractions[1]) / 2)
    elif len(fractions) > 2:
        total = squares = 0.0
        for fraction in fractions:
            total += fraction
        mean = total / len(fractions)
        for fraction in fractions:
            squares += (fraction - mean) * (fraction - mean)
        deviation = sqrt(squares / len(fractions))
    return int((1 - deviation) * 100)


def _balances(
    table: NodeTable, wanted: Sequence[tuple[int, int]], rows: RowSet
) -> tuple[Int64Array, Int64Array]:
    """The balance of every row with the pod and without it, over any resources."""
    before: list[NDArray[np.float64]] = []
    after: list[NDArray[np.float64]] = []
    offered: list[NDArray[np.bool_]] = []
    for index, amount in wanted:
        allocatable = table.allocatable[index][rows]
        held = table.requested[index][rows]
        has_any = allocatable != 0
        divisor = np.where(has_any, allocatable, 1).astype(np.float64)
        before.append(np.where(has_any, np.minimum(held / divisor, 1.0), 0.0))
        after.append(np.where(has_any, np.minimum((held + amount) / divisor, 1.0), 0.0))
        offered.append(has_any)
    return _balance_columns(after, offered), _balance_columns(before, offered)


def _balance_columns(
    fractions: Sequence[NDArray[np.float64]], offered: Sequence[NDArray[np.bool_]]
) -> Int64Array:
    """`_balance` for every row at once, in the same order of operations."""
    size = len(fractions[0]) if fractions else 0
    count = np.zeros(size, np.int64)
    total = np.zeros(size, np.float64)
    for fraction, has_any in zip(fractions, offered, strict=True):
        count += has_any
        total += fraction
    if len(fractions) == 2:
        deviation = np.where(count == 2, np.abs((fractions[0] - fractions[1]) / 2), 0.0)
    else:
        mean = total / np.maximum(count, 1)
        squares = np.zeros(size, np.float64)
        for fraction, has_any in zip(fractions, offered, strict=True):
            squares += np.where(has_any, (fraction - mean) * (fraction - mean), 0.0)
        deviation = np.sqrt(squares / np.maximum(count, 1))
        pair = count == 2
        if pair.any():
            # Upstream takes a shorter way for two resources; the last digit may differ.
            low = np.full(size, np.inf)
            high = np.full(size, -np.inf)
            for fraction, has_any in zip(fractions, offered, strict=True):
                low = np.where(has_any, np.minimum(low, fraction), low)
                high = np.where(has_any, np.maximum(high, fraction), high)
            deviation = np.where(pair, np.abs((high - low) / 2), deviation)
        deviation = np.where(count < 2, 0.0, deviation)
    return ((1 - deviation) * 100).astype(np.int64)
