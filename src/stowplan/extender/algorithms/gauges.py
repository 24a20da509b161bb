"""What algorithms show of their reasoning on /metrics, under the WCA scheduler's names.

`BaseAlgorithm` makes a registry of these; every algorithm writes what it works out. Two counters
are ours: they tell what could not be judged, because nothing was known of it.
"""

from __future__ import annotations

from typing import Final

from stowplan.extender.metrics import MetricMetadata, MetricRegistry, MetricType

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
    PODS_NOT_JUDGED: "Requests about pods of which too little is known: every node was accepted.",
    NODES_NOT_JUDGED: "Times that something unknown of a node was left out of account.",
}


def new_registry() -> MetricRegistry:
    """An empty registry for all that algorithms show."""
    metadata = {name: MetricMetadata(text, MetricType.GAUGE) for name, text in _GAUGES.items()}
    for name, text in _COUNTERS.items():
        metadata[name] = MetricMetadata(text, MetricType.COUNTER)
    return MetricRegistry(metadata)
