"""NodeResourcesBalancedAllocation: prefers nodes whose resources would be used evenly.

A pod scores by how much it improves a node's balance: 75 when it changes nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from stowplan.api.objects import Pod
from stowplan.cluster.extended_resources import DeviceClassByResource, can_be_devices
from stowplan.cluster.pod_info import PodInfo
from stowplan.cluster.requests import CPU, EPHEMERAL_STORAGE, MEMORY
from stowplan.cluster.table import Int64Array, NodeTable
from stowplan.cluster.views import NodeView
from stowplan.config.plugin_args import CPU_AND_MEMORY, NodeResourcesBalancedAllocationArgs
from stowplan.framework.amounts import Amounts, Floats, columns_at
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import RowSet, takes_slices
from stowplan.framework.handle import Handle
from stowplan.framework.integers import add_saturating
from stowplan.framework.plugin import Plugin, Reads
from stowplan.framework.scratch import Scratch
from stowplan.framework.status import SKIP, Status

#: Requests of so many names are taken as they are.
_SHORT = 8


class NodeResourcesBalancedAllocation(Plugin):
    name = "NodeResourcesBalancedAllocation"
    Args = NodeResourcesBalancedAllocationArgs
    reads = Reads.POD_SPECS

    def __init__(
        self,
        args: NodeResourcesBalancedAllocationArgs | None = None,
        handle: Handle | None = None,
    ) -> None:
        super().__init__(args, handle)
        self._resources = args.resources if args is not None else CPU_AND_MEMORY
        self._classes = self.handle.catalog.shared(DeviceClassByResource)
        self._maybe_devices = tuple(
            resource.name for resource in self._resources if can_be_devices(resource.name)
        )
        self._scratch = Scratch(2)
        self._kept: _Shares | None = None

    def sign(self, info: PodInfo) -> Hashable | None:
        if self._maybe_devices and self._classes.among(tuple(self._wanted(info))):
            return None  # Scores by devices depend on claims and slices, too.
        # Of a long request only what is read: a signature is kept as a key.
        return info.held if len(info.held) <= _SHORT else tuple(self._wanted(info))

    def pre_score(self, cycle: Cycle, rows: object) -> Status | None:
        return None if self._asks_for_any(cycle.info) else SKIP

    def _asks_for_any(self, info: PodInfo) -> bool:
        """False: PreScore skips the pod; where that is disabled, it scores 0."""
        wanted = dict(info.held)
        return any(wanted.get(r.name) for r in self._resources)

    @takes_slices
    def score_columns(self, cycle: Cycle, rows: RowSet, out: Int64Array) -> None:
        table = cycle.table
        wanted = self._wanted(cycle.info)
        if not any(amount for _, amount in wanted):
            out[rows] = 0
            return
        has_devices = bool(self._maybe_devices and self._classes.among(tuple(wanted)))
        if len(wanted) == 2 and not has_devices:
            # By far the commonest.
            kept = self._shares(table, [name for name, _ in wanted])
            if kept.is_plain:
                self._score_plain(kept, [amount for _, amount in wanted], rows, out)
                return
        after, before = _balances(table, wanted, rows, self._classes)
        out[rows] = 50 + (50 + after - before) // 2

    def _score_plain(
        self, kept: _Shares, wanted: Sequence[int], rows: RowSet, out: Int64Array
    ) -> None:
        """`score` for every row at once, in the same order of operations."""
        offered, held = columns_at(kept.offered, rows), kept.held_at(rows)
        amounts = np.array(wanted, np.float64)[:, None]
        if isinstance(rows, slice):
            after = self._scratch.floats(offered.shape[1])
            score = _evenness(np.add(held, amounts, out=after), offered)
            score += kept.rest[rows]
        else:
            both = np.empty((2, *held.shape))
            both[0] = held
            np.add(held, amounts, out=both[1])
            before, score = _evenness(both, offered)
            score -= before
            score += 150
        score *= 0.5
        out[rows] = score.astype(np.int64)

    def _shares(self, table: NodeTable, names: list[str]) -> _Shares:
        kept = self._kept
        if kept is None or kept.names != names or not kept.has_same_nodes(table):
            kept = self._kept = _Shares(table, names, as_scored=False)
        return kept

    def score(self, pod: Pod, node: NodeView, cycle: Cycle) -> int:
        if not self._asks_for_any(cycle.info):
            return 0
        before: list[float] = []
        after: list[float] = []
        for name, amount in self._wanted(cycle.info):
            allocatable, held = node.allocatable(name), node.requested(name)
            if name in self._classes.by_resource:
                totals = self._classes.totals(cycle.table, name)
                if totals is not None:
                    row = cycle.table.row_of[node.name]
                    allocatable, held = totals.of_row(row, allocatable, held)
            if allocatable:
                # Floats first, as upstream and the columns: integers this large divide otherwise.
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


class _Shares(Amounts):
    """Two resources, and how evenly they are used without the pod."""

    def _copy_all(self) -> None:
        super()._copy_all()
        with np.errstate(divide="ignore", invalid="ignore"):
            # Rows that are not `plain` are never read.
            #: Added to the balance with the pod, it makes twice the score.
            self.rest: Floats = 150 - _evenness(self._held.copy(), self.offered)

    def _copy(self, rows: list[int]) -> None:
        super()._copy(rows)
        if self.is_plain:
            held, offered = self._held, self.offered
            for row in rows:
                shares = [min(float(held[i, row] / offered[i, row]), 1.0) for i in (0, 1)]
                self.rest[row] = 150 - _balance(shares)


def _evenness(held: Floats, offered: Floats) -> Floats:
    """`_balance` of two resources, the last axis but one, for every row. Overwrites `held`."""
    held /= offered
    np.minimum(held, 1, out=held)
    balance: Floats = held[..., 0, :]
    balance -= held[..., 1, :]
    balance *= 0.5
    np.abs(balance, out=balance)
    np.subtract(1, balance, out=balance)
    balance *= 100
    return np.trunc(balance, out=balance)


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
    table: NodeTable,
    wanted: Sequence[tuple[str, int]],
    rows: RowSet,
    classes: DeviceClassByResource,
) -> tuple[Int64Array, Int64Array]:
    """The balance of every row with the pod and without it, over any resources."""
    before: list[NDArray[np.float64]] = []
    after: list[NDArray[np.float64]] = []
    offered: list[NDArray[np.bool_]] = []
    for name, amount in wanted:
        held = table.resources.held(name)[rows]
        allocatable = table.resources.offered(name)[rows]
        totals = classes.totals(table, name) if name in classes.by_resource else None
        if totals is not None:
            allocatable, held = totals.in_place_of(allocatable, held, rows)
        has_any = allocatable != 0
        divisor = np.where(has_any, allocatable, 1).astype(np.float64)
        before.append(np.where(has_any, np.minimum(held / divisor, 1.0), 0.0))
        after.append(
            np.where(has_any, np.minimum(add_saturating(held, amount) / divisor, 1.0), 0.0)
        )
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
