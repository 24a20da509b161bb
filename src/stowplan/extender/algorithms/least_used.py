"""`!LeastUsed`: fits as `!Fit` does, and prefers the node of which most stays free."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stowplan.extender.algorithms import gauges
from stowplan.extender.algorithms.apps import QueriedData
from stowplan.extender.algorithms.fit import Fit
from stowplan.extender.data import DEFAULT_DIMENSIONS, AppName, DataProvider, NodeName, Resource


class LeastUsed(Fit):
    """The weighted mean of the free parts of the node's resources, the pod being there."""

    def __init__(
        self,
        data_provider: DataProvider,
        dimensions: Sequence[Resource] = DEFAULT_DIMENSIONS,
        least_used_weights: Mapping[Resource, float] | None = None,
        alias: str | None = None,
        max_node_score: float = 10.0,
    ) -> None:
        super().__init__(data_provider, dimensions, alias=alias, max_node_score=max_node_score)
        if least_used_weights is None:
            # The WCA scheduler's: bandwidth as one number has a weight even where there is no
            # bandwidth among the dimensions, so with CPU and memory a score is at most 2/3.
            self.least_used_weights = dict.fromkeys([*self.dimensions, Resource.MEMBW_FLAT], 1.0)
        else:
            self.least_used_weights = {Resource(r): w for r, w in least_used_weights.items()}
        self._check_weights()

    def _check_weights(self) -> None:
        weighed = set(self.dimensions)
        if Resource.MEMBW_READ in weighed and Resource.MEMBW_WRITE in weighed:
            weighed -= {Resource.MEMBW_READ, Resource.MEMBW_WRITE}
            weighed.add(Resource.MEMBW_FLAT)
        if missing := sorted(weighed.difference(self.least_used_weights)):
            raise ValueError(f"least_used_weights has no weight for {', '.join(missing)}")
        if sum(self.least_used_weights.values()) <= 0:
            raise ValueError("the sum of least_used_weights must be above 0")

    def priority_for_node(
        self, node_name: NodeName, app_name: AppName, data_provider_queried: QueriedData
    ) -> float:
        fractions = self.fractions_of(node_name, app_name, data_provider_queried)
        return self.least_used_score(node_name, app_name, fractions) if fractions else 0.0

    def least_used_score(
        self, node: NodeName, app: AppName, fractions: Mapping[Resource, float]
    ) -> float:
        """From the used parts of the node's resources."""
        weights = self.least_used_weights
        free = sum(weights.get(r, 0.0) * (1.0 - fraction) for r, fraction in fractions.items())
        score = free / sum(weights.values())
        self.shown.put_pair(gauges.LEAST_USED_SCORE, app, node, score)
        return score
