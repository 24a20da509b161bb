"""The part of the node table that plugins may read, as protocols: `cycle.table` implements them.

They exist for documentation and type checkers alone and cost nothing at run time. What must stay
true: nothing that is declared here changes its meaning between releases; everything else that
`NodeTable` has may change. docs/plugin-api.md describes each member, and a test compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from stowplan.api.objects import Node
from stowplan.cluster.interning import Interner
from stowplan.cluster.journal import Rows
from stowplan.cluster.pod_info import PodInfo
from stowplan.cluster.table import BoolArray, Int32Array, Int64Array, NodeTable


class Labels(Protocol):
    """Label values of all nodes as small integers, one column per key."""

    def column(self, key: str) -> Int32Array:
        """Return the value id by row; -1 where the node lacks the label. Read only."""

    def values(self, key: str) -> Interner[str]:
        """Return the values of a key: `.get(text)` is the id of a value, or None."""

    def numbers(self, key: str) -> tuple[Int64Array, BoolArray]:
        """Return the values of a key as integers, by value id, and which of them are integers."""


class Resources(Protocol):
    """What nodes offer and pods hold of each resource, by row: milli-CPU, bytes, counts."""

    def is_offered(self, name: str) -> bool:
        """Return whether some node may offer the resource."""

    def offered(self, name: str) -> Int64Array:
        """Return what each node offers of a resource. Read only."""

    def held(self, name: str) -> Int64Array:
        """Return what the pods on each node hold of a resource, at most 2**63 - 1. Read only."""


class Table(Protocol):
    """All nodes in columns: one row a node, one array a fact. Read only.

    Arrays have `capacity` entries and are indexed by row. A row keeps its number while its node
    exists. Rows of no node are possible: `valid` is False there.
    """

    def __len__(self) -> int:
        """Return the number of nodes."""

    @property
    def capacity(self) -> int:
        """Length of every array; grows with the cluster."""

    @property
    def valid(self) -> BoolArray:
        """True where the row holds a node."""

    @property
    def live_rows(self) -> Rows:
        """Rows that hold a node, ascending."""

    @property
    def order(self) -> Rows:
        """The same rows in kube-scheduler's order: zones in turn."""

    @property
    def names(self) -> Sequence[str]:
        """Node name by row; "" for a row that is not used."""

    @property
    def row_of(self) -> Mapping[str, int]:
        """Row by node name; also of deleted nodes that still hold pods."""

    def live_row(self, name: str) -> int | None:
        """Return the row of a node that exists, else None."""

    def node(self, row: int) -> Node:
        """Return the Node object of a row that holds one."""

    @property
    def pods(self) -> Sequence[Mapping[str, PodInfo]]:
        """The pods on each row, by UID."""

    @property
    def pod_count(self) -> Int64Array:
        """Number of pods on each row."""

    @property
    def allowed_pods(self) -> Int64Array:
        """Number of pods that each node allows."""

    @property
    def unschedulable(self) -> BoolArray:
        """True where the node is cordoned."""

    @property
    def labels(self) -> Labels:
        """Label values, by key."""

    @property
    def resources(self) -> Resources:
        """Offered and held amounts, by resource name."""

    @property
    def non_zero(self) -> Int64Array:
        """Held cpu (`[0]`) and memory (`[1]`), with defaults for containers that request none."""

    @property
    def version(self) -> int:
        """Grows with every change of a node or pod."""


if TYPE_CHECKING:
    _implements: type[Table] = NodeTable
