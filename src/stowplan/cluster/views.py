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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stowplan.api.objects import Node, Pod, Taint
from stowplan.api.quantity import INT64_MAX
from stowplan.cluster.exact_sums import LARGE
from stowplan.cluster.journal import Rows
from stowplan.cluster.pod_info import PodInfo
from stowplan.cluster.table import Int64Array, NodeTable

_kind_of = attrgetter("kind")


class Overlay:
    """Pods added to and removed from some rows, as deltas in columns.

    The arrays have one column for each of `rows` and a last one of zeros, which stands for every
    row that is as the table has it; `places` finds the columns of any rows. They are made on first
    use: most pods are turned away from a row by its taints or labels. Resources that no node offers
    have no array: pods may name thousands of them.
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
        self._pod_total = len(pods)
        #: One pod of each kind: there may be thousands of pods, and they are of few kinds.
        self._examples = dict(zip(map(_kind_of, pods), pods, strict=True))

    @property
    def pod_count(self) -> Int64Array:
        """Change of the number of pods, by place."""
        count: Int64Array = self._deltas[-1].astype(np.int64, copy=False)
        return count

    def held(self, name: str, rows: Rows | slice, places: Rows) -> Int64Array:
        """How much would be held of a resource on each row, at most what an int64 holds.

        `places` are those of the rows.
        """
        resources, number = self._table.resources, self._numbers.get(name)
        held: Int64Array = resources.held(name)[rows]
        if number is None and resources.is_offered(name):
            return held
        if number is not None and self._deltas.dtype != object and not resources.is_large(name):
            changes: Int64Array = self._deltas[number][places]
            return held + changes
        total = resources.held_exactly(name)
        total[self.rows] += [self.change(name, row) for row in self.rows.tolist()]
        saturated: Int64Array = np.clip(total[rows], -INT64_MAX, INT64_MAX).astype(np.int64)
        return saturated

    def change(self, name: str, row: int) -> int:
        """How much more, or less, would be held of a resource on one row."""
        number = self._numbers.get(name)
        if number is not None:
            return int(self._deltas[number, self.place(row)])
        if self._table.resources.is_offered(name):
            return 0
        return sum(
            sign * amount
            for changes, sign in ((self.added, 1), (self.removed, -1))
            for info in changes.get(row, ())
            for held, amount in info.held
            if held == name
        )

    def non_zero_change(self, index: int, row: int) -> int:
        """The same of cpu (0) or memory (1), with defaults for containers that ask for none."""
        return int(self._deltas[index - 3, self.place(row)])

    @cached_property
    def _deltas(self) -> NDArray[Any]:
        """By number of the resource and place, then cpu and memory with defaults, then pods.

        Of Python integers if sums might not fit an int64.
        """
        number_of, takes = self._takes
        deltas = np.zeros((len(takes), len(self.rows) + 1), takes.dtype)
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
    def _numbers(self) -> dict[str, int]:
        """The resources that pods of the overlay hold and nodes offer, numbered."""
        is_offered = self._table.resources.is_offered
        names = {
            name: None
            for info in self._examples.values()
            for name, amount in info.held
            if amount and is_offered(name)
        }
        return {name: number for number, name in enumerate(names)}

    @cached_property
    def _takes(self) -> tuple[dict[int, int], NDArray[Any]]:
        """A column for each kind of pod, numbered by the first: what such a pod takes, in the
        order of `_deltas`."""
        numbers = self._numbers
        takes: NDArray[Any] = np.zeros((len(numbers) + 3, len(self._examples)), np.int64)
        for place, info in enumerate(self._examples.values()):
            for name, amount in info.held:
                number = numbers.get(name)
                if number is not None:
                    takes[number, place] = amount
            takes[-3:-1, place] = info.held_non_zero
            takes[-1, place] = 1
        if int(takes.max(initial=0)) * self._pod_total >= LARGE:
            takes = takes.astype(object)
        return {kind: number for number, kind in enumerate(self._examples)}, takes

    def put_back(self, pods: Mapping[int, PodInfo]) -> None:
        """Undo the removal of pods, one a row."""
        self._shift(pods, 1)
        for row, info in pods.items():
            self.removed[row].remove(info)

    def take_away(self, pods: Mapping[int, PodInfo]) -> None:
        """Remove pods again that were put back."""
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


class NodeView:
    """A node with its pods and what is left of it, in canonical units: milli-CPU, bytes, counts."""

    __slots__ = {"_overlay": None, "_table": None, "row": "The node's row in the table."}

    def __init__(self, table: NodeTable, row: int, overlay: Overlay | None = None) -> None:
        self._table = table
        self._overlay = overlay
        self.row = row

    @property
    def node(self) -> Node:
        """The Node object."""
        return self._table.node(self.row)

    @property
    def name(self) -> str:
        """The node's name."""
        return self._table.names[self.row]

    @property
    def labels(self) -> Mapping[str, str]:
        """The node's labels."""
        return self.node.metadata.labels or {}

    @property
    def annotations(self) -> Mapping[str, str]:
        """The node's annotations."""
        return self.node.metadata.annotations or {}

    @property
    def taints(self) -> tuple[Taint, ...]:
        """The node's taints."""
        return self.node.spec.taints or ()

    @property
    def unschedulable(self) -> bool:
        """True if the node is cordoned."""
        return self.node.spec.unschedulable

    @property
    def pod_infos(self) -> list[PodInfo]:
        """The pods on the node as PodInfo: their requests as numbers."""
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
        """The pods on the node."""
        return [info.pod for info in self.pod_infos]

    @property
    def pod_count(self) -> int:
        """Number of pods on the node."""
        count = int(self._table.pod_count[self.row])
        if self._overlay is not None:
            count += int(self._overlay.pod_count[self._overlay.place(self.row)])
        return count

    @property
    def allowed_pods(self) -> int:
        """Number of pods that the node allows."""
        return int(self._table.allowed_pods[self.row])

    def allocatable(self, resource: str) -> int:
        """How much of a resource the node offers in all."""
        return self._table.resources.offered_on(resource, self.row)

    def requested(self, resource: str) -> int:
        """How much of a resource its pods have asked for; at most what an int64 holds."""
        amount = self._table.resources.held_on(resource, self.row)
        if self._overlay is not None:
            amount += self._overlay.change(resource, self.row)
        return amount if amount < INT64_MAX else INT64_MAX

    def non_zero(self, index: int) -> int:
        """How much its pods hold of cpu (0) or memory (1); containers without a request count."""
        amount = self._table.non_zero_on(index, self.row)
        if self._overlay is not None:
            amount += self._overlay.non_zero_change(index, self.row)
        return amount if amount < INT64_MAX else INT64_MAX

    def free(self, resource: str) -> int:
        """What is left of a resource; negative when the node is overcommitted."""
        return self.allocatable(resource) - self.requested(resource)
