"""What an agent sees: the node table and the pod that has its turn, as arrays of fixed shapes.

Index i of every column is row i of the node table, and action i. A node keeps its row while it
exists; rows without a node, and those beyond, are zeros. Amounts are in cores, GiB and counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from stowplan.cluster.derived import DerivedRows
from stowplan.cluster.journal import Rows
from stowplan.cluster.pod_info import PodInfo
from stowplan.cluster.requests import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, is_scalar
from stowplan.cluster.table import Int64Array, NodeTable
from stowplan.errors import ConfigError
from stowplan.sim.gym.asking import Question
from stowplan.sim.gym.simulation import Simulation
from stowplan.sim.traces.manifests import ZONE

Observation: TypeAlias = dict[str, NDArray[Any]]

#: Larger amounts are shown as this: a space has bounds.
MOST = 1e9
_FIRST = (CPU, MEMORY, PODS)
_GIB = 2.0**-30


def check_resources(names: Iterable[str]) -> tuple[str, ...]:
    """The order of columns: CPU, memory, pods, and the others by name."""
    others = sorted(set(names) - set(_FIRST))
    for name in others:
        if name != EPHEMERAL_STORAGE and not is_scalar(name):
            raise ConfigError(
                f"`{name}` is not a resource that pods can request", where="resources"
            )
    return (*_FIRST, *others)


class ObservationEncoder:
    """Makes observations of one space."""

    def __init__(self, max_nodes: int, resources: Sequence[str]) -> None:
        self.max_nodes = max_nodes
        self.resources = tuple(resources)
        count = len(self.resources)
        self._units = np.array([_unit(name) for name in self.resources])
        self._shown: _Shown | None = None
        self.space: spaces.Dict[Any] = spaces.Dict(
            {
                "allocatable": _amounts(max_nodes, count),
                "requested": _amounts(max_nodes, count),
                "exists": spaces.MultiBinary(max_nodes),
                "zone": spaces.Box(-1, max_nodes, (max_nodes,), np.int32),
                "action_mask": spaces.MultiBinary(max_nodes),
                "pod_requests": _amounts(count),
                "pod_priority": spaces.Box(-(2.0**31), 2.0**31, (1,), np.float32),
                "pod_age": _amounts(1),
                "waiting": _amounts(1),
                "time": _amounts(1),
            }
        )

    def observe(self, simulation: Simulation, question: Question | None) -> Observation:
        """An observation of the cluster and the pod to place; zeros once the episode has ended."""
        table = simulation.table
        if self._shown is None or not self._shown.follow(table):
            self._shown = _Shown(table, self.max_nodes, self.resources, self._units)
        shown = self._shown
        age = 0.0 if question is None else simulation.age_of(question.info.pod)
        priority = 0 if question is None else question.info.pod.priority
        return {
            "allocatable": shown.allocatable.copy(),
            "requested": shown.requested.copy(),
            "exists": shown.exists.copy(),
            "zone": shown.zone.copy(),
            "action_mask": self.mask(question),
            "pod_requests": self._requests(None if question is None else question.info),
            "pod_priority": np.array([priority], np.float32),
            "pod_age": _number(age),
            "waiting": _number(simulation.waiting),
            "time": _number(simulation.clock.monotonic()),
        }

    def mask(self, question: Question | None) -> NDArray[np.int8]:
        mask = np.zeros(self.max_nodes, np.int8)
        if question is not None:
            mask[question.feasible] = 1
        return mask

    def _requests(self, info: PodInfo | None) -> NDArray[np.float32]:
        shown = np.zeros(len(self.resources), np.float32)
        if info is not None:
            held = {PODS: 1, **dict(info.held)}
            for place, name in enumerate(self.resources):
                shown[place] = min(held.get(name, 0) * self._units[place], MOST)
        return shown


class _Shown(DerivedRows):
    """The node columns of a table. Only rows whose pods changed are written again."""

    __slots__ = ("_resources", "_units", "allocatable", "exists", "requested", "zone")

    def __init__(
        self,
        table: NodeTable,
        max_nodes: int,
        resources: Sequence[str],
        units: NDArray[np.float64],
    ) -> None:
        super().__init__(table)
        self._units = units
        self._resources = resources
        used = min(len(table.names), max_nodes)
        self.allocatable = np.zeros((max_nodes, len(resources)), np.float32)
        self.requested = np.zeros_like(self.allocatable)
        self.exists = np.zeros(max_nodes, np.int8)
        self.exists[:used] = table.valid[:used]
        self.zone = np.full(max_nodes, -1, np.int32)
        self.zone[:used] = np.minimum(table.labels.column(ZONE)[:used], max_nodes)
        rows = np.flatnonzero(table.valid[:used])
        self._write(self.allocatable, table.resources.offered, table.allowed_pods, rows)
        self._write(self.requested, table.resources.held, table.pod_count, rows)

    def follow(self, table: NodeTable) -> bool:
        """Copy the changed rows; False if the arrays must be rebuilt."""
        rows = self.changed_rows(table)
        if rows is None:
            return False
        # A pod may be on an unknown node.
        changed = np.array([row for row in rows if table.valid[row]], np.intp)
        if len(changed):
            self._write(self.requested, table.resources.held, table.pod_count, changed)
        self.confirm_rows(table)
        return True

    def _write(
        self,
        shown: NDArray[np.float32],
        column_of: Callable[[str], Int64Array],
        pods: Int64Array,
        rows: Rows,
    ) -> None:
        for place, name in enumerate(self._resources):
            column = pods if name == PODS else column_of(name)
            shown[rows, place] = np.clip(column[rows] * self._units[place], 0, MOST)


def _unit(name: str) -> float:
    """The factor from the table's unit to the observation's."""
    if name == CPU:
        return 1e-3
    is_bytes = name in (MEMORY, EPHEMERAL_STORAGE) or name.startswith("hugepages-")
    return _GIB if is_bytes else 1.0


def _amounts(*shape: int) -> spaces.Box:
    return spaces.Box(0.0, MOST, shape, np.float32)


def _number(value: float) -> NDArray[np.float32]:
    return np.array([min(value, MOST)], np.float32)
