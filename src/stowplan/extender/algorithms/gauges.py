"""Metrics of the algorithms' intermediate results, under the WCA scheduler's names.

`BaseAlgorithm` has a `Shown`; every algorithm writes what it works out. Two counters are ours: they
count what could not be judged for lack of data. Invariant: the number of metrics is bounded.
Deleted nodes are dropped, and gauges by app and node are kept only for the most recent apps.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from stowplan.extender.data import AppName, NodeName, Resources
from stowplan.extender.metrics import Labels, Metric, MetricMetadata, MetricRegistry, MetricType

APP_REQUESTED: Final = "app_requested_resource"
NODE_CAPACITY: Final = "node_capacity_resource"
NODE_USED: Final = "node_used_resource"
NODE_FREE: Final = "node_free_resource"
DRAM_HIT_RATIO_OK: Final = "node_dram_hit_ratio_can_schedule"
PREDICTED_MEMBW_FLAT: Final = "fit_predicted_membw_flat_usage"
REQUESTED_FRACTION: Final = "bar_requested_fraction"
LEAST_USED_SCORE: Final = "bar_least_used_score"
BAR_MEAN: Final = "bar_mean"
BAR_VARIANCE: Final = "bar_variance"
BAR_SCORE: Final = "bar_score"
BAR_RESULT: Final = "bar_result"
SHAPE_APP_VARIANCE: Final = "hierbar_node_shape_app_variance"
SHAPE_NODES: Final = "hierbar_node_shape_numbers"
PODS_NOT_JUDGED: Final = "pods_not_judged"
NODES_NOT_JUDGED: Final = "nodes_not_judged"

#: Shown by node and resource.
_BY_NODE: Final = (NODE_CAPACITY, NODE_USED, NODE_FREE)
#: Shown by app and node.
_BY_PAIR: Final = (
    PREDICTED_MEMBW_FLAT, LEAST_USED_SCORE, BAR_MEAN, BAR_VARIANCE, BAR_SCORE, BAR_RESULT,
)  # fmt: skip
#: Of an app and a node; each has up to five gauges of about 300 bytes.
MOST_PAIRS: Final = 50_000

_GAUGES: Final = {
    APP_REQUESTED: "What a pod of the app needs of the resource.",
    NODE_CAPACITY: "What the node has of the resource.",
    NODE_USED: "What the pods on the node need of the resource.",
    NODE_FREE: "What the pods on the node leave of the resource.",
    DRAM_HIT_RATIO_OK: "1 if the node's DRAM hit ratio reaches the threshold.",
    PREDICTED_MEMBW_FLAT: "Free memory bandwidth, reads and writes as one number.",
    REQUESTED_FRACTION: "Part of a node's resource that is used once the pod is there.",
    LEAST_USED_SCORE: "How much of the node stays free.",
    BAR_MEAN: "Mean of the used parts of the node's resources.",
    BAR_VARIANCE: "How far the used parts of the node's resources are from each other.",
    BAR_SCORE: "1 less the variance.",
    BAR_RESULT: "Least-used score times its weight, plus the BAR score.",
    SHAPE_APP_VARIANCE: "How badly the app's needs match nodes of the shape.",
    SHAPE_NODES: "Nodes of the shape.",
}
_COUNTERS: Final = {
    PODS_NOT_JUDGED: "Requests about pods with too little data: every node was accepted.",
    NODES_NOT_JUDGED: "Times that an unknown value of a node was ignored.",
}


def new_registry() -> MetricRegistry:
    """An empty registry for all that algorithms show."""
    metadata = {name: MetricMetadata(text, MetricType.GAUGE) for name, text in _GAUGES.items()}
    for name, text in _COUNTERS.items():
        metadata[name] = MetricMetadata(text, MetricType.COUNTER)
    return MetricRegistry(metadata)


class Shown:
    """An algorithm's registry."""

    def __init__(self) -> None:
        self.registry = new_registry()
        #: The nodes that something may be shown of together with an app; the app that was asked
        #: about last is last.
        self._nodes_of: dict[AppName, set[NodeName]] = {}

    def put(self, name: str, value: float, **labels: str) -> None:
        self.registry.add(Metric(name, value, labels))

    def put_node(self, name: str, node: NodeName, values: Resources) -> None:
        """One value a resource."""
        table = self.registry.table(name)
        for resource, value in values.items():
            table[("node", node), ("resource", resource.value)] = value

    def put_app(self, name: str, app: AppName, values: Resources) -> None:
        """One value a resource."""
        table = self.registry.table(name)
        for resource, value in values.items():
            table[("app", app), ("resource", resource.value)] = value

    def put_pair(self, name: str, app: AppName, node: NodeName, value: float) -> None:
        self.registry.table(name)[("app", app), ("node", node)] = value

    def expect(self, app: AppName, nodes: Iterable[NodeName]) -> None:
        """Something of the app and these nodes is going to be shown."""
        expected = self._nodes_of.pop(app, set())
        expected.update(nodes)
        self._nodes_of[app] = expected
        while len(self._nodes_of) > 1 and sum(map(len, self._nodes_of.values())) > MOST_PAIRS:
            oldest = next(iter(self._nodes_of))
            self._forget_pairs(oldest, self._nodes_of.pop(oldest))

    def forget_nodes(self, nodes: Collection[NodeName]) -> None:
        """They are gone."""
        for app, expected in self._nodes_of.items():
            self._forget_pairs(app, expected.intersection(nodes))
            expected.difference_update(nodes)
        gone = frozenset(("node", node) for node in nodes)
        for name in (*_BY_NODE, DRAM_HIT_RATIO_OK):
            _remove(self.registry.table(name), gone)

    def _forget_pairs(self, app: AppName, nodes: Iterable[NodeName]) -> None:
        gone = [(("app", app), ("node", node)) for node in nodes]
        for name in _BY_PAIR:
            table = self.registry.table(name)
            for labels in gone:
                table.pop(labels, None)


def _remove(table: dict[Labels, float], gone: Collection[tuple[str, str]]) -> None:
    for labels in [labels for labels in table if labels[0] in gone]:
        del table[labels]
