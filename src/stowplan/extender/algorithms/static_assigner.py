"""`!StaticAssigner`: so many pods of each app on each node, and no others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stowplan.extender.algorithms.apps import BaseAlgorithm, QueriedData
from stowplan.extender.data import DEFAULT_DIMENSIONS, AppName, DataProvider, NodeName, Resource


class StaticAssigner(BaseAlgorithm):
    """Accepts a node while it has fewer pods of the app than it is meant to have."""

    def __init__(
        self,
        data_provider: DataProvider,
        targeted_assigned_apps_counts: Mapping[NodeName, Mapping[AppName, int]],
        dimensions: Sequence[Resource] = DEFAULT_DIMENSIONS,
        alias: str | None = None,
    ) -> None:
        super().__init__(data_provider, dimensions, alias=alias)
        self.targeted_assigned_apps_counts = targeted_assigned_apps_counts

    def cannot_judge(self, app_name: AppName, data_provider_queried: QueriedData) -> str:
        return ""  # What is not in the table has no place, an app without a name included.

    def app_fit_node(
        self, node_name: NodeName, app_name: AppName, data_provider_queried: QueriedData
    ) -> tuple[bool, str]:
        targets = self.targeted_assigned_apps_counts.get(node_name)
        if targets is None:
            return False, f"node {node_name} not specified in self.targeted_assigned_apps_counts"
        if app_name not in targets:
            app = app_name or None  # The WCA scheduler's text for a pod without an app.
            return False, f"app {app} not specified in self.targeted_assigned_apps_counts"
        tasks = data_provider_queried.assigned_apps.get(node_name, {}).get(app_name, [])
        if len(tasks) < targets[app_name]:
            return True, ""
        return False, (
            f"app {app_name} count on node {node_name} already matching "
            "self.targeted_assigned_apps_counts"
        )

    def priority_for_node(
        self, node_name: NodeName, app_name: AppName, data_provider_queried: QueriedData
    ) -> float:
        return 0.0
