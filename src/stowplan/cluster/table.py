"""The node table: one row a node, one column a fact, kept up to date by the cache.

The live table is the snapshot: a decision is synchronous, so nothing moves under it. A row keeps
its slot for as long as its node lives or pods still stand on it (a *ghost* row: the node is
unknown or gone, `valid` is False). What must stay true: every array has `capacity` entries,
`requested`, `non_zero` and `pod_count` equal the sums over `pods[row]`, and every change of a row
is marked in one of the journals before the next decision reads it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stowplan.api.objects import Node, Pod, Quantities, Taint
from stowplan.cluster.affinity_terms import AffinityTermIndex
from stowplan.cluster.bytes_lru import BytesLru
from stowplan.cluster.counters import PodCounters
from stowplan.cluster.domains import Domains
from stowplan.cluster.exact_sums import ExactSums
from stowplan.cluster.images import ImageIndex
from stowplan.cluster.interning import Interner
from stowplan.cluster.journal import Journal, Rows
from stowplan.cluster.label_columns import LabelColumns
from stowplan.cluster.node_tree import NodeTree
from stowplan.cluster.pod_classes import PodClasses
from stowplan.cluster.pod_info import PodInfo
from stowplan.cluster.ports import UsedPorts
from stowplan.cluster.priorities import Priorities
from stowplan.cluster.requests import PODS, Amounts, canonical, parse_amounts, whole_units
from stowplan.cluster.resource_columns import ResourceColumns
from stowplan.cluster.used_volumes import UsedVolumes
from stowplan.cluster.work import Work

if TYPE_CHECKING:
    from stowplan.cluster.class_weights import ClassWeights
    from stowplan.cluster.term_sums import TermSums

Int64Array = NDArray[np.int64]
Int32Array = NDArray[np.int32]
BoolArray = NDArray[np.bool_]

#: Rows 0 and 1 of `allocatable` and `requested`, and of `non_zero`.
CPU_ROW, MEMORY_ROW = 0, 1
#: Pod events between two evictions of derived values that are no longer used.
_EVICT_EVERY = 256


class _Offer(NamedTuple):
    """What a node has for pods: as it says, and in canonical units."""

    quantities: Quantities | None
    amounts: Amounts
    pods: int

    @classmethod
    def of(cls, quantities: Quantities | None) -> _Offer:
        amounts = parse_amounts(quantities)
        offered = {name: amount for name, amount in canonical(amounts).items() if amount}
        return cls(quantities, offered, whole_units(amounts.get(PODS, 0)))


class NodeTable:
    """All nodes in columns of int64, in canonical units (milli-CPU, bytes, counts)."""

    def __init__(self, capacity: int = 64) -> None:
        self.capacity = capacity
        #: Counts what is built from the table for decisions.
        self.work = Work()
        #: What nodes offer and pods hold of every resource.
        self.resources = ResourceColumns(capacity)
        self._non_zero = ExactSums(2, capacity)
        self.pod_count: Int64Array = np.zeros(capacity, np.int64)
        self.allowed_pods: Int64Array = np.zeros(capacity, np.int64)
        self.valid: BoolArray = np.zeros(capacity, np.bool_)
        self.unschedulable: BoolArray = np.zeros(capacity, np.bool_)
        #: Index into `taint_classes`: nodes with the same taints share one class.
        self.taint_class: Int32Array = np.zeros(capacity, np.int32)
        self.taint_classes: Interner[tuple[Taint, ...]] = Interner([()])
        #: Index into `feature_classes`: nodes that declare the same features share one class.
        self.feature_class: Int32Array = np.zeros(capacity, np.int32)
        self.feature_classes: Interner[tuple[str, ...]] = Interner([()])
        #: Labels of the nodes that exist; a ghost row has none.
        self.labels = LabelColumns(self._labels_of, capacity, self.work, keeps_ids=True)

        self.nodes: list[Node | None] = []
        self.names: list[str] = []
        self.pods: list[dict[str, PodInfo]] = []
        self.row_of: dict[str, int] = {}
        self._free: list[int] = []

        #: Pods by namespace and labels, for selectors.
        self.pod_classes = PodClasses(self.work)
        #: Pods by selector and row, for affinity and spreading.
        self.counters = PodCounters(self.pod_classes, self.work)
        #: Pods by the many terms of one pod, left here by `class_weights`.
        self.class_weights: BytesLru[Hashable, ClassWeights] = BytesLru(8 << 20)
        #: Nodes by the many node selector terms of one pod, left here by `term_sums`.
        self.term_sums: BytesLru[Hashable, TermSums] = BytesLru(8 << 20)
        #: The same, added up by topology domain, for spreading.
        self.domains = Domains(self)
        #: Terms of affinity that pods carry, by what they speak of.
        self.affinity_terms = AffinityTermIndex(self)
        #: Priorities of the pods of all rows, ghosts included.
        self.priorities = Priorities()
        #: Host ports that are taken, by row.
        self.used_ports = UsedPorts()
        #: Claims and disks that are in use, by row.
        self.used_volumes = UsedVolumes()
        #: Container images that nodes report, by name.
        self.images = ImageIndex()
        #: Rows whose pods changed.
        self.pod_journal = Journal()
        #: Rows whose node came, went or changed (labels, taints, allocatable, ...). It restarts
        #: when the table grows: arrays of the old capacity must be built again.
        self.node_journal = Journal()
        #: Those of the changes of nodes that topology domains depend on: comings and goings, labels
        #: and taints. It restarts with the other.
        self.layout_journal = Journal()
        #: Rows where annotations, status or other fields of a pod changed that nothing counts, as
        #: kubelets do all the time. In-tree plugins do not read them; see `Reads.PODS`.
        self.detail_journal = Journal()
        #: In the order of `Reads`: the more of a row is read, the more of them are followed.
        self.journals = (self.node_journal, self.pod_journal, self.detail_journal)
        #: Rows where a pod that was there began to run, which matters to preemption alone.
        self.start_journal = Journal()
        #: The last node's offer, cached because most nodes are like the one before.
        self._last_offer = _Offer.of(None)
        self._tree = NodeTree()
        self._order: Rows | None = None
        self._live: Rows | None = None

    # Reading

    @property
    def version(self) -> int:
        """Grows with every change; a decision is stamped with it."""
        return self.pod_journal.end + self.detail_journal.end + self.node_journal.end

    @property
    def order(self) -> Rows:
        """Live rows in kube-scheduler's node order (zones in turn).

        DIVERGES: a node that is deleted and comes back between two decisions goes to the end of its
        zone. Upstream's snapshot does not notice, and keeps its old place until another node comes
        or goes.
        """
        if self._order is None:
            self._order = np.array([self.row_of[n] for n in self._tree.order()], dtype=np.intp)
            self._order.flags.writeable = False  # plugins get it
        return self._order

    @property
    def live_rows(self) -> Rows:
        """Rows that hold a node, by slot."""
        if self._live is None:
            self._live = np.flatnonzero(self.valid)
            self._live.flags.writeable = False
        return self._live

    @property
    def used_slots(self) -> slice:
        """All rows that hold, or have held, a node."""
        return slice(len(self.names))

    def __len__(self) -> int:
        """Number of nodes."""
        return len(self.live_rows)

    def node(self, row: int) -> Node:
        node = self.nodes[row]
        assert node is not None, "a ghost row has no node"
        return node

    def live_row(self, name: str) -> int | None:
        """Row of a node that exists; None for an unknown or ghost one."""
        row = self.row_of.get(name)
        return row if row is not None and self.valid[row] else None

    def node_names(self) -> list[str]:
        """Names of the nodes that exist, zone by zone, the oldest of each zone first."""
        names = [*self._tree.names(), *self.row_of]
        return [name for name in dict.fromkeys(names) if self._holds_node(name)]

    def _holds_node(self, name: str) -> bool:
        row = self.row_of.get(name)
        return row is not None and self.nodes[row] is not None

    def ghost_names(self) -> Iterator[str]:
        """Names of nodes that are unknown but hold pods."""
        return (name for name, row in self.row_of.items() if not self.valid[row])

    @property
    def allocatable(self) -> Int64Array:
        """Offers by index and row: cpu, memory, then others that `resources` finds by name."""
        return self.resources.allocatable

    @property
    def requested(self) -> Int64Array:
        """What pods hold, by the same indices."""
        return self.resources.requested

    @property
    def non_zero(self) -> Int64Array:
        """cpu and memory as scoring sees them: a container without a request counts a little."""
        return self._non_zero.values

    def non_zero_on(self, index: int, row: int) -> int:
        """One of these sums, which an int64 may not hold."""
        sums = self._non_zero
        return sums.exact(index, row) if sums.large else int(sums.values[index, row])

    def _labels_of(self, row: int) -> Mapping[str, str]:
        node = self.nodes[row]
        return (node.metadata.labels or {}) if node is not None else {}

    # Nodes

    def set_node(self, node: Node) -> int:
        """Add a node or replace what is known of it; returns its row."""
        row = self.row_of.get(node.name)
        # Parsed before anything changes: an invalid quantity must leave no half of a node behind.
        if row is None or not self.valid[row]:
            offer = self._offer_of(node)
            row = self._new_row(node.name) if row is None else row
            self.valid[row] = True
            self._tree.add(node)
            self._nodeset_changed(row)
            self._write_node(row, node, offer)
        elif self._facts_differ(row, node):
            offer = self._offer_of(node)
            old = self.node(row)
            if (old.metadata.labels, old.spec.taints) != (node.metadata.labels, node.spec.taints):
                self.layout_journal.mark(row)
            self._tree.move(node)
            self._write_node(row, node, offer)
        # Even if nothing differs: reporting an image again may settle its size.
        self.images.set(row, node.status.images or ())
        self.nodes[row] = node
        return row

    def remove_node(self, name: str) -> None:
        """Forget a node; its row stays as a ghost while pods stand on it."""
        row = self.live_row(name)
        if row is None:
            return
        self.valid[row] = False
        # A ghost belongs to no topology domain, whatever labels its node had.
        self.labels.write(row, self._labels_of(row), {})
        self.nodes[row] = None
        self._tree.remove(name)
        self._nodeset_changed(row)
        self.node_journal.mark(row)
        self.resources.set_offers(row, {})
        self.images.set(row, ())
        self._drop_if_empty(row)

    def _offer_of(self, node: Node) -> _Offer:
        if self._last_offer.quantities != node.status.allocatable:
            self._last_offer = _Offer.of(node.status.allocatable)
        return self._last_offer

    def _write_node(self, row: int, node: Node, offer: _Offer) -> None:
        self.resources.set_offers(row, offer.amounts)
        self.allowed_pods[row] = offer.pods
        self.unschedulable[row] = node.spec.unschedulable
        self.taint_class[row] = self.taint_classes.id(node.spec.taints or ())
        self.feature_class[row] = self.feature_classes.id(node.status.declared_features or ())
        self.labels.write(row, self._labels_of(row), node.metadata.labels or {})
        self.node_journal.mark(row)

    def _facts_differ(self, row: int, node: Node) -> bool:
        """Whether an update changes anything that scheduling reads."""
        old = self.nodes[row]
        if old is None:
            return True
        return (
            old.metadata.labels != node.metadata.labels
            or old.metadata.annotations != node.metadata.annotations
            or old.spec != node.spec
            or old.status != node.status
        )

    # Pods

    def add_pod(self, name: str, info: PodInfo) -> int:
        """Put a pod on a node; an unknown node gets a ghost row."""
        row = self.row_of.get(name)
        if row is None:
            row = self._new_row(name)
        self.pods[row][info.uid] = info
        self.priorities.add(info.priority)
        self._account(row, info, 1)
        self.pod_classes.add(row, info.pod)
        if info.pod.spec.affinity is not None:
            self.affinity_terms.change(row, info.pod, 1)
        return row

    def remove_pod(self, row: int, uid: str) -> None:
        info = self.pods[row].pop(uid)
        self.priorities.remove(info.priority)
        self._account(row, info, -1)
        self.pod_classes.remove(row, info.pod)
        if info.pod.spec.affinity is not None:
            self.affinity_terms.change(row, info.pod, -1)
        self._drop_if_empty(row)

    def replace_pod(self, row: int, info: PodInfo) -> None:
        """Swap one version of a pod for another, keeping its place among the row's pods."""
        old = self.pods[row][info.uid]
        self.pods[row][info.uid] = info
        if old.priority != info.priority:
            self.priorities.remove(old.priority)
            self.priorities.add(info.priority)
        if old.kind == info.kind and not info.volumes:
            # It takes as much, as when the API server gives a bound pod the labels of its zone.
            self._mark_pods(row)
        else:
            self._account(row, old, -1)
            self._account(row, info, 1)
        self.pod_classes.replace(row, old.pod, info.pod)
        if old.pod.spec.affinity != info.pod.spec.affinity:
            self.affinity_terms.replace(row, old.pod, info.pod)

    def renew_pod(self, row: int, info: PodInfo, pod: Pod) -> None:
        """Show a newer object of a pod, of which nothing changed that the table counts."""
        self.detail_journal.mark(row)
        if info.pod.status.start_time != pod.status.start_time:
            self.start_journal.mark(row)
        info.pod = pod

    def _account(self, row: int, info: PodInfo, sign: int) -> None:
        self.resources.hold(row, info.held, sign)
        self._non_zero.add_all(row, info.held_non_zero, sign)
        self.pod_count[row] += sign
        if info.host_ports:
            self.used_ports.change(row, info.host_ports, sign)
        if info.volumes:
            self.used_volumes.change(row, info, sign)
        self._mark_pods(row)

    def _mark_pods(self, row: int) -> None:
        """The pods of a row changed."""
        self.pod_journal.mark(row)
        if not self.pod_journal.end % _EVICT_EVERY:
            for kept in (
                self.labels,
                self.pod_classes,
                self.counters,
                self.class_weights,
                self.term_sums,
                self.domains,
            ):
                kept.advance(_EVICT_EVERY)
            self.affinity_terms.advance(_EVICT_EVERY)

    # Slots

    def _new_row(self, name: str) -> int:
        if self._free:
            row = self._free.pop()
            self.names[row] = name
        else:
            row = len(self.names)
            if row == self.capacity:
                self._grow()
            self.names.append(name)
            self.nodes.append(None)
            self.pods.append({})
        self.row_of[name] = row
        return row

    def _drop_if_empty(self, row: int) -> None:
        if not self.valid[row] and not self.pods[row]:
            del self.row_of[self.names[row]]
            self.names[row] = ""
            self._free.append(row)

    def lay_out(self, like: NodeTable) -> None:
        """Give an empty table the rows of another one, still without nodes and pods."""
        self.names = list(like.names)
        self.nodes = [None] * len(self.names)
        self.pods = [{} for _ in self.names]
        self.row_of = dict(like.row_of)
        self._free = list(like._free)

    def drop_empty_rows(self) -> None:
        """Free rows that hold neither a node nor pods."""
        for row in list(self.row_of.values()):
            self._drop_if_empty(row)

    def keep_order(self, order: Rows) -> None:
        """Use this order until a node comes or goes."""
        self._order = order.copy()

    def _grow(self) -> None:
        """Double the capacity; readers hold no arrays across decisions, so nothing dangles."""
        blank = self.capacity
        self.capacity *= 2
        self.resources.grow(self.capacity)
        self._non_zero.reshape(2, self.capacity, (CPU_ROW, MEMORY_ROW))
        self.pod_count = np.pad(self.pod_count, (0, blank))
        self.allowed_pods = np.pad(self.allowed_pods, (0, blank))
        self.valid = np.pad(self.valid, (0, blank))
        self.unschedulable = np.pad(self.unschedulable, (0, blank))
        self.taint_class = np.pad(self.taint_class, (0, blank))
        self.feature_class = np.pad(self.feature_class, (0, blank))
        self.labels.grow(self.capacity)
        self.node_journal.restart()
        self.layout_journal.restart()

    def _nodeset_changed(self, row: int) -> None:
        self.layout_journal.mark(row)
        self._order = None
        self._live = None
