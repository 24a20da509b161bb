"""`BaseAlgorithm`: algorithms that know a pod by its app (its label `app`) and ask a data provider.

A subclass says whether an app fits a node (`app_fit_node`), may choose among the nodes that are
left (`app_fit_nodes`), and rates nodes from 0 to 1 (`priority_for_node`); hooks, arguments and
order are the WCA scheduler's. Invariant: an algorithm judges only what it has data for. A pod
without an app, and an unknown app or node, is left to kube-scheduler: accepted, with score 0, and
counted.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

from stowplan.api.extender_protocol import ExtenderArgs, ExtenderFilterResult, HostPriority
from stowplan.extender.algorithm import Algorithm
from stowplan.extender.algorithms import gauges
from stowplan.extender.data import (
    DEFAULT_DIMENSIONS,
    AppName,
    Apps,
    DataProvider,
    NodeName,
    Resource,
    Resources,
    TaskName,
)
from stowplan.extender.metrics import Metric, MetricRegistry
from stowplan.logs import V4, get_logger, kv

log = get_logger(__name__)

RescheduleResult: TypeAlias = list[TaskName]

NO_APP_LABEL = "no_app_label"
UNKNOWN_APP = "unknown_app"


class _Queried(NamedTuple):
    nodes_capacities: Mapping[NodeName, Resources]
    assigned_apps: Mapping[NodeName, Apps]
    apps_spec: Mapping[AppName, Resources]
    unassigned_apps: Mapping[AppName, int]


class QueriedData(_Queried):
    """The provider's data at the time of a request: the four parts of the WCA scheduler's tuple,
    and the rest on demand."""

    provider: DataProvider

    @cached_property
    def dram_hit_ratio(self) -> Mapping[NodeName, float]:
        return self.provider.get_dram_hit_ratio()

    @cached_property
    def pmem_nodes(self) -> Collection[NodeName]:
        return frozenset(self.provider.get_pmem_nodes())


def query_data_provider(provider: DataProvider, dimensions: Sequence[Resource]) -> QueriedData:
    """All that hooks are given, asked once a request."""
    assigned, unassigned = provider.get_apps_counts()
    data = QueriedData(
        provider.get_nodes_capacities(dimensions),
        assigned,
        provider.get_apps_requested_resources(dimensions),
        unassigned,
    )
    data.provider = provider
    return data


class BaseAlgorithm(Algorithm):
    """Filters in two passes and rates node by node."""

    def __init__(
        self,
        data_provider: DataProvider,
        dimensions: Sequence[Resource] = DEFAULT_DIMENSIONS,
        max_node_score: float = 10.0,
        alias: str | None = None,
    ) -> None:
        self.data_provider = data_provider
        self.dimensions = [Resource(dimension) for dimension in dimensions]
        self.max_node_score = max_node_score
        self.alias = alias
        self.shown = gauges.Shown()
        data_provider.require(self.dimensions)

    def __str__(self) -> str:
        return self.alias or f"{type(self).__name__}({len(self.dimensions)})"

    @abstractmethod
    def app_fit_node(
        self, node_name: NodeName, app_name: AppName, data_provider_queried: QueriedData
    ) -> tuple[bool, str]:
        """Whether a pod of the app may go to the node, and if not, why."""

    def app_fit_nodes(
        self, node_names: list[NodeName], app_name: AppName, data_provider_queried: QueriedData
    ) -> tuple[list[NodeName], dict[NodeName, str]]:
        """Which of the nodes that passed `app_fit_node` stay, and why others do not."""
        return node_names, {}

    @abstractmethod
    def priority_for_node(
        self, node_name: NodeName, app_name: AppName, data_provider_queried: QueriedData
    ) -> float:
        """How well the node suits the app, from 0 to 1."""

    def cannot_judge(self, app_name: AppName, data_provider_queried: QueriedData) -> str:
        """Why nothing can be said about the pod, if so; its app is empty if it has no label."""
        return "" if app_name else NO_APP_LABEL

    def prepare(
        self, app_name: AppName, node_names: Sequence[NodeName], data_provider_queried: QueriedData
    ) -> None:
        """Called once a request, before the others, if the pod can be judged."""

    def filter(self, extender_args: ExtenderArgs) -> ExtenderFilterResult:
        app, names = app_of(extender_args.Pod), node_names(extender_args)
        data = query_data_provider(self.data_provider, self.dimensions)
        if self._leaves_alone(app, names, data):
            return ExtenderFilterResult(NodeNames=list(names))
        failed: dict[str, str] = {}
        accepted: list[NodeName] = []
        for name in names:
            fits, reason = self.app_fit_node(name, app, data)
            if fits:
                accepted.append(name)
            else:
                failed[name] = reason
        if accepted:
            accepted, failed_later = self.app_fit_nodes(accepted, app, data)
            failed.update(failed_later)
        if log.isEnabledFor(V4):
            log.log(V4, "Filtered nodes", extra=kv(app=app, accepted=accepted, failed=failed))
        return ExtenderFilterResult(NodeNames=list(accepted), FailedNodes=failed)

    def prioritize(self, extender_args: ExtenderArgs) -> list[HostPriority]:
        app, names = app_of(extender_args.Pod), sorted(node_names(extender_args))
        data = query_data_provider(self.data_provider, self.dimensions)
        if self._leaves_alone(app, names, data):
            return [HostPriority(name, 0) for name in names]
        scores = [
            HostPriority(name, self._scaled(self.priority_for_node(name, app, data)))
            for name in names
        ]
        if log.isEnabledFor(V4):
            log.log(V4, "Rated nodes", extra=kv(app=app, scores=[str(score) for score in scores]))
        return scores

    def reschedule(self) -> RescheduleResult:
        data = query_data_provider(self.data_provider, self.dimensions)
        tasks, metrics = self.reschedule_with_metrics(data)
        self.metrics.extend(metrics)
        return tasks

    def reschedule_with_metrics(
        self, data_provider_queried: QueriedData
    ) -> tuple[RescheduleResult, list[Metric]]:
        """The pods that would be better off elsewhere: none, unless an algorithm knows better."""
        return [], []

    @property
    def metrics(self) -> MetricRegistry:
        return self.shown.registry

    def get_metrics_registry(self) -> MetricRegistry:
        return self.metrics

    def get_metrics_names(self) -> list[str]:
        return self.metrics.get_names()

    def reinit_metrics(self) -> None:
        """Forget all values."""
        self.metrics.clean()

    def node_not_judged(self, reason: str) -> None:
        """Count that something unknown of a node was left out of account."""
        self.shown.put(gauges.NODES_NOT_JUDGED, 1, reason=reason)

    def _leaves_alone(self, app: AppName, names: Sequence[NodeName], data: QueriedData) -> bool:
        reason = self.cannot_judge(app, data)
        if not reason:
            self.prepare(app, names, data)
            return False
        self.shown.put(gauges.PODS_NOT_JUDGED, 1, reason=reason)
        log.log(V4, "Left a pod to kube-scheduler", extra=kv(app=app, reason=reason))
        return True

    def _scaled(self, priority: float) -> int:
        score = priority * self.max_node_score
        if not math.isfinite(score):
            self.node_not_judged("no_score")
            return 0
        return int(score)


def app_of(pod: Any) -> AppName:
    """The value of the pod's label `app`; empty if there is none."""
    metadata = pod.get("metadata") if isinstance(pod, dict) else None
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    app = labels.get("app") if isinstance(labels, dict) else None
    return app if isinstance(app, str) else ""


def node_names(args: ExtenderArgs) -> list[NodeName]:
    """The names of the nodes in question, also where only whole nodes are given."""
    if args.NodeNames:
        return args.NodeNames
    heads = (node.get("metadata") for node in args.Nodes or ())
    names = (metadata.get("name") for metadata in heads if isinstance(metadata, dict))
    return [name for name in names if isinstance(name, str)]
