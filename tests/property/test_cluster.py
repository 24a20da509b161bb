"""The cache under random events in any order, held against a model that only knows sums.

The model keeps what the API server would list and what was assumed, as plain integers that were
chosen when a pod was made. After every step the table's columns, its order, its counters and what
readers of its journals have kept must follow from the model alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from stowplan.api.labels import EVERYTHING, NOTHING, CompiledSelector, Requirement
from stowplan.api.objects import Container, ContainerPort, Node, Pod, ResourceRequirements
from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.compare import compare
from stowplan.cluster.counters import PodCounter, PodCounters
from stowplan.cluster.pod_classes import CounterKey
from stowplan.cluster.ports import HostPort, host_ports
from stowplan.cluster.table import NodeTable
from stowplan.testing import node as make_node
from stowplan.testing import pod as make_pod
from tests.examples import examples

GPU = "example.com/gpu"
MIB = 1024 * 1024
NODE_NAMES = ["n0", "n1", "n2", "n3", "n4", "n5"]
IMAGES = ["web:1", "web:2", "db:1"]
ADDRESSES = ["10.0.0.1", "10.0.0.2"]
SELECTORS = [
    EVERYTHING,
    NOTHING,
    CompiledSelector((Requirement("app", "In", ("web",)),)),
    CompiledSelector((Requirement("app", "In", ("db", "web")),)),
    CompiledSelector((Requirement("app", "Exists"),)),
    CompiledSelector((Requirement("app", "NotIn", ("web",)),)),
    CompiledSelector((Requirement("app", "In", ("web",)), Requirement("tier", "In", ("x",)))),
    CompiledSelector((Requirement("tier", "DoesNotExist"),)),
]


@dataclass(frozen=True)
class Numbers:
    """What a pod asks for; None: not named."""

    cpu: int | None
    memory_mib: int | None
    gpu: int
    #: A host port, on one address or on all.
    address: str | None = None

    def containers(self) -> list[Container]:
        requests: dict[str, str | int | float] = {GPU: self.gpu} if self.gpu else {}
        if self.cpu is not None:
            requests["cpu"] = f"{self.cpu}m"
        if self.memory_mib is not None:
            requests["memory"] = f"{self.memory_mib}Mi"
        ports = [ContainerPort(host_port=80, host_ip=self.address)] if self.address else []
        resources = ResourceRequirements(requests=requests)
        return [Container(name="main", resources=resources, ports=tuple(ports))]


@dataclass(frozen=True)
class ModelPod:
    pod: Pod
    numbers: Numbers
    node: str
    assumed: bool = False


@dataclass
class Tree:
    """The order of nodes, written down the long way."""

    zones: list[tuple[str, list[str]]] = field(default_factory=list)
    order: list[str] = field(default_factory=list)

    def add(self, name: str, zone: str) -> None:
        for known, names in self.zones:
            if known == zone:
                names.append(name)
                return
        self.zones.append((zone, [name]))

    def remove(self, name: str) -> None:
        for _, names in self.zones:
            if name in names:
                names.remove(name)
        self.zones = [entry for entry in self.zones if entry[1]]

    def zone_of(self, name: str) -> str:
        return next(zone for zone, names in self.zones if name in names)

    def rebuild(self) -> None:
        left = [list(names) for _, names in self.zones]
        self.order = []
        while any(left):
            self.order += [names.pop(0) for names in left if names]


numbers_strategy = st.builds(
    Numbers,
    cpu=st.sampled_from([None, 0, 100, 250, 4000]),
    memory_mib=st.sampled_from([None, 0, 64, 512]),
    gpu=st.sampled_from([0, 0, 1, 3]),
    address=st.sampled_from([None, None, "0.0.0.0", *ADDRESSES]),
)
labels_strategy = st.fixed_dictionaries(
    {},
    optional={"app": st.sampled_from(["web", "db", "job"]), "tier": st.sampled_from(["x", "y"])},
)
key_strategy = st.builds(
    CounterKey,
    namespaces=st.sampled_from(
        [None, frozenset[str](), frozenset({"a"}), frozenset({"a", "b", "empty"})]
    ),
    selector=st.sampled_from(SELECTORS),
    live=st.booleans(),
)


class ClusterMachine(RuleBasedStateMachine):
    pods: Bundle[str] = Bundle("pods")

    def __init__(self) -> None:
        super().__init__()
        self.cache = ClusterCache()
        # Small, so that tables grow and counters are dropped.
        self.table = self.cache.table = NodeTable(capacity=2)
        self.table.counters = PodCounters(self.table.pod_classes, limit_bytes=3000)
        self.api_nodes: dict[str, Node] = {}
        self.model: dict[str, ModelPod] = {}
        #: Size and holders of every image.
        self.images: dict[str, tuple[int, set[str]]] = {}
        self.tree = Tree()
        self.serial = 0
        self.pod_position = self.table.pod_journal.end
        self.node_position = self.table.node_journal.end
        self.capacity = self.table.capacity
        self.seen_pods: dict[int, tuple[int, int, int]] = {}
        self.seen_nodes: dict[int, tuple[int, int]] = {}
        self.followed: dict[PodCounter, tuple[int, dict[int, int]]] = {}

    # Nodes

    @rule(
        name=st.sampled_from(NODE_NAMES),
        zone=st.sampled_from([None, "z1", "z2"]),
        cpu=st.integers(0, 8),
        gpu=st.sampled_from([0, 4]),
        pods=st.integers(0, 5),
        images=st.dictionaries(st.sampled_from(IMAGES), st.integers(1, 3)),
    )
    def set_node(
        self,
        name: str,
        zone: str | None,
        cpu: int,
        gpu: int,
        pods: int,
        images: dict[str, int],
    ) -> None:
        node = make_node(
            name,
            cpu=cpu,
            memory="4Gi",
            pods=pods,
            zone=zone,
            resources={GPU: gpu} if gpu else {},
            images=images,
        )
        self.cache.set_node(node)
        self.forget_images(name)
        for image, size in images.items():
            self.images.setdefault(image, (size, set()))[1].add(name)
        if name in self.api_nodes:
            if self.tree.zone_of(name) != (zone or ""):
                self.tree.remove(name)
                self.tree.add(name, zone or "")
        else:
            self.tree.add(name, zone or "")
            self.tree.rebuild()
        self.api_nodes[name] = node

    @rule(name=st.sampled_from(NODE_NAMES))
    def repeat_node(self, name: str) -> None:
        """News of a node that brings nothing new."""
        if name in self.api_nodes:
            node = self.api_nodes[name]
            self.cache.set_node(node)
            self.forget_images(name)
            for image in node.status.images or ():
                for known in image.names or ():
                    self.images.setdefault(known, (image.size_bytes, set()))[1].add(name)

    def forget_images(self, node: str) -> None:
        """As kube-scheduler's cache does it, before it reads a node's images anew."""
        for image, (_, names) in list(self.images.items()):
            names.discard(node)
            if not names:
                del self.images[image]

    @rule(name=st.sampled_from(NODE_NAMES))
    def remove_node(self, name: str) -> None:
        self.cache.remove_node(name)
        self.forget_images(name)
        if self.api_nodes.pop(name, None) is not None:
            self.tree.remove(name)
            self.tree.rebuild()

    # Pods as the API server tells of them

    @rule(
        target=pods,
        node=st.sampled_from(NODE_NAMES),
        namespace=st.sampled_from(["a", "b"]),
        numbers=numbers_strategy,
        labels=labels_strategy,
        terminating=st.booleans(),
        pending=st.booleans(),
    )
    def new_pod(
        self,
        node: str,
        namespace: str,
        numbers: Numbers,
        labels: dict[str, str],
        terminating: bool,
        pending: bool,
    ) -> str:
        """A pod that stands already, or one that is decided on here."""
        self.serial += 1
        pod = make_pod(
            f"p{self.serial % 3}",
            namespace=namespace,
            uid=f"uid-{self.serial}",
            node="" if pending else node,
            labels=labels,
            terminating=terminating,
            containers=numbers.containers(),
        )
        if pending:
            pod = self.cache.assume(pod, node)
            assert pod.spec.node_name == node
        else:
            self.cache.add_pod(pod)
        self.model[pod.uid] = ModelPod(pod, numbers, node, assumed=pending)
        return pod.uid

    @rule(
        uid=pods,
        labels=st.none() | labels_strategy,
        numbers=st.none() | numbers_strategy,
        terminating=st.none() | st.booleans(),
        node=st.none() | st.sampled_from(NODE_NAMES),
    )
    def update_pod(
        self,
        uid: str,
        labels: dict[str, str] | None,
        numbers: Numbers | None,
        terminating: bool | None,
        node: str | None,
    ) -> None:
        """News of a pod: a repetition, a change, a confirmation, even another node."""
        known = self.model.get(uid)
        if known is None:
            return
        meta: dict[str, Any] = {}
        if labels is not None:
            meta["labels"] = labels
        if terminating is not None:
            meta["deletion_timestamp"] = "2026-01-01T00:00:00Z" if terminating else None
        numbers = numbers or known.numbers
        node = node or known.node
        pod = msgspec.structs.replace(
            known.pod,
            metadata=msgspec.structs.replace(known.pod.metadata, **meta),
            spec=msgspec.structs.replace(
                known.pod.spec, node_name=node, containers=tuple(numbers.containers())
            ),
        )
        self.cache.update_pod(pod)
        self.model[uid] = ModelPod(pod, numbers, node)

    @rule(uid=pods)
    def assume_again(self, uid: str) -> None:
        if uid in self.model:
            try:
                self.cache.assume(self.model[uid].pod, "n0")
            except ValueError:
                return
            raise AssertionError("a pod was assumed twice")

    @rule(uid=pods)
    def forget(self, uid: str) -> None:
        known = self.model.get(uid)
        assert self.cache.forget(uid) == (known is not None and known.assumed)
        if known is not None and known.assumed:
            del self.model[uid]

    @rule(uid=consumes(pods))
    def remove_pod(self, uid: str) -> None:
        assert self.cache.remove_pod(uid) == (self.model.pop(uid, None) is not None)

    # Counters

    @rule(key=key_strategy)
    def ask_counter(self, key: CounterKey) -> None:
        counter = self.table.counters.get(key)
        self.followed[counter] = (counter.position, dict(counter.counts))

    # What must follow

    def sums(self, name: str) -> tuple[int, int, int, int, int, int]:
        mine = [entry.numbers for entry in self.model.values() if entry.node == name]
        return (
            sum(n.cpu or 0 for n in mine),
            sum(n.memory_mib or 0 for n in mine) * MIB,
            sum(n.gpu for n in mine),
            sum(100 if n.cpu is None else n.cpu for n in mine),
            sum(200 if n.memory_mib is None else n.memory_mib for n in mine) * MIB,
            len(mine),
        )

    @invariant()
    def columns_are_the_sums(self) -> None:
        table = self.table
        holding = {entry.node for entry in self.model.values()}
        assert set(table.row_of) == holding | set(self.api_nodes)
        assert set(table.ghost_names()) == holding - set(self.api_nodes)
        for name, row in table.row_of.items():
            cpu, memory, gpus, non_zero_cpu, non_zero_memory, count = self.sums(name)
            assert table.names[row] == name
            assert table.requested[[0, 1], row].tolist() == [cpu, memory]
            assert table.resources.held_on(GPU, row) == table.resources.held(GPU)[row] == gpus
            assert table.non_zero[:, row].tolist() == [non_zero_cpu, non_zero_memory]
            assert table.pod_count[row] == count == len(table.pods[row])
            assert (table.live_row(name) is not None) == (name in self.api_nodes)
            if name in self.api_nodes:
                offers = self.api_nodes[name].status.allocatable or {}
                assert table.node(row) is self.api_nodes[name]
                assert table.allocatable[0, row] == int(offers["cpu"]) * 1000
                assert table.resources.offered_on(GPU, row) == int(offers.get(GPU, 0))
                assert table.allowed_pods[row] == int(offers["pods"])
        used = sorted(table.row_of.values())
        assert len(set(used)) == len(used)
        free = np.setdiff1d(np.arange(table.capacity), used)
        assert not table.requested[:, free].any()
        assert not table.pod_count[free].any()
        assert not table.valid[free].any()

    @invariant()
    def order_is_zones_in_turn(self) -> None:
        assert [self.table.names[row] for row in self.table.order] == self.tree.order
        assert len(self.table) == len(self.api_nodes)

    @invariant()
    def cache_knows_who_stands_where(self) -> None:
        cache = self.cache
        assert cache.placements() == {uid: entry.node for uid, entry in self.model.items()}
        assumed = {uid for uid, entry in self.model.items() if entry.assumed}
        assert {uid for uid in self.model if cache.is_assumed(uid)} == assumed
        assert (cache.pod_count, cache.assumed_count) == (len(self.model), len(assumed))
        for uid, entry in self.model.items():
            row = self.table.row_of[entry.node]
            assert self.table.pods[row][uid].pod == entry.pod

    @invariant()
    def label_columns_show_live_nodes(self) -> None:
        key = "topology.kubernetes.io/zone"
        column, values = self.table.labels.column(key), self.table.labels.values(key).values
        for name, row in self.table.row_of.items():
            node = self.api_nodes.get(name)
            expected = (node.metadata.labels or {}).get(key) if node is not None else None
            assert (values[column[row]] if column[row] >= 0 else None) == expected

    @invariant()
    def counters_equal_a_recount(self) -> None:
        for kept in list(self.table.counters):
            counter = self.table.counters.get(kept.key)
            expected: dict[int, int] = {}
            for entry in self.model.values():
                if counter.key.matches(entry.pod):
                    row = self.table.row_of[entry.node]
                    expected[row] = expected.get(row, 0) + 1
            assert counter.counts == expected
            assert counter.total == sum(expected.values())
            assert counter.dense(self.table.capacity).sum() == counter.total

    @invariant()
    def used_ports_equal_a_recount(self) -> None:
        taken: dict[str, set[int]] = {}
        for entry in self.model.values():
            row = self.table.row_of[entry.node]
            for port in host_ports(entry.pod):
                taken.setdefault(port.address, set()).add(row)
        used = self.table.used_ports
        assert len(used) == bool(taken)
        for address in ADDRESSES:
            expected = taken.get(address, set()) | taken.get("0.0.0.0", set())
            wanted = [HostPort("TCP", 80, address), HostPort("UDP", 80, "0.0.0.0")]
            assert used.rows_clashing(wanted) == expected
            assert {row for row in self.table.row_of.values() if used.clashes(row, wanted)} == (
                expected
            )
        everywhere = HostPort("TCP", 80, "0.0.0.0")
        assert used.rows_clashing([everywhere]) == set().union(*taken.values())

    @invariant()
    def images_have_their_holders(self) -> None:
        index = self.table.images
        assert len(index) == len(self.images)
        for name, (size, holders) in self.images.items():
            held = index.get(name)
            assert held is not None
            assert held.size == size
            assert held.rows == {self.table.row_of[holder] for holder in holders}
            assert set(held.row_array().tolist()) == held.rows

    @invariant()
    def readers_of_logs_keep_up(self) -> None:
        alive = set(self.table.counters)
        self.followed = {c: kept for c, kept in self.followed.items() if c in alive}
        for counter, (position, counts) in self.followed.items():
            for row, delta in counter.since(position) or ():
                counts[row] = counts.get(row, 0) + delta
            assert {row: count for row, count in counts.items() if count} == counter.counts
            self.followed[counter] = (counter.position, counts)

    @invariant()
    def readers_of_journals_keep_up(self) -> None:
        """Rows that are not marked have not changed."""
        table = self.table
        pod_rows = table.pod_journal.entries_since(self.pod_position)
        node_rows = table.node_journal.entries_since(self.node_position)
        assert pod_rows is not None
        if node_rows is None:
            assert self.capacity != table.capacity, "only growth makes readers start over"
            node_rows = table.live_rows.tolist()
        self.capacity = table.capacity
        for row in pod_rows:
            self.seen_pods[row] = (
                int(table.requested[0, row]),
                table.resources.held_on(GPU, row),
                int(table.pod_count[row]),
            )
        for row in node_rows:
            self.seen_nodes[row] = (
                int(table.allocatable[0, row]),
                int(table.allowed_pods[row]),
            )
        self.pod_position, self.node_position = table.pod_journal.end, table.node_journal.end
        for row in table.row_of.values():
            gpus = table.resources.held_on(GPU, row)
            actual = (int(table.requested[0, row]), gpus, int(table.pod_count[row]))
            assert self.seen_pods.get(row, (0, 0, 0)) == actual
        for row in table.live_rows.tolist():
            assert self.seen_nodes[row] == (table.allocatable[0, row], table.allowed_pods[row])

    @invariant()
    def comparison_agrees(self) -> None:
        confirmed = [entry.pod for entry in self.model.values() if not entry.assumed]
        result = compare(self.cache, self.api_nodes.values(), confirmed)
        assert result.agrees, str(result)
        assert {placed.uid for placed in result.assumed_pods} == {
            uid for uid, entry in self.model.items() if entry.assumed
        }


TestCluster = ClusterMachine.TestCase
TestCluster.settings = examples(60, stateful_step_count=40)
