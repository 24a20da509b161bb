"""`!Score`: nodes with persistent memory for the apps that suit it, the others for the rest.

An app's profile says how badly it would suit persistent memory; the data provider knows it, and
which nodes have such memory. A node must have room (`!Fit`) and, if it has persistent memory, must
not miss its DRAM too often (`!DramHitRatioProvision`); of the nodes that are left those of the
app's kind stay. `reschedule` names pods that sit on the wrong kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from stowplan.extender.algorithms.apps import QueriedData, RescheduleResult
from stowplan.extender.algorithms.arithmetic import (
    add,
    numbers,
    read_write_ratio,
    subtract,
    used_by,
)
from stowplan.extender.algorithms.dram_hit_ratio import DramHitRatioProvision
from stowplan.extender.algorithms.fit import Fit
from stowplan.extender.data import (
    DEFAULT_DIMENSIONS,
    AppName,
    NodeName,
    NodeType,
    Resource,
    Resources,
    ScoreDataProvider,
    TaskName,
)
from stowplan.extender.metrics import Metric
from stowplan.logs import V4, get_logger, kv

log = get_logger(__name__)

#: With as few profiles as this no app can be said to suit persistent memory better than others.
MIN_APP_PROFILES: Final = 2

#: In a line of the log.
_MOST_NAMED: Final = 10


class Score(Fit, DramHitRatioProvision):
    """Fits, and is of the kind that suits the app."""

    data_provider: ScoreDataProvider

    def __init__(
        self,
        data_provider: ScoreDataProvider,
        dimensions: Sequence[Resource] = DEFAULT_DIMENSIONS,
        max_node_score: float = 10.0,
        alias: str | None = None,
        score_target: float | None = None,
        strict_mode_placement: bool = False,
        threshold: float = 0.97,
        cpu_scale_factor: float = 1,
    ) -> None:
        Fit.__init__(self, data_provider, dimensions, max_node_score, alias, cpu_scale_factor)
        self.threshold = threshold
        self.score_target = score_target
        self.strict_mode_placement = strict_mode_placement

    def app_fit_node(
        self, node_name: NodeName, app_name: AppName, data_provider_queried: QueriedData
    ) -> tuple[bool, str]:
        fits, reason = Fit.app_fit_node(self, node_name, app_name, data_provider_queried)
        if node_type(self._nodes_type(data_provider_queried), node_name) is not NodeType.PMEM:
            return fits, reason
        reached, violation = DramHitRatioProvision.app_fit_node(
            self, node_name, app_name, data_provider_queried
        )
        return fits and reached, " ".join(text for text in (reason, violation) if text)

    def app_fit_nodes(
        self, node_names: list[NodeName], app_name: AppName, data_provider_queried: QueriedData
    ) -> tuple[list[NodeName], dict[NodeName, str]]:
        """Drop nodes of the other type without a reason, as the WCA scheduler does.

        A node without a reason is no candidate for preemption either.
        """
        types = self._nodes_type(data_provider_queried)
        wanted = self.type_for(app_name, self.data_provider.get_apps_profile())
        preferred = []
        for name in node_names:
            kind = node_type(types, name)
            if kind is wanted:
                preferred.append(name)
            else:
                text = f"{app_name!r} not preferred for {kind!r} type of node"
                log.log(V4, "Left out a node", extra=kv(node=name, reason=text))
        if not preferred and not self.strict_mode_placement:
            return node_names, {}
        return preferred, {}

    def type_for(self, app: AppName, profiles: Mapping[AppName, float]) -> NodeType:
        """The kind of nodes that suits the app."""
        if len(profiles) <= MIN_APP_PROFILES or app not in profiles:
            return NodeType.DRAM
        if self.score_target:
            suits = profiles[app] <= self.score_target
        else:
            suits = app == min(profiles, key=lambda name: profiles[name])
        return NodeType.PMEM if suits else NodeType.DRAM

    def reschedule_with_metrics(
        self, data_provider_queried: QueriedData
    ) -> tuple[RescheduleResult, list[Metric]]:
        return _Rescheduling(self, data_provider_queried).tasks(), []

    def _nodes_type(self, data: QueriedData) -> Mapping[NodeName, NodeType | str]:
        known: Mapping[NodeName, NodeType | str] | None = data.__dict__.get("nodes_type")
        if known is None:
            known = data.__dict__["nodes_type"] = self.data_provider.get_nodes_type()
        return known


def node_type(types: Mapping[NodeName, NodeType | str], node: NodeName) -> NodeType:
    """The type of a node; UNKNOWN if it is missing or not a valid type."""
    try:
        return NodeType(types.get(node, NodeType.UNKNOWN))
    except ValueError:
        return NodeType.UNKNOWN


class _Rescheduling:
    """Pods that would be better off on nodes of the other kind.

    Pods leave nodes with persistent memory only if others, on nodes without, could use the room.
    Of those go the best suited first, as long as there is room for them.
    """

    def __init__(self, algorithm: Score, data: QueriedData) -> None:
        self._algorithm = algorithm
        self._data = data
        self._profiles = algorithm.data_provider.get_apps_profile()
        self._types = algorithm.data_provider.get_nodes_type()
        self._needs = data.apps_spec
        self._used: dict[NodeName, Resources] = {}

    def tasks(self) -> RescheduleResult:
        suited = self._misplaced(NodeType.DRAM)
        if not suited:
            return []
        unsuited = self._misplaced(NodeType.PMEM)
        leaving = [task for _, _, tasks in unsuited for task in tasks]
        self._used = self._used_on_pmem(unsuited)
        waiting: dict[AppName, list[TaskName]] = {}
        for _, app, tasks in suited:
            waiting.setdefault(app, []).extend(tasks)
        left: list[TaskName] = []
        for app in sorted(waiting, key=lambda name: self._profiles[name]):
            for task in sorted(waiting[app]):
                (leaving if self._takes(app) else left).append(task)
        if left:
            log.warning(
                "Pods cannot move to persistent memory: there is no more space",
                extra=kv(count=len(left), pods=left[:_MOST_NAMED]),
            )
        return leaving

    def _misplaced(self, kind: NodeType) -> list[tuple[NodeName, AppName, list[TaskName]]]:
        """Pods on nodes of `kind` that suit the other; apps with unknown needs stay where they
        are."""
        return [
            (node, app, tasks)
            for node, apps in self._data.assigned_apps.items()
            if node_type(self._types, node) is kind
            for app, tasks in apps.items()
            if app in self._needs and self._algorithm.type_for(app, self._profiles) is not kind
        ]

    def _used_on_pmem(
        self, leaving: Sequence[tuple[NodeName, AppName, list[TaskName]]]
    ) -> dict[NodeName, Resources]:
        """What is used of each node with persistent memory once `leaving` are gone."""
        used = {
            node: used_by(self._data.assigned_apps.get(node, {}), self._needs, capacity)
            for node, capacity in self._data.nodes_capacities.items()
            if node_type(self._types, node) is NodeType.PMEM
        }
        for node, app, tasks in leaving:
            if node in used:
                used[node] = subtract(used[node], used_by({app: tasks}, self._needs, used[node]))
        return used

    def _takes(self, app: AppName) -> bool:
        """Whether a node with persistent memory has room for a pod more; then it is taken."""
        for node, used in self._used.items():
            capacity = numbers(self._algorithm.capacity_for_fit(node, self._data) or {})
            with_pod = add(used, numbers(self._needs[app]))
            free = subtract(capacity, with_pod, read_write_ratio(capacity))
            if all(amount >= 0 for amount in free.values()):
                self._used[node] = with_pod
                return True
        return False
