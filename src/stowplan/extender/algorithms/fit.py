"""`!Fit`: rejects nodes that lack room for one pod more of the app, in any dimension.

Every pod of an app needs the same, whatever its specification says; the provider knows how much.
Nodes that fit are all rated 0: the algorithms that rate build on this one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stowplan.extender.algorithms import gauges
from stowplan.extender.algorithms.apps import UNKNOWN_APP, BaseAlgorithm, QueriedData
from stowplan.extender.algorithms.arithmetic import Balance
from stowplan.extender.algorithms.ledger import Ledger
from stowplan.extender.data import (
    DEFAULT_DIMENSIONS,
    AppName,
    DataProvider,
    NodeName,
    Resource,
    Resources,
)
from stowplan.logs import V5, get_logger, kv

log = get_logger(__name__)

UNKNOWN_NODE: Final = "unknown_node"
UNKNOWN_DIMENSION: Final = "unknown_dimension"
UNKNOWN_APP_ON_NODE: Final = "unknown_app_on_node"


class Fit(BaseAlgorithm):
    """Capacity less what the pods there need, less what the new one needs, is not below 0."""

    def __init__(
        self,
        data_provider: DataProvider,
        dimensions: Sequence[Resource] = DEFAULT_DIMENSIONS,
        max_node_score: float = 10.0,
        alias: str | None = None,
        cpu_scale_factor: float = 1.0,
    ) -> None:
        super().__init__(data_provider, dimensions, max_node_score, alias)
        #: What a CPU of a node with persistent memory is worth.
        self.cpu_scale_factor = cpu_scale_factor
        self._ledger = Ledger(self.shown)

    def cannot_judge(self, app_name: AppName, data_provider_queried: QueriedData) -> str:
        if reason := super().cannot_judge(app_name, data_provider_queried):
            return reason
        return "" if data_provider_queried.apps_spec.get(app_name) else UNKNOWN_APP

    def prepare(
        self, app_name: AppName, node_names: Sequence[NodeName], data_provider_queried: QueriedData
    ) -> None:
        self.shown.expect(app_name, node_names)
        self._ledger.keep_only(data_provider_queried.nodes_capacities)

    def reinit_metrics(self) -> None:
        super().reinit_metrics()
        # All that is shown of nodes is shown when they are worked out.
        self._ledger = Ledger(self.shown)

    def app_fit_node(
        self, node_name: NodeName, app_name: AppName, data_provider_queried: QueriedData
    ) -> tuple[bool, str]:
        capacity = self.capacity_for_fit(node_name, data_provider_queried)
        known = self.balance_of(node_name, app_name, data_provider_queried, capacity)
        if known is None:
            return True, ""
        missing = {r: -amount for r, amount in known.free_after().items() if amount < 0}
        if not missing:
            return True, ""
        listed = ",".join(f"({resource}: {amount})" for resource, amount in missing.items())
        log.log(V5, "Broken capacities", extra=kv(app=app_name, node=node_name, missing=listed))
        return False, f"Could not fit node for dimensions: missing {listed}."

    def priority_for_node(
        self, node_name: NodeName, app_name: AppName, data_provider_queried: QueriedData
    ) -> float:
        return 0.0

    def capacity_for_fit(self, node: NodeName, data: QueriedData) -> Resources | None:
        """What the node has, with its CPUs as they count."""
        capacity = data.nodes_capacities.get(node)
        if capacity is None or self.cpu_scale_factor == 1 or node not in data.pmem_nodes:
            return capacity
        scaled = dict(capacity)
        if Resource.CPU in scaled:
            scaled[Resource.CPU] *= self.cpu_scale_factor
        return scaled

    def balance_of(
        self,
        node: NodeName,
        app: AppName,
        data: QueriedData,
        capacity: Resources | None,
    ) -> Balance | None:
        """What is known of node and app; None, and counted, if that is nothing at all."""
        if not capacity or app not in data.apps_spec:
            self.node_not_judged(UNKNOWN_NODE)
            return None
        known, has_unknown_apps = self._ledger.balance(node, app, data, capacity)
        if len(known.capacity) < len(self.dimensions):
            self.node_not_judged(UNKNOWN_DIMENSION)
        if has_unknown_apps:
            self.node_not_judged(UNKNOWN_APP_ON_NODE)
        return known

    def fractions_of(self, node: NodeName, app: AppName, data: QueriedData) -> Resources | None:
        """Which part of each of the node's resources is used once the pod is there."""
        known = self.balance_of(node, app, data, data.nodes_capacities.get(node))
        if known is None or not known.capacity:
            return None
        fractions = known.fractions()
        self.shown.put_app(gauges.REQUESTED_FRACTION, app, fractions)
        return fractions
