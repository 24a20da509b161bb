"""All nodes in compact columns, and the rows that changed since the last look.

A *layout* is what rarely changes: names, labels, taints, what nodes offer. A client that holds a
layout needs only the numbers of changed rows; after another layout it reads everything again. The
numbers of memory and storage are in MiB, so that 5,000 nodes fit into about 200 kB.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from stowplan.api.objects import Node
from stowplan.cluster.journal import Rows
from stowplan.cluster.requests import CPU, EPHEMERAL_STORAGE, MEMORY
from stowplan.cluster.table import NodeTable
from stowplan.explain.obstacles import amount_text, taint_text

CORDONED, TAINTED, NOT_READY = 1, 2, 4
_HARD: Final = ("NoSchedule", "NoExecute")
_MIB: Final = 1 << 20
#: So many resources are shown: those that most nodes offer.
_MOST_RESOURCES: Final = 12
#: A label with more values than this makes no groups.
_MOST_GROUPS: Final = 64
_ZONE: Final = "topology.kubernetes.io/zone"
_FIRST_LABELS: Final = (
    _ZONE,
    "topology.kubernetes.io/region",
    "node.kubernetes.io/instance-type",
    "kubernetes.io/arch",
)
_MOST_PODS: Final = 1000


class NodeColumns:
    """The columns of a table; `changes` is called by the clock, `snapshot` by clients."""

    def __init__(self, table: NodeTable, boot: str) -> None:
        self._table = table
        self._boot = boot
        self._number = 0
        self._position = -1
        self._facts: dict[int, tuple[Any, ...]] = {}
        self.rows: Rows = np.zeros(0, np.intp)
        self.names: list[str] = []
        self.resources: list[str] = []
        self._shapes: list[dict[str, int]] = []
        self._shape_of: list[int] = []
        self._flags: list[int] = []
        self._labels: list[str] = []
        self._last = np.zeros((1, 0), np.int64)

    @property
    def layout(self) -> str:
        """Identifies the layout; it differs between processes."""
        return f"{self._boot}.{self._number}"

    def refresh(self) -> bool:
        """Follow the table; True if the layout changed."""
        journal = self._table.node_journal
        if self._position == journal.end:
            return False
        changed = journal.rows_since(self._position) if self._position >= 0 else None
        self._position = journal.end
        if changed is not None and all(self._facts.get(r) == self._fact(r) for r in changed):
            return False
        self._rebuild()
        return True

    def snapshot(self, group: str = "") -> dict[str, Any]:
        """Everything, grouped by a label; by zone without one."""
        self.refresh()
        numbers = self.numbers()
        key = group or (_ZONE if _ZONE in self._labels or not self._labels else self._labels[0])
        values: dict[str, int] = {}
        nodes = (self._table.node(int(row)) for row in self.rows)
        members = [
            values.setdefault((node.metadata.labels or {}).get(key, ""), len(values))
            for node in nodes
        ]
        return {
            "layout": self.layout,
            "names": self.names,
            "flags": self._flags,
            "shapes": self._shapes,
            "shape": self._shape_of,
            "resources": self.resources,
            "units": [_unit(name) for name in self.resources],
            "pods": numbers[0].tolist(),
            "used": [column.tolist() for column in numbers[1:]],
            "labels": self._labels,
            "group": {"key": key, "values": list(values), "of": members},
        }

    def changes(self) -> dict[str, Any] | None:
        """The rows whose numbers changed since the last call; None if none did."""
        numbers = self.numbers()
        if numbers.shape != self._last.shape:
            self._last = numbers
            return None
        places = np.flatnonzero((numbers != self._last).any(axis=0))
        self._last = numbers
        if not len(places):
            return None
        some = numbers[:, places]
        return {
            "layout": self.layout,
            "rows": places.tolist(),
            "pods": some[0].tolist(),
            "used": [column.tolist() for column in some[1:]],
        }

    def numbers(self) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
        """Pods, then what is used of every resource, by place in the layout."""
        held = self._table.resources.held
        used = [held(name)[self.rows] // _divisor(name) for name in self.resources]
        return np.stack([self._table.pod_count[self.rows], *used])

    def _fact(self, row: int) -> tuple[Any, ...] | None:
        if not self._table.valid[row]:
            return None
        node = self._table.node(row)
        offers = self._table.resources.offers_of(row)
        allowed = int(self._table.allowed_pods[row])
        return node.name, node.metadata.labels, _flags(node), offers, allowed

    def _rebuild(self) -> None:
        table = self._table
        self._number += 1
        live = sorted(table.live_rows.tolist(), key=lambda row: table.names[row])
        self.rows = np.array(live, np.intp)
        self.names = [table.names[row] for row in live]
        self._facts = {row: fact for row in live if (fact := self._fact(row)) is not None}
        self._flags = [_flags(table.node(row)) for row in live]
        self._find_resources(live)
        self._find_labels(live)
        self._last = self.numbers()

    def _find_resources(self, live: Sequence[int]) -> None:
        counts: dict[str, int] = {CPU: len(live) + 2, MEMORY: len(live) + 1}
        for row in live:
            for name in self._table.resources.offers_of(row):
                counts[name] = counts.get(name, 0) + 1
        self.resources = sorted(counts, key=lambda name: -counts[name])[:_MOST_RESOURCES]
        known: dict[tuple[int, ...], int] = {}
        self._shape_of = []
        for row in live:
            offers = self._table.resources.offers_of(row)
            amounts = (offers.get(name, 0) // _divisor(name) for name in self.resources)
            shape = (int(self._table.allowed_pods[row]), *amounts)
            self._shape_of.append(known.setdefault(shape, len(known)))
        keys = ("pods", *self.resources)
        self._shapes = [dict(zip(keys, shape, strict=True)) for shape in known]

    def _find_labels(self, live: Sequence[int]) -> None:
        values: dict[str, set[str]] = {}
        for row in live:
            for key, value in (self._table.node(row).metadata.labels or {}).items():
                seen = values.setdefault(key, set())
                if len(seen) <= _MOST_GROUPS:
                    seen.add(value)
        few = [key for key, seen in values.items() if len(seen) <= _MOST_GROUPS]
        first = [key for key in _FIRST_LABELS if key in few]
        self._labels = [*first, *sorted(key for key in few if key not in first)]


def _flags(node: Node) -> int:
    taints = node.spec.taints or ()
    return (
        CORDONED * node.spec.unschedulable
        | TAINTED * any(taint.effect in _HARD for taint in taints)
        | NOT_READY * (bool(node.status.conditions) and not node.is_ready)
    )


def _divisor(name: str) -> int:
    return _MIB if _unit(name) == "Mi" else 1


def _unit(name: str) -> str:
    if name == CPU:
        return "m"
    is_bytes = name in (MEMORY, EPHEMERAL_STORAGE) or name.startswith("hugepages-")
    return "Mi" if is_bytes else ""


def node_details(table: NodeTable, name: str) -> dict[str, Any] | None:
    """One node with its pods; None if there is no such node."""
    row = table.live_row(name)
    if row is None:
        return None
    node, offers = table.node(row), table.resources.offers_of(row)
    amounts = {each: table.resources.held_on(each, row) for each in offers}
    infos = sorted(table.pods[row].values(), key=lambda info: info.pod.key)
    return {
        "name": name,
        "cordoned": node.spec.unschedulable,
        "ready": node.is_ready if node.status.conditions else None,
        "labels": node.metadata.labels or {},
        "taints": [taint_text(taint) for taint in node.spec.taints or ()],
        "podCount": int(table.pod_count[row]),
        "allowedPods": int(table.allowed_pods[row]),
        "usage": [
            {
                "resource": each,
                "used": amount_text(each, held),
                "of": amount_text(each, offers[each]),
                "share": round(held / offers[each], 4) if offers[each] else 0,
            }
            for each, held in amounts.items()
        ],
        "pods": [
            {
                "pod": info.pod.key,
                "priority": info.pod.priority,
                "phase": info.pod.status.phase,
                "requests": {
                    each: amount_text(each, amount) for each, amount in info.held if amount
                },
            }
            for info in infos[:_MOST_PODS]
        ],
    }
