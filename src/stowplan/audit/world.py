"""The cluster as the audit knows it at one moment: nodes, pods, claims and volumes.

`live` fills it once; `history` changes it revision by revision. What was replaced a short while
ago is kept as well, because a scheduler may have decided on it.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator
from typing import Final, NamedTuple, TypeVar

from stowplan.api.objects import Namespace
from stowplan.api.resources import NAMESPACES
from stowplan.api.storage_objects import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from stowplan.audit.amounts import added
from stowplan.audit.devices import Devices, claim_names
from stowplan.audit.facts import NodeFacts, PodFacts, Term
from stowplan.audit.items import Item
from stowplan.audit.matching import HostPort, Labels
from stowplan.audit.tallies import Tallies

_NAME_LABEL: Final = "kubernetes.io/metadata.name"
K = TypeVar("K")
V = TypeVar("V")

#: How long replaced facts are kept, in seconds of the cluster's clock.
KEPT_S: Final = 900.0


class Replaced(NamedTuple):
    """A node as it was until some time; None if there was none."""

    until: float
    node: NodeFacts | None


class Departure(NamedTuple):
    """A pod that left its node, ended, or changed there."""

    at: float
    pod: PodFacts


class World:
    """All objects by name, and what each node holds."""

    def __init__(self, unread: Collection[str] = ()) -> None:
        #: Kinds that could not be read. Objects of these kinds may exist.
        self.unread = frozenset(unread)
        #: The API server's clock, as far as the objects tell it.
        self.now = 0.0
        self.nodes: dict[str, NodeFacts] = {}
        #: By namespace/name.
        self.pods: dict[str, PodFacts] = {}
        self.on_node: defaultdict[str, dict[str, PodFacts]] = defaultdict(dict)
        #: Sums of what the pods of a node hold.
        self.held: defaultdict[str, dict[str, int]] = defaultdict(dict)
        self.claims: dict[tuple[str, str], PersistentVolumeClaim] = {}
        self.volumes: dict[str, PersistentVolume] = {}
        self.classes: dict[str, StorageClass] = {}
        self.csi_nodes: dict[str, CSINode] = {}
        #: Pods on nodes that use a claim.
        self.using: defaultdict[tuple[str, str], dict[str, PodFacts]] = defaultdict(dict)
        self.devices = Devices()
        self.tallies = Tallies(self.nodes.get, self.namespace_labels)
        #: When a node last got room, or changed.
        self.eased_at: dict[str, float] = {}
        self.departures: deque[Departure] = deque()
        self._namespaces: dict[str, Labels] = {}
        self._ports: defaultdict[tuple[str, str, int], dict[str, PodFacts]] = defaultdict(dict)
        self._replaced: defaultdict[str, deque[Replaced]] = defaultdict(deque)

    def namespace_labels(self, name: str) -> Labels:
        """The API server gives every namespace its name as a label."""
        return self._namespaces.get(name) or {_NAME_LABEL: name}

    def knows_namespaces(self, *terms: Term) -> bool:
        """False if terms choose namespaces by labels, and namespaces could not be read."""
        return NAMESPACES.kind not in self.unread or all(
            each.key == _NAME_LABEL for term in terms for each in term.namespace_selector or ()
        )

    # Nodes

    def set_node(self, name: str, node: NodeFacts | None) -> None:
        old = self.nodes.get(name)
        if old is not None and node is not None and old.is_same(node):
            return
        self._replaced[name].append(Replaced(self.now, old))
        while self._replaced[name][0].until < self.now - KEPT_S:
            self._replaced[name].popleft()
        here = list(self.on_node[name].values())
        for pod in here:
            self.tallies.unplace(pod)
        if node is None:
            self.nodes.pop(name, None)
        else:
            self.nodes[name] = node
        self.tallies.set_node(name, node)
        for pod in here:
            self.tallies.place(pod)
        self.eased_at[name] = self.now

    def versions(self, name: str, since: float) -> Iterator[NodeFacts]:
        """A node as it is, and as it was since some time, the latest first."""
        if name in self.nodes:
            yield self.nodes[name]
        for each in reversed(self._replaced[name]):
            if each.until < since:
                return
            if each.node is not None:
                yield each.node

    def was_relabelled(self, name: str, since: float) -> bool:
        """True if a node went, came back or got other labels since some time.

        One that is new is none of them: a scheduler that put a pod there knew it.
        """
        labels = self.nodes[name].labels if name in self.nodes else None
        return any(
            each.until >= since and (each.node.labels != labels if each.node else number > 0)
            for number, each in enumerate(self._replaced[name])
        )

    def changed_nodes(self, since: float) -> set[str]:
        """Nodes that came, went or changed since some time."""
        return {name for name, many in self._replaced.items() if many and many[-1].until >= since}

    # Pods

    def set_pod(self, pod: PodFacts) -> None:
        """Add a pod, or replace it by its next revision."""
        old = self.pods.get(pod.key)
        self.tallies.acquire(pod)
        if old is not None:
            self._take_off(old, pod)
        self.pods[pod.key] = pod
        if old is not None and pod.pod.is_finished and claim_names(pod.pod):
            self.devices.gone_at.setdefault(pod.uid, self.now)
        if not pod.occupies:
            return
        self.on_node[pod.node][pod.key] = pod
        added(self.held[pod.node], pod.held)
        for claim in pod.claims:
            self.using[pod.namespace, claim][pod.key] = pod
        for port in pod.ports:
            self._ports[pod.node, port.protocol, port.port][pod.key] = pod
        self.tallies.place(pod)

    def remove_pod(self, key: str) -> None:
        old = self.pods.pop(key, None)
        if old is not None:
            self._take_off(old, None)
            if claim_names(old.pod):
                self.devices.gone_at.setdefault(old.uid, self.now)

    def _take_off(self, old: PodFacts, new: PodFacts | None) -> None:
        if old.occupies:
            self.tallies.unplace(old)
            del self.on_node[old.node][old.key]
            added(self.held[old.node], old.held, -1)
            for claim in old.claims:
                self.using[old.namespace, claim].pop(old.key, None)
            for port in old.ports:
                self._ports[old.node, port.protocol, port.port].pop(old.key, None)
            if new is None or not _counts_alike(old, new):
                self.departures.append(Departure(self.now, old))
                while self.departures[0].at < self.now - KEPT_S:
                    self.departures.popleft()
                self.eased_at[old.node] = self.now
        self.tallies.release(old)

    def with_port(self, node: str, port: HostPort) -> Iterable[PodFacts]:
        """The pods of a node that use a host port, at whatever address."""
        return self._ports.get((node, port.protocol, port.port), {}).values()

    def recent_departures(self, since: float) -> Iterator[PodFacts]:
        for each in reversed(self.departures):
            if each.at < since:
                return
            yield each.pod

    # Everything else

    def set_other(self, item: Item) -> None:
        """A namespace, claim, volume, storage class, CSINode or slice of devices."""
        found = item.object
        match item.kind:
            case "Namespace":
                labels = found.metadata.labels if isinstance(found, Namespace) else None
                if self._namespaces.get(item.name) != labels:
                    self._namespaces[item.name] = labels or {}
                    self.tallies.refill()
            case "PersistentVolumeClaim":
                _set(self.claims, (item.namespace, item.name), found)
            case "PersistentVolume":
                _set(self.volumes, item.name, found)
            case "StorageClass":
                _set(self.classes, item.name, found)
            case "CSINode":
                _set(self.csi_nodes, item.name, found)
            case "ResourceClaim":
                self.devices.set_claim((item.namespace, item.name), found, self._time_of(item))
            case "ResourceSlice":
                self.devices.set_slice(item.name, found, self._time_of(item))

    def _time_of(self, item: Item) -> float:
        """The clock of a history; without one, when the object was written."""
        return self.now or item.written_at

    def limited_drivers(self) -> set[str]:
        """CSI drivers of which some node takes only a number of volumes."""
        return {
            driver.name
            for node in self.csi_nodes.values()
            for driver in node.spec.drivers or ()
            if driver.allocatable is not None and driver.allocatable.count is not None
        }

    def bound_volumes(self, pod: PodFacts) -> Iterable[tuple[str, PersistentVolume | None]]:
        """The pod's claims with their volumes; None if there is none."""
        for name in pod.claims:
            claim = self.claims.get((pod.namespace, name))
            yield name, self.volumes.get(claim.spec.volume_name) if claim is not None else None


def _counts_alike(old: PodFacts, new: PodFacts) -> bool:
    return (
        new.occupies
        and new.node == old.node
        and new.labels == old.labels
        and new.held == old.held
        and new.pod.is_terminating == old.pod.is_terminating
    )


def _set(table: dict[K, V], key: K, value: V | None) -> None:
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value
