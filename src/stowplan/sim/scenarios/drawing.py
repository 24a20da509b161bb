"""Facts about pods and nodes that a page needs to draw the cluster at any moment.

Filled by the recording while a scenario is played, read by `history`. It keeps a bounded number of
pods: a page of more could not be opened.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from stowplan.api.objects import Node, Pod
from stowplan.api.quantity import milli_value, value
from stowplan.cluster.pod_info import held_amounts
from stowplan.sim.scenarios.manifests import ZONE

#: More pods than this are not drawn over time.
MOST_PODS: Final = 20_000


@dataclass(frozen=True, slots=True)
class PodFacts:
    #: What pods of one kind share: decides the colour.
    family: str
    milli_cpu: int
    memory: int
    priority: int


@dataclass(frozen=True, slots=True)
class NodeFacts:
    zone: str
    milli_cpu: int
    memory: int
    taints: tuple[str, ...]
    is_cordoned: bool


@dataclass(slots=True)
class Drawing:
    """All pods and nodes that ever existed, by namespace/name and by name."""

    pods: dict[str, PodFacts] = field(default_factory=dict)
    nodes: dict[str, NodeFacts] = field(default_factory=dict)
    #: Why each pod got its node: the best nodes and their scores.
    scores: dict[str, str] = field(default_factory=dict)
    #: Pods were left out: there are too many to draw.
    is_cut: bool = False

    def pod_created(self, pod: Pod) -> None:
        if len(self.pods) >= MOST_PODS:
            self.is_cut = True
            return
        amounts = held_amounts(pod)
        self.pods[pod.key] = PodFacts(
            family_of(pod.metadata.name, dict(pod.metadata.labels or {})),
            amounts.get("cpu", 0),
            amounts.get("memory", 0),
            pod.spec.priority or 0,
        )

    def scored(self, key: str, words: str) -> None:
        if key in self.pods:
            self.scores[key] = words

    def node_created(self, node: Node) -> None:
        offers = node.status.allocatable or {}
        taints = [each for each in node.spec.taints or () if "node.kubernetes.io/" not in each.key]
        self.nodes[node.name] = NodeFacts(
            (node.metadata.labels or {}).get(ZONE, ""),
            milli_value(offers.get("cpu", "0")),
            value(offers.get("memory", "0")),
            tuple(f"{each.key}={each.value}:{each.effect}" for each in taints),
            bool(node.spec.unschedulable),
        )


def family_of(name: str, labels: dict[str, str]) -> str:
    """The application of a pod by its label, or its name without a number."""
    return labels.get("app") or name.rstrip("0123456789").rstrip("-")
