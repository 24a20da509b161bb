"""Follows pods and nodes of a cluster, and makes a `Run` of it.

Cost: a pod is a row, a node a few numbers; a moment looks at every node. Moments are kept in even
steps: when there are too many, every second one is dropped and the step doubles.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from stowplan.api.objects import Node, Pod
from stowplan.api.quantity import milli_value, value
from stowplan.cluster.pod_info import held_amounts
from stowplan.sim.results.run import FORMAT, SAMPLED, Gap, PodLife, Run

#: Moments of a run are between half of this and this.
_MOMENTS: Final = 400
_ZONE: Final = "topology.kubernetes.io/zone"
_TYPE: Final = "node.kubernetes.io/instance-type"
#: A node's price per hour, where no table of prices has its type.
PRICE: Final = "stowplan.io/price-per-hour"
_RESOURCES: Final = ("cpu", "memory")
#: Prices are counted in whole units of this, so that sums do not depend on the order of changes.
_BILLION: Final = 10**9


@dataclass(slots=True)
class _Node:
    offers: dict[str, int] = field(default_factory=dict)
    zone: str = ""
    #: Per hour, in billionths.
    price: int = 0
    used: Counter[str] = field(default_factory=Counter)
    pods: int = 0


@dataclass(slots=True)
class _Pod:
    created: float
    bound: float | None = None
    node: str = ""
    amounts: Mapping[str, int] = field(default_factory=dict)
    was_placed: bool = False
    preempted: bool = False


class RunObserver:
    """Collects every change of a run; `finish` returns the run."""

    def __init__(
        self, name: str, now: Callable[[], float], prices: Mapping[str, float] | None = None
    ) -> None:
        """`prices` are per hour, by instance type."""
        self._name = name
        self._now = now
        self._prices = prices or {}
        #: The instance type by name of node.
        self._unpriced: dict[str, str] = {}
        self._nodes: dict[str, _Node] = {}
        #: Nodes that are gone or not seen yet, and hold pods: these count if the node comes back.
        self._absent: dict[str, _Node] = {}
        self._pods: dict[str, _Pod] = {}
        self._lives: dict[str, PodLife] = {}
        self._sizes: Counter[tuple[int, int]] = Counter()
        self._samples: dict[str, list[float]] = {name: [] for name in SAMPLED}
        self._step = 1.0
        self._due = 0.0
        self._at = 0.0
        #: The prices of all nodes, and of those with pods, now.
        self._price = self._price_in_use = 0
        self._cost = self._cost_in_use = 0.0
        #: Of the recording that is played.
        self.gaps: list[Gap] = []

    # Changes

    def node_seen(self, node: Node) -> None:
        """A node was created, or changed."""
        self._advance()
        labels = node.metadata.labels or {}
        offers = {
            name: milli_value(amount) if name == "cpu" else value(amount)
            for name, amount in (node.status.allocatable or {}).items()
        }
        kind = labels.get(_TYPE, "")
        price = self._prices.get(kind)
        self._unpriced.pop(node.name, None)
        if price is None:
            price = _number(labels.get(PRICE, "")) or _number(
                (node.metadata.annotations or {}).get(PRICE, "")
            )
            if self._prices and not price:
                self._unpriced[node.name] = kind
        seen = self._nodes.get(node.name) or self._absent.pop(node.name, None) or _Node()
        if node.name in self._nodes:
            self._count_price(seen, -1)
        seen.offers, seen.zone = offers, labels.get(_ZONE, "")
        seen.price = round(price * _BILLION)
        self._count_price(seen, 1)
        self._nodes[node.name] = seen

    def node_gone(self, name: str) -> None:
        self._advance()
        node = self._nodes.pop(name, None)
        if node is not None:
            self._count_price(node, -1)
            if node.pods:
                self._absent[name] = node

    def pod_created(self, pod: Pod) -> None:
        self._advance()
        self._close(pod.key)
        self._pods[pod.key] = _Pod(self._at)
        if pod.spec.node_name:
            self._place(pod, was_placed=True)

    def pod_bound(self, pod: Pod) -> None:
        self._advance()
        if pod.key in self._pods:
            self._place(pod, was_placed=False)

    def pod_resized(self, pod: Pod) -> None:
        """A bound pod may hold other amounts."""
        kept = self._pods.get(pod.key)
        if kept is None or kept.bound is None:
            return
        self._advance()
        node = self._nodes.get(kept.node) or self._absent[kept.node]
        node.used.subtract(kept.amounts)
        kept.amounts = held_amounts(pod)
        node.used.update(kept.amounts)

    def pod_preempted(self, key: str) -> None:
        pod = self._pods.get(key)
        if pod is not None:
            pod.preempted = True

    def pod_gone(self, key: str) -> None:
        """Deleted, or finished."""
        self._advance()
        self._close(key)

    def finish(self) -> Run:
        self._advance()
        self._sample()
        for key, pod in self._pods.items():
            self._keep_life(key, pod, None)
        return Run(
            run=FORMAT,
            name=self._name,
            seconds=round(self._at, 3),
            pods=dict(sorted(self._lives.items())),
            samples=self._samples,
            cost=round(self._cost, 6),
            cost_in_use=round(self._cost_in_use, 6),
            unpriced=dict(sorted(Counter(self._unpriced.values()).items())),
            gaps=self.gaps,
        )

    # Pods

    def _place(self, pod: Pod, *, was_placed: bool) -> None:
        kept = self._pods[pod.key]
        if kept.bound is not None:
            return
        kept.bound, kept.node, kept.was_placed = self._at, pod.spec.node_name, was_placed
        kept.amounts = held_amounts(pod)
        self._sizes[kept.amounts.get("cpu", 0), kept.amounts.get("memory", 0)] += 1
        node = self._nodes.get(kept.node) or self._absent.setdefault(kept.node, _Node())
        node.used.update(kept.amounts)
        node.pods += 1
        if node.pods == 1 and kept.node in self._nodes:
            self._price_in_use += node.price

    def _close(self, key: str) -> None:
        pod = self._pods.pop(key, None)
        if pod is None:
            return
        node = self._nodes.get(pod.node) or self._absent.get(pod.node)
        if node is not None:
            node.used.subtract(pod.amounts)
            node.pods -= 1
            if not node.pods and self._absent.pop(pod.node, None) is None:
                self._price_in_use -= node.price
        self._keep_life(key, pod, self._at)

    def _keep_life(self, key: str, pod: _Pod, ended: float | None) -> None:
        if key in self._lives:  # a name that is used again keeps its first life
            return
        self._lives[key] = PodLife(
            created=round(pod.created, 3),
            bound=None if pod.bound is None else round(pod.bound, 3),
            node=pod.node,
            ended=None if ended is None else round(ended, 3),
            was_placed=pod.was_placed,
            preempted=pod.preempted,
        )

    # Moments

    def _advance(self) -> None:
        now = self._now()
        # A moment ends when a later one begins: all that happens in it counts.
        while self._due < now:
            self._pay(self._due)
            self._sample()
            self._due = round(self._due + self._step, 6)
            if len(self._samples["at"]) >= _MOMENTS:
                self._thin_out()
        self._pay(now)

    def _pay(self, until: float) -> None:
        hours = max(until - self._at, 0.0) / 3600
        self._cost += hours * self._price / _BILLION
        self._cost_in_use += hours * self._price_in_use / _BILLION
        self._at = max(self._at, until)

    def _count_price(self, node: _Node, sign: int) -> None:
        """Add a node that is there to the prices, or remove it."""
        self._price += sign * node.price
        if node.pods:
            self._price_in_use += sign * node.price

    def _thin_out(self) -> None:
        for values in self._samples.values():
            del values[1::2]
        self._step *= 2
        self._due = self._samples["at"][-1] + self._step

    def _sample(self) -> None:
        nodes = self._nodes.values()
        row = (
            round(self._at, 3),
            sum(1 for pod in self._pods.values() if pod.bound is None),
            sum(1 for pod in self._pods.values() if pod.bound is not None),
            len(nodes),
            sum(1 for node in nodes if node.pods),
            *(self._share(resource) for resource in _RESOURCES),
            self._fragmentation(),
            self._imbalance(),
            self._price / _BILLION,
        )
        for name, number in zip(SAMPLED, row, strict=True):
            self._samples[name].append(round(float(number), 6))

    def _share(self, resource: str) -> float:
        offered = sum(node.offers.get(resource, 0) for node in self._nodes.values())
        used = sum(node.used[resource] for node in self._nodes.values())
        return used / offered if offered else 0.0

    def _fragmentation(self) -> float:
        """The share of free CPU on nodes where the commonest size of pod does not fit."""
        if not self._sizes:
            return 0.0
        cpu, memory = max(self._sizes, key=lambda size: (self._sizes[size], size))
        free = lost = 0
        for node in self._nodes.values():
            free_cpu = max(node.offers.get("cpu", 0) - node.used["cpu"], 0)
            free_memory = node.offers.get("memory", 0) - node.used["memory"]
            free += free_cpu
            if free_cpu < cpu or free_memory < memory or node.pods >= node.offers.get("pods", 0):
                lost += free_cpu
        return lost / free if free else 0.0

    def _imbalance(self) -> float:
        """Pods of the fullest zone minus those of the emptiest, as a share of those in zones."""
        held: Counter[str] = Counter()
        for node in self._nodes.values():
            if node.zone:
                held[node.zone] += node.pods
        total = sum(held.values())
        return (max(held.values()) - min(held.values())) / total if total else 0.0


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        return 0.0
    return number if 0 < number < 1e9 else 0.0
