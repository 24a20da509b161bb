"""A data provider with the numbers that a test writes down."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from stowplan.api.extender_protocol import ExtenderArgs
from stowplan.extender.data import (
    AppName,
    Apps,
    NodeName,
    NodeType,
    Resource,
    Resources,
    ScoreDataProvider,
)
from stowplan.extender.metrics import MetricRegistry

Numbers = Mapping[str, Mapping[str, float]]


@dataclass
class MemoryProvider(ScoreDataProvider):
    """`pods`: how many of each app are on each node."""

    nodes: Numbers = field(default_factory=dict)
    apps: Numbers = field(default_factory=dict)
    pods: Mapping[NodeName, Mapping[AppName, int]] = field(default_factory=dict)
    dram_hit_ratio: Mapping[NodeName, float] = field(default_factory=dict)
    pmem_nodes: tuple[NodeName, ...] = ()
    profiles: Mapping[AppName, float] = field(default_factory=dict)
    types: Mapping[NodeName, NodeType | str] = field(default_factory=dict)

    def get_nodes_capacities(self, resources: Iterable[Resource]) -> dict[NodeName, Resources]:
        return _select(self.nodes, list(resources))

    def get_apps_counts(self) -> tuple[dict[NodeName, Apps], dict[AppName, int]]:
        assigned = {
            node: {app: [f"{app}-{node}-{n}" for n in range(count)] for app, count in apps.items()}
            for node, apps in self.pods.items()
        }
        return assigned, {}

    def get_apps_requested_resources(
        self, resources: Iterable[Resource]
    ) -> dict[AppName, Resources]:
        return _select(self.apps, list(resources))

    def get_dram_hit_ratio(self) -> Mapping[NodeName, float]:
        return self.dram_hit_ratio

    def get_pmem_nodes(self) -> tuple[NodeName, ...]:
        return self.pmem_nodes

    def get_apps_profile(self) -> Mapping[AppName, float]:
        return self.profiles

    def get_nodes_type(self) -> Mapping[NodeName, NodeType | str]:
        return self.types


def _select(numbers: Numbers, resources: list[Resource]) -> dict[str, Resources]:
    return {
        name: {Resource(r): amount for r, amount in amounts.items() if r in resources}
        for name, amounts in numbers.items()
    }


def asked(app: str | None, *names: str) -> ExtenderArgs:
    """A request about a pod of `app` and nodes by name."""
    labels = {} if app is None else {"app": app}
    pod = {"metadata": {"name": "p", "namespace": "default", "labels": labels}}
    return ExtenderArgs(None, pod, list(names))


def gauge(registry: MetricRegistry, name: str, **labels: str) -> float:
    """One value that an algorithm shows; KeyError if it shows none."""
    return registry.as_dict()[name][tuple(sorted(labels.items()))]
