"""All nodes in compact columns, and the rows that changed since the last look.

A *layout* is what rarely changes: names, labels, taints, what nodes offer. A client that holds a
layout needs only the numbers of changed rows; after another layout it reads everything again. The
numbers of memory and storage are in MiB, so that 5,000 nodes fit into about 200 kB.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from heapq import nsmallest
from typing import Any, Final, NamedTuple

import numpy as np

from stowplan.api.objects import Node
from stowplan.cluster.journal import Rows
from stowplan.cluster.requests import CPU, EPHEMERAL_STORAGE, MEMORY
from stowplan.cluster.table import NodeTable
from stowplan.explain.node_details import amount_text, taint_text

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


class _Fact(NamedTuple):
    """What a layout says of one node."""

    name: str
    labels: Mapping[str, str]
    flags: int
    offers: Mapping[str, int]
    allowed: int


class NodeColumns:
    """The columns of a table; `changes` is called by the clock, `snapshot` by clients."""

    def __init__(self, table: NodeTable, boot: str) -> None:
        self._table = table
        self._boot = boot
        self._number = 0
        self._position = -1
        self._facts: dict[int, _Fact] = {}
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
        changed = journal.entries_since(self._position) if self._position >= 0 else None
        self._position = journal.end
        if changed is None:
            self._facts = {}
            changed = self._table.live_rows.tolist()
        is_new = not self._number
        for row in changed:
            fact, known = self._fact(row), self._facts.get(row)
            if fact is None and known is not None:
                del self._facts[row]
            elif fact is not None and fact != known:
                self._facts[row] = fact
            else:
                continue
            is_new = True
        if is_new:
            self._rebuild()
        return is_new

    def snapshot(self, group: str = "") -> dict[str, Any]:
        """Everything, grouped by a label; by zone without one."""
        self.refresh()
        numbers = self.numbers()
        key = group or (_ZONE if _ZONE in self._labels or not self._labels else self._labels[0])
        values: dict[str, int] = {}
        facts = (self._facts[row] for row in self.rows.tolist())
        members = [values.setdefault(fact.labels.get(key, ""), len(values)) for fact in facts]
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

    def _fact(self, row: int) -> _Fact | None:
        if not self._table.valid[row]:
            return None
        node = self._table.node(row)
        offers = self._table.resources.offers_of(row)
        allowed = int(self._table.allowed_pods[row])
        return _Fact(node.name, node.metadata.labels or {}, _flags(node), offers, allowed)

    def _rebuild(self) -> None:
        """Build the layout from facts alone: nodes that did not change are not looked at."""
        self._number += 1
        live = sorted(self._facts, key=lambda row: self._facts[row].name)
        facts = [self._facts[row] for row in live]
        self.rows = np.array(live, np.intp)
        self.names = [fact.name for fact in facts]
        self._flags = [fact.flags for fact in facts]
        self._find_resources(facts)
        self._find_labels(facts)
        self._last = self.numbers()

    def _find_resources(self, facts: Sequence[_Fact]) -> None:
        # Nodes of one kind offer the same, so few offers are looked at.
        kinds: dict[tuple[Any, ...], int] = {}
        self._shape_of = [
            kinds.setdefault((fact.allowed, *fact.offers.items()), len(kinds)) for fact in facts
        ]
        sizes = Counter(self._shape_of)
        counts: dict[str, int] = {CPU: len(facts) + 2, MEMORY: len(facts) + 1}
        for (_, *offers), kind in kinds.items():
            for name, _ in offers:
                counts[name] = counts.get(name, 0) + sizes[kind]
        self.resources = sorted(counts, key=lambda name: -counts[name])[:_MOST_RESOURCES]
        self._shapes = []
        for allowed, *offers in kinds:
            known = dict(offers)
            amounts = {name: known.get(name, 0) // _divisor(name) for name in self.resources}
            self._shapes.append({"pods": allowed, **amounts})

    def _find_labels(self, facts: Sequence[_Fact]) -> None:
        values: dict[str, set[str]] = {}
        for fact in facts:
            for key, value in fact.labels.items():
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
    infos = nsmallest(_MOST_PODS, table.pods[row].values(), key=lambda info: info.pod.key)
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
            for info in infos
        ],
    }
