"""A plain reading of kube-scheduler's PodTopologySpread: one node after the other, every pod looked
at, dictionaries by label value. It shares no code with the plugin but selectors and the logarithm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stowplan.api.objects import Node, Pod, TopologySpreadConstraint
from stowplan.api.selectors import CompiledSelector, Requirement, compile_label_selector
from stowplan.api.tolerations import HARD_EFFECTS, tolerates
from stowplan.cluster.node_masks import required_nodes
from stowplan.plugins.pod_topology_spread.scoring import go_log

HOSTNAME = "kubernetes.io/hostname"
_INFINITE = 2**31 - 1


class _SmallestTwo:
    """Upstream's critical paths: the emptiest domain, and a candidate to take over from it."""

    def __init__(self) -> None:
        self.paths: list[tuple[str, int]] = [("", _INFINITE), ("", _INFINITE)]

    def update(self, value: str, number: int) -> None:
        first, second = self.paths
        if value in (first[0], second[0]):
            self.paths[0 if value == first[0] else 1] = (value, number)
            self.paths.sort(key=lambda path: path[1])
        elif number < first[1]:
            self.paths = [(value, number), first]
        elif number < second[1]:
            self.paths[1] = (value, number)


class ReferenceSpread:
    """The constraints of one pod that act in one way, against a cluster."""

    def __init__(
        self,
        pod: Pod,
        constraints: Sequence[TopologySpreadConstraint],
        nodes: Mapping[str, Node],
        standing: Mapping[str, Sequence[Pod]],
    ) -> None:
        self.pod = pod
        self.nodes = nodes
        self.standing = standing
        self.constraints = [(each, self._selector(each)) for each in constraints]
        self.counts: list[dict[str, int]] = []
        self.paths: list[_SmallestTwo] = []

    def _selector(self, constraint: TopologySpreadConstraint) -> CompiledSelector:
        labels = self.pod.metadata.labels or {}
        return compile_label_selector(constraint.label_selector).adding(
            Requirement(key, "In", (labels[key],))
            for key in constraint.match_label_keys or ()
            if key in labels
        )

    def _has_all_keys(self, node: Node) -> bool:
        labels = node.metadata.labels or {}
        return all(each.topology_key in labels for each, _ in self.constraints)

    def _is_included(self, constraint: TopologySpreadConstraint, node: Node) -> bool:
        if constraint.node_affinity_policy in (None, "Honor") and not required_nodes(
            self.pod
        ).matches(node.metadata.labels, node.name):
            return False
        return constraint.node_taints_policy != "Honor" or all(
            any(tolerates(toleration, taint) for toleration in self.pod.spec.tolerations or ())
            for taint in node.spec.taints or ()
            if taint.effect in HARD_EFFECTS
        )

    def _count(self, name: str, selector: CompiledSelector) -> int:
        if selector.is_empty:
            return 0
        return sum(
            not other.is_terminating
            and other.metadata.namespace == self.pod.metadata.namespace
            and selector.matches(other.metadata.labels)
            for other in self.standing.get(name, ())
        )

    # Filter

    def pre_filter(self) -> None:
        for constraint, selector in self.constraints:
            counts: dict[str, int] = {}
            for name, node in self.nodes.items():
                if self._has_all_keys(node) and self._is_included(constraint, node):
                    value = (node.metadata.labels or {})[constraint.topology_key]
                    counts[value] = counts.get(value, 0) + self._count(name, selector)
            paths = _SmallestTwo()
            for value, number in counts.items():
                paths.update(value, number)
            self.counts.append(counts)
            self.paths.append(paths)

    def what_if(self, other: Pod, name: str, delta: int) -> None:
        node = self.nodes[name]
        if other.metadata.namespace != self.pod.metadata.namespace or not self._has_all_keys(node):
            return
        for place, (constraint, selector) in enumerate(self.constraints):
            if selector.matches(other.metadata.labels) and self._is_included(constraint, node):
                value = (node.metadata.labels or {})[constraint.topology_key]
                self.counts[place][value] += delta
                self.paths[place].update(value, self.counts[place][value])

    def verdict(self, name: str) -> str:
        labels = self.nodes[name].metadata.labels or {}
        for place, (constraint, selector) in enumerate(self.constraints):
            if constraint.topology_key not in labels:
                return "UnschedulableAndUnresolvable"
            counts = self.counts[place]
            enough = len(counts) >= (constraint.min_domains or 1)
            least = self.paths[place].paths[0][1] if enough else 0
            self_match = selector.matches(self.pod.metadata.labels)
            skew = counts.get(labels[constraint.topology_key], 0) + self_match - least
            if skew > constraint.max_skew:
                return "Unschedulable"
        return "Success"

    # Score

    def scores(self, feasible: Sequence[str], *, all_keys: bool) -> tuple[list[int], list[int]]:
        """Raw and final scores of the feasible nodes."""
        ignored = {
            name for name in feasible if all_keys and not self._has_all_keys(self.nodes[name])
        }
        scored = [name for name in feasible if name not in ignored]
        shares = [
            self._share(constraint, selector, scored, all_keys=all_keys)
            for constraint, selector in self.constraints
        ]
        raw = dict.fromkeys(ignored, 0)
        for name in scored:
            total = 0.0
            for share in shares:
                total += share.get(name, 0.0)
            raw[name] = int(total + 0.5)
        low = min((raw[name] for name in scored), default=0)
        high = max((raw[name] for name in scored), default=0)
        final = {
            name: 0 if name in ignored else 100 * (high + low - raw[name]) // high if high else 100
            for name in feasible
        }
        return [raw[name] for name in feasible], [final[name] for name in feasible]

    def _share(
        self,
        constraint: TopologySpreadConstraint,
        selector: CompiledSelector,
        scored: Sequence[str],
        *,
        all_keys: bool,
    ) -> dict[str, float]:
        """One constraint's part of the score, of the nodes that have its label."""
        key = constraint.topology_key
        labels = {name: node.metadata.labels or {} for name, node in self.nodes.items()}
        if key == HOSTNAME:
            counts = {name: self._count(name, selector) for name in scored}
            size = len(scored)
        else:
            # A node without the label is taken for one where it is empty.
            by_value = {labels[name].get(key, ""): 0 for name in scored}
            size = len(by_value)
            for name, node in self.nodes.items():
                value = labels[name].get(key, "")
                if all_keys and not self._has_all_keys(node):
                    continue
                if value in by_value and self._is_included(constraint, node):
                    by_value[value] += self._count(name, selector)
            counts = {name: by_value[labels[name].get(key, "")] for name in scored}
        return {
            name: counts[name] * go_log(size + 2) + (constraint.max_skew - 1)
            for name in scored
            if key in labels[name]
        }
