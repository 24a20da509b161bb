"""`!BAR` (Balanced Allocation of Resources): fits as `!Fit` does, and prefers the node whose
resources would be used to the same part, so that none runs out while others lie idle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stowplan.extender.algorithms import gauges
from stowplan.extender.algorithms.apps import QueriedData
from stowplan.extender.algorithms.fit import Fit
from stowplan.extender.data import DEFAULT_DIMENSIONS, AppName, DataProvider, NodeName, Resource


class BAR(Fit):
    """1 less how far the used parts of the node's resources are from each other."""

    def __init__(
        self,
        data_provider: DataProvider,
        dimensions: Sequence[Resource] = DEFAULT_DIMENSIONS,
        bar_weights: Mapping[Resource, float] | None = None,
        alias: str | None = None,
        max_node_score: float = 10.0,
    ) -> None:
        super().__init__(data_provider, dimensions, alias=alias, max_node_score=max_node_score)
        self.bar_weights = {Resource(r): weight for r, weight in (bar_weights or {}).items()}

    def priority_for_node(
        self, node_name: NodeName, app_name: AppName, data_provider_queried: QueriedData
    ) -> float:
        fractions = self.fractions_of(node_name, app_name, data_provider_queried)
        return self.bar_score(node_name, app_name, fractions) if fractions else 0.0

    def bar_score(self, node: NodeName, app: AppName, fractions: Mapping[Resource, float]) -> float:
        """From the used parts of the node's resources."""
        mean = sum(fractions.values()) / len(fractions)
        spread = self._spread(fractions, mean)
        self.shown.put_pair(gauges.BAR_MEAN, app, node, mean)
        self.shown.put_pair(gauges.BAR_VARIANCE, app, node, spread)
        self.shown.put_pair(gauges.BAR_SCORE, app, node, 1.0 - spread)
        return 1.0 - spread

    def _spread(self, fractions: Mapping[Resource, float], mean: float) -> float:
        if len(fractions) > 2:
            squares = (
                (fraction - mean) ** 2 * self.bar_weights.get(resource, 1.0)
                for resource, fraction in fractions.items()
            )
            return sum(squares) / len(fractions)
        if len(fractions) == 2:
            one, other = fractions.values()
            return abs(one - other)
        return 0.0
