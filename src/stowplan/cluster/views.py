"""One node as a per-node plugin sees it, and what-if changes to rows.

A `NodeView` reads the live table; with an `Overlay` it shows a hypothetical node: pods that are
nominated to it already standing there, or victims already gone. Overlay changes are row-local:
a row sees only its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from itertools import chain
from operator import attrgetter

import numpy as np

from stowplan.api.objects import Node, Pod, Taint
from stowplan.cluster.journal import Rows
from stowplan.cluster.pod_info import PodInfo
from stowplan.cluster.table import CPU_ROW, MEMORY_ROW, Int64Array, NodeTable

_kind_of = attrgetter("kind")


class Overlay:
    """Pods added to and removed from some rows, as deltas in columns.

    The arrays have one column for each of `rows` and a last one of zeros, which stands for every
    row that is as the table has it; `places` finds the columns of any rows. They are made when
    somebody first looks: most pods are turned away from a row by its taints or labels.
    """

    def __init__(
        self,
        table: NodeTable,
        added: Mapping[int, list[PodInfo]],
        removed: Mapping[int, list[PodInfo]] | None = None,
    ) -> None:
        self.added = added
        self.removed = removed or {}
        touched = sorted({*added, *self.removed})
        #: The rows that differ from the table.
        self.rows: Rows = np.array(touched, dtype=np.intp)
        self._table = table
        self._place = {row: place for place, row in enumerate(touched)}
        pods = list(chain(*added.values(), *self.removed.values()))
        #: One pod of each kind: there may be thousands of pods, and they are of few kinds.
        self._examples = dict(zip(map(_kind_of, pods), pods, strict=True))
        for info in self._examples.values():
            for name, _ in info.held:
                if table.resources.get(name) is None:
                    table.resource_row(name)

    @cached_property
    def requested(self) -> Int64Array:
        """By resource and place; see `requested_of`."""
        return self._deltas[:-3]

    @cached_property
    def non_zero(self) -> Int64Array:
        """cpu (0) and memory (1) by place, with defaults for containers that ask for none."""
        return self._deltas[-3:-1]

    @cached_property
    def pod_count(self) -> Int64Array:
        """By place."""
        count: Int64Array = self._deltas[-1]
        return count

    @cached_property
    def _deltas(self) -> Int64Array:
        number_of, takes = self._takes
        deltas = np.zeros((len(takes), len(self.rows) + 1), np.int64)
        for changes, sign in ((self.added, 1), (self.removed, -1)):
            crowds = {row: pods for row, pods in changes.items() if pods}
            if crowds:
                kinds = map(_kind_of, chain(*crowds.values()))
                all_take = takes[:, [number_of[kind] for kind in kinds]]
                ends = np.cumsum([len(pods) for pods in crowds.values()])
                starts = np.concatenate([[0], ends[:-1]])
                places = [self._place[row] for row in crowds]
                deltas[:, places] += sign * np.add.reduceat(all_take, starts, axis=1)
        return deltas

    @cached_property
    def _takes(self) -> tuple[dict[int, int], Int64Array]:
        """A column for each kind of pod, numbered by the first: what such a pod takes, by resource,
        cpu and memory with defaults, and as one pod."""
        table = self._table
        resources = len(table.resources)
        takes: Int64Array = np.zeros((resources + 3, len(self._examples)), np.int64)
        for number, info in enumerate(self._examples.values()):
            cpu, memory = info.held_non_zero
            for name, amount in info.held:
                takes[table.resources.get(name), number] = amount
            takes[resources + CPU_ROW, number] = cpu
            takes[resources + MEMORY_ROW, number] = memory
            takes[resources + 2, number] = 1
        return {kind: number for number, kind in enumerate(self._examples)}, takes

    def put_back(self, pods: Mapping[int, PodInfo]) -> None:
        """Removed pods, one a row, stay after all."""
        self._shift(pods, 1)
        for row, info in pods.items():
            self.removed[row].remove(info)

    def take_away(self, pods: Mapping[int, PodInfo]) -> None:
        """Some that were put back have to go again."""
        self._shift(pods, -1)
        for row, info in pods.items():
            self.removed[row].append(info)

    def _shift(self, pods: Mapping[int, PodInfo], sign: int) -> None:
        """Before the lists change: the deltas may only now be made from them."""
        deltas, (number_of, takes) = self._deltas, self._takes
        places = [self._place[row] for row in pods]
        numbers = [number_of[info.kind] for info in pods.values()]
        deltas[:, places] += sign * takes[:, numbers]

    def place(self, row: int) -> int:
        """The column of one row."""
        return self._place.get(row, -1)

    def places(self, rows: Rows | slice) -> Rows:
        """The columns of many rows, for indexing the arrays."""
        if isinstance(rows, slice):
            rows = np.arange(self._table.capacity)[rows]
        if not len(self.rows):
            return np.full(len(rows), -1, np.intp)
        found = np.searchsorted(self.rows, rows)
        is_touched = self.rows[np.minimum(found, len(self.rows) - 1)] == rows
        return np.where(is_touched, found, -1)

    def requested_of(self, resource: int) -> Int64Array:
        """The deltas of a resource by its row in the table, which may be newer than this."""
        if resource < len(self.requested):
            deltas: Int64Array = self.requested[resource]
            return deltas
        return np.zeros(self.pod_count.shape, np.int64)


class NodeView:
    """A node with its pods and what is left of it, in canonical units."""

    __slots__ = ("_overlay", "_table", "row")

    def __init__(self, table: NodeTable, row: int, overlay: Overlay | None = None) -> None:
        self._table = table
        self._overlay = overlay
        #: The node's row in the table.
        self.row = row

    @property
    def node(self) -> Node:
        return self._table.node(self.row)

    @property
    def name(self) -> str:
        return self._table.names[self.row]

    @property
    def labels(self) -> Mapping[str, str]:
        return self.node.metadata.labels or {}

    @property
    def annotations(self) -> Mapping[str, str]:
        return self.node.metadata.annotations or {}

    @property
    def taints(self) -> tuple[Taint, ...]:
        return self.node.spec.taints or ()

    @property
    def unschedulable(self) -> bool:
        return self.node.spec.unschedulable

    @property
    def pod_infos(self) -> list[PodInfo]:
        """The compiled pods that stand on the node."""
        pods: Iterable[PodInfo] = self._table.pods[self.row].values()
        over = self._overlay
        if over is not None:
            gone = {info.uid for info in over.removed.get(self.row, ())}
            pods = [*(p for p in pods if p.uid not in gone), *over.added.get(self.row, ())]
        return list(pods)

    @property
    def changes(self) -> list[tuple[PodInfo, int]]:
        """What makes the node hypothetical: pods that have come (1) and that have gone (-1)."""
        over = self._overlay
        if over is None:
            return []
        return [
            *((info, 1) for info in over.added.get(self.row, ())),
            *((info, -1) for info in over.removed.get(self.row, ())),
        ]

    @property
    def pods(self) -> list[Pod]:
        """The pods that stand on the node."""
        return [info.pod for info in self.pod_infos]

    @property
    def pod_count(self) -> int:
        count = int(self._table.pod_count[self.row])
        if self._overlay is not None:
            count += int(self._overlay.pod_count[self._overlay.place(self.row)])
        return count

    @property
    def allowed_pods(self) -> int:
        return int(self._table.allowed_pods[self.row])

    def allocatable(self, resource: str) -> int:
        """How much of a resource the node offers in all."""
        index = self._table.resources.get(resource)
        return 0 if index is None else int(self._table.allocatable[index, self.row])

    def requested(self, resource: str) -> int:
        """How much of a resource its pods have asked for."""
        index = self._table.resources.get(resource)
        if index is None:
            return 0
        amount = int(self._table.requested[index, self.row])
        if self._overlay is not None:
            amount += int(self._overlay.requested_of(index)[self._overlay.place(self.row)])
        return amount

    def non_zero(self, index: int) -> int:
        """cpu (0) or memory (1) with defaults for containers that ask for none."""
        amount = int(self._table.non_zero[index, self.row])
        if self._overlay is not None:
            amount += int(self._overlay.non_zero[index, self._overlay.place(self.row)])
        return amount

    def free(self, resource: str) -> int:
        """What is left of a resource; negative when the node is overcommitted."""
        return self.allocatable(resource) - self.requested(resource)
