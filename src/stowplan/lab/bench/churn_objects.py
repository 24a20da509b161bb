"""The nodes and pods of a soak: many kinds, so that every cache and index is filled.

Called by `churn`. Pure: same seed, same objects. What must stay true: every pod that is made here
can be bound sooner or later on the nodes that are made here, so that one which is not is a fault.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]

ZONES = 3
NODE_CPUS = 4
ZONE_KEY = "topology.kubernetes.io/zone"
HOST_KEY = "kubernetes.io/hostname"
#: Pods that are late wait for a node with this label.
SLOT_KEY = "soak.example.com/slot"
SLOTS = 4
#: The label and taint of nodes that are always full; only some pods select and tolerate it.
CROWD_KEY = "soak.example.com/crowded"
GATE = "soak.example.com/not-yet"
HIGH_PRIORITY = 1000
#: Groups of each kind at a time, as of Deployments; now and then a new one replaces the oldest.
GROUPS = 50
ARRIVALS_PER_NEW_GROUP = 20_000


class PodKind(StrEnum):
    """What is special about a pod; its name begins with it."""

    PLAIN = "plain"
    #: Evenly over the zones, with the pods of its own group.
    SPREAD = "spread"
    #: On another node than each pod of its own group.
    APART = "apart"
    #: In the zone where the pods of its own group are.
    TOGETHER = "together"
    #: Like no other: requests, labels and preferences of its own.
    ODD = "odd"
    #: Unschedulable until some node gets a label.
    LATE = "late"
    #: Not to be tried until its gate is taken away.
    GATED = "gated"
    #: Fill the crowded nodes; some are evicted, and come back as others.
    LOW = "low"
    #: Evict them.
    HIGH = "high"


#: Out of a hundred arrivals.
SHARES = {
    PodKind.PLAIN: 57,
    PodKind.SPREAD: 10,
    PodKind.APART: 10,
    PodKind.TOGETHER: 6,
    PodKind.ODD: 15,
    PodKind.LATE: 1,
    PodKind.GATED: 1,
}


def kind_of(name: str) -> PodKind:
    return PodKind(name.partition("-")[0])


@dataclass(frozen=True)
class NodeLayout:
    """How many nodes there are, and which of them are crowded."""

    nodes: int

    @property
    def crowded(self) -> int:
        return max(1, self.nodes // 100)

    @property
    def crowd_places(self) -> int:
        """Number of places on crowded nodes, one CPU each."""
        return self.crowded * NODE_CPUS

    def is_crowded(self, number: int) -> bool:
        return number < self.crowded

    def ordinary(self) -> range:
        return range(self.crowded, self.nodes)

    def node(self, number: int) -> Json:
        name = node_name(number)
        labels = {HOST_KEY: name, ZONE_KEY: f"zone-{number % ZONES}"}
        spec: Json = {}
        if self.is_crowded(number):
            labels[CROWD_KEY] = "yes"
            spec["taints"] = [{"key": CROWD_KEY, "effect": "NoSchedule"}]
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": spec,
            "status": {
                "capacity": {"cpu": str(NODE_CPUS), "memory": "32Gi", "pods": "110"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }


def node_name(number: int) -> str:
    return f"node-{number:05}"


class PodMaker:
    """Pods one after the other, each with a name of its own."""

    def __init__(self, layout: NodeLayout, seed: int) -> None:
        self._layout = layout
        self._rng = Random(seed)
        self._made: Counter[PodKind] = Counter()

    def arrival(self) -> Json:
        """The next pod of the usual mixture."""
        (kind,) = self._rng.choices(list(SHARES), list(SHARES.values()))
        return self.make(kind)

    def make(self, kind: PodKind) -> Json:
        number = self._made[kind]
        oldest = self._made.total() // ARRIVALS_PER_NEW_GROUP
        self._made[kind] += 1
        group = f"{kind}-{self._rng.randrange(oldest, oldest + GROUPS)}"
        labels, spec, requests = self._special(kind, number, group)
        amounts = {"cpu": "100m", "memory": "200Mi"} | requests
        container = {
            "name": "main",
            "image": "example.test/soak:1",
            "resources": {"requests": amounts},
        }
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{kind}-{number:07}", "labels": {"kind": kind.value} | labels},
            "spec": {"containers": [container], **spec},
        }

    def _special(self, kind: PodKind, number: int, group: str) -> tuple[Json, Json, Json]:
        """The labels, spec fields and requests of a kind of pod."""
        labels = {"group": group}
        selector = {"matchLabels": labels}
        if kind is PodKind.SPREAD:
            constraint = {"maxSkew": 3, "topologyKey": ZONE_KEY, "labelSelector": selector}
            constraint["whenUnsatisfiable"] = "DoNotSchedule"
            return labels, {"topologySpreadConstraints": [constraint]}, {}
        if kind in (PodKind.APART, PodKind.TOGETHER):
            apart = kind is PodKind.APART
            term = {"labelSelector": selector, "topologyKey": HOST_KEY if apart else ZONE_KEY}
            rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
            return labels, {"affinity": {"podAntiAffinity" if apart else "podAffinity": rule}}, {}
        if kind is PodKind.ODD:
            requests = {"cpu": f"{1 + number % 150}m", "memory": f"{1 + number}Ki"}
            return {"odd": str(number)}, {"affinity": self._preference()}, requests
        if kind is PodKind.LATE:
            return {}, {"nodeSelector": {SLOT_KEY: f"slot-{number % SLOTS}"}}, {}
        if kind is PodKind.GATED:
            return {}, {"schedulingGates": [{"name": GATE}]}, {}
        if kind in (PodKind.LOW, PodKind.HIGH):
            spec = {
                "nodeSelector": {CROWD_KEY: "yes"},
                "tolerations": [{"key": CROWD_KEY, "operator": "Exists"}],
                "priority": HIGH_PRIORITY if kind is PodKind.HIGH else 0,
            }
            return {}, spec, {"cpu": "1"}
        return {}, {}, {}

    def _preference(self) -> Json:
        """A preferred node, often one that does not exist."""
        wanted = [node_name(self._rng.randrange(self._layout.nodes * 2))]
        term = {"matchExpressions": [{"key": HOST_KEY, "operator": "In", "values": wanted}]}
        preferred = [{"weight": self._rng.randint(1, 100), "preference": term}]
        return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
