"""`!LeastUsedBAR`: the sum of what `!LeastUsed` and `!BAR` say, so up to 2 with equal weights.

The extender API has integer scores from 0 to 10. The default `max_node_score` is 10 divided by the
highest possible result, 5 with equal weights, so a better node never gets a lower score. With the
WCA scheduler's 10, all results above 1 would be cut off to the same score.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stowplan.api.extender_protocol import MAX_SCORE
from stowplan.extender.algorithms import gauges
from stowplan.extender.algorithms.apps import QueriedData
from stowplan.extender.algorithms.bar import BAR
from stowplan.extender.algorithms.least_used import LeastUsed
from stowplan.extender.data import DEFAULT_DIMENSIONS, AppName, DataProvider, NodeName, Resource


class LeastUsedBAR(LeastUsed, BAR):
    """Least-used score times its weight, plus BAR score."""

    def __init__(
        self,
        data_provider: DataProvider,
        dimensions: Sequence[Resource] = DEFAULT_DIMENSIONS,
        least_used_weights: Mapping[Resource, float] | None = None,
        bar_weights: Mapping[Resource, float] | None = None,
        least_used_weight: float = 1,
        alias: str | None = None,
        max_node_score: float | None = None,
    ) -> None:
        if max_node_score is None:
            max_node_score = MAX_SCORE / (max(least_used_weight, 0.0) + 1.0)
        super().__init__(data_provider, dimensions, least_used_weights, alias, max_node_score)
        self.bar_weights = {Resource(r): weight for r, weight in (bar_weights or {}).items()}
        self.least_used_weight = least_used_weight

    def __str__(self) -> str:
        name = f"{type(self).__name__}({len(self.dimensions)},luw={self.least_used_weight:.2f})"
        return self.alias or name

    def priority_for_node(
        self, node_name: NodeName, app_name: AppName, data_provider_queried: QueriedData
    ) -> float:
        fractions = self.fractions_of(node_name, app_name, data_provider_queried)
        if not fractions:
            return 0.0
        least_used = self.least_used_score(node_name, app_name, fractions)
        result = least_used * self.least_used_weight + self.bar_score(
            node_name, app_name, fractions
        )
        self.shown.put_pair(gauges.BAR_RESULT, app_name, node_name, result)
        return result
