"""`!DramHitRatioProvision`: rejects nodes that too often miss their DRAM, whatever the pod is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from stowplan.extender.algorithms import gauges
from stowplan.extender.algorithms.apps import BaseAlgorithm, QueriedData
from stowplan.extender.data import DEFAULT_DIMENSIONS, AppName, DataProvider, NodeName, Resource

UNKNOWN_RATIO: Final = "unknown_dram_hit_ratio"


class DramHitRatioProvision(BaseAlgorithm):
    """The node's DRAM hit ratio reaches `threshold`."""

    def __init__(
        self,
        data_provider: DataProvider,
        dimensions: Sequence[Resource] = DEFAULT_DIMENSIONS,
        max_node_score: float = 10.0,
        alias: str | None = None,
        threshold: float = 0.97,
    ) -> None:
        super().__init__(data_provider, dimensions, max_node_score, alias)
        self.threshold = threshold

    def cannot_judge(self, app_name: AppName, data_provider_queried: QueriedData) -> str:
        return ""  # It is about nodes, not about pods.

    def app_fit_node(
        self, node_name: NodeName, app_name: AppName, data_provider_queried: QueriedData
    ) -> tuple[bool, str]:
        ratio = data_provider_queried.dram_hit_ratio.get(node_name)
        if ratio is None or math.isnan(ratio):
            self.node_not_judged(UNKNOWN_RATIO)
            return True, ""
        reached = ratio >= self.threshold
        self.shown.put(gauges.DRAM_HIT_RATIO_OK, int(reached), node=node_name)
        if reached:
            return True, ""
        return False, "Could not fit node because of dram hit ratio violation."

    def priority_for_node(
        self, node_name: NodeName, app_name: AppName, data_provider_queried: QueriedData
    ) -> float:
        return 0.0
