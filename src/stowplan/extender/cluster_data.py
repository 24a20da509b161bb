"""`!ClusterDataProvider`, `!ClusterScoreDataProvider`: data of a live cluster for algorithms.

CPU and memory of nodes, and where the pods of apps are, come from the API server (`kubeapi`); all
else comes from Prometheus, by the queries of `!Queries`. Nothing is fetched when an algorithm asks.
Invariants: a result is recomputed only after a change, and unknown data (a node without metrics, an
app that no rule has seen) is left out.

Numbers are the WCA scheduler's: CPUs, and GB and GB/s cut off to whole ones for capacities.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar, cast

from stowplan.errors import ConfigError
from stowplan.extender.data import (
    AppName,
    Apps,
    DataProvider,
    NodeName,
    NodeType,
    Resource,
    Resources,
    ScoreDataProvider,
)
from stowplan.extender.kubeapi import Kubeapi
from stowplan.extender.prometheus import Prometheus, Result

T = TypeVar("T")

_BASIC: Final = (Resource.CPU, Resource.MEM)
#: Recorded by the WCA scheduler's rules `score`.
_APP_REQUESTED: Final = {
    Resource.CPU: 'app_req{dim="cpu"}',
    Resource.MEM: 'app_req{dim="mem"}',
    Resource.MEMBW_FLAT: 'app_req{dim="mbw_flat"}',
    Resource.WSS: 'app_req{dim="wss"}',
}
_NODE_CAPACITY: Final = {
    Resource.MEMBW_READ: 'node_capacity{dim="mbw_read"}',
    Resource.MEMBW_WRITE: 'node_capacity{dim="mbw_write"}',
    Resource.MEMBW_FLAT: 'node_capacity{dim="mbw_flat"}',
    Resource.WSS: 'node_capacity{dim="wss"}',
}
_PMEM_NODES: Final = "sum(platform_mem_mode_size_bytes) by (node) != 0"
_DRAM_HIT_RATIO: Final = "platform_dram_hit_ratio"


class MissingBasicResources(ConfigError):
    """CPU and memory are not among an algorithm's dimensions."""


class MissingQueryForResource(ConfigError):
    """A dimension that nothing is known of, because there is no query for it."""


class Queries:
    """Which queries tell what; the names are the WCA scheduler's. Results are by the labels `app`
    and `node`."""

    def __init__(
        self,
        # The names of the WCA scheduler's configuration.
        APP_REQUESTED_RESOURCES_QUERY_MAP: dict[str, str] | None = None,  # noqa: N803
        NODE_CAPACITY_RESOURCES_QUERY_MAP: dict[str, str] | None = None,  # noqa: N803
        NODES_PMM_MEMORY_MODE: str = _PMEM_NODES,  # noqa: N803
        NODES_DRAM_HIT_RATIO: str = _DRAM_HIT_RATIO,  # noqa: N803
    ) -> None:
        """A map that is given replaces the default one as a whole."""
        self.app_requested = _by_resource(
            APP_REQUESTED_RESOURCES_QUERY_MAP, _APP_REQUESTED, "APP_REQUESTED_RESOURCES_QUERY_MAP"
        )
        self.node_capacity = _by_resource(
            NODE_CAPACITY_RESOURCES_QUERY_MAP, _NODE_CAPACITY, "NODE_CAPACITY_RESOURCES_QUERY_MAP"
        )
        self.pmem_nodes = NODES_PMM_MEMORY_MODE
        self.dram_hit_ratio = NODES_DRAM_HIT_RATIO


def _by_resource(
    given: Mapping[str, str] | None, default: Mapping[Resource, str], where: str
) -> dict[Resource, str]:
    if given is None:
        return dict(default)
    known = ", ".join(resource.value for resource in Resource)
    queries: dict[Resource, str] = {}
    for name, query in given.items():
        if name not in list(Resource):
            raise ConfigError(f"{name!r} is not a resource; there are {known}", where=where)
        if not query:
            raise ConfigError(f"the query for {name!r} is empty", where=where)
        queries[Resource(name)] = query
    return queries


@dataclass(frozen=True, slots=True)
class _Remembered:
    versions: Hashable
    answer: object


class ClusterDataProvider(DataProvider):
    """See the module."""

    def __init__(
        self, kubeapi: Kubeapi, prometheus: Prometheus, queries: Queries | None = None
    ) -> None:
        self.kubeapi = kubeapi
        self.prometheus = prometheus
        self.queries = queries or Queries()
        self._answers: dict[Hashable, _Remembered] = {}
        # Known when they are first asked for, which may be about the first pod.
        for query in self._all_queries():
            prometheus.require(query)

    def _all_queries(self) -> list[str]:
        queries = self.queries
        return [
            *queries.app_requested.values(),
            *queries.node_capacity.values(),
            queries.pmem_nodes,
            queries.dram_hit_ratio,
        ]

    def require(self, resources: Iterable[Resource]) -> None:
        """Algorithms call it when they are made; a ConfigError says what cannot be known."""
        wanted = list(resources)
        self._require_capacities(wanted)
        self._require_requested(wanted)

    def get_nodes_capacities(self, resources: Iterable[Resource]) -> Mapping[NodeName, Resources]:
        wanted = tuple(resources)
        self._require_capacities(wanted)
        queried = [resource for resource in wanted if resource not in _BASIC]
        results = [self.prometheus.ask(self.queries.node_capacity[each]) for each in queried]
        view = self.kubeapi.view

        def work_out() -> dict[NodeName, Resources]:
            capacities: dict[NodeName, Resources] = {}
            for name, basics in view.basics().items():
                capacity = capacities[name] = {}
                if basics.cpu is not None:
                    capacity[Resource.CPU] = basics.cpu
                if basics.memory_gb is not None:
                    capacity[Resource.MEM] = basics.memory_gb
            for resource, result in zip(queried, results, strict=True):
                for name, value in _values(result, "node"):
                    if name in capacities:
                        capacities[name][resource] = float(int(value))
            return capacities

        versions = (view.nodes_version, *(result.version for result in results))
        return self._remember(("capacities", wanted), versions, work_out)

    def get_apps_counts(self) -> tuple[Mapping[NodeName, Apps], Mapping[AppName, int]]:
        return self.kubeapi.view.counts()

    def get_apps_requested_resources(
        self, resources: Iterable[Resource]
    ) -> Mapping[AppName, Resources]:
        wanted = tuple(resources)
        self._require_requested(wanted)
        results = [self.prometheus.ask(self.queries.app_requested[each]) for each in wanted]

        def work_out() -> dict[AppName, Resources]:
            requested: dict[AppName, Resources] = {}
            for resource, result in zip(wanted, results, strict=True):
                for app, value in _values(result, "app"):
                    requested.setdefault(app, {})[resource] = value
            return requested

        versions = tuple(result.version for result in results)
        return self._remember(("requested", wanted), versions, work_out)

    def get_dram_hit_ratio(self) -> Mapping[NodeName, float]:
        return self._by_label(self.queries.dram_hit_ratio, "node")

    def get_pmem_nodes(self) -> Collection[NodeName]:
        return self._by_label(self.queries.pmem_nodes, "node").keys()

    def _by_label(self, query: str, label: str) -> Mapping[str, float]:
        result = self.prometheus.ask(query)
        return self._remember((label, query), result.version, lambda: dict(_values(result, label)))

    def _remember(self, what: Hashable, versions: Hashable, work_out: Callable[[], T]) -> T:
        remembered = self._answers.get(what)
        if remembered is None or remembered.versions != versions:
            remembered = self._answers[what] = _Remembered(versions, work_out())
        return cast(T, remembered.answer)

    def _require_capacities(self, resources: Collection[Resource]) -> None:
        if any(basic not in resources for basic in _BASIC):
            raise MissingBasicResources("Resources (CPU, MEM) are required.", where="dimensions")
        for resource in resources:
            if resource not in _BASIC and resource not in self.queries.node_capacity:
                raise MissingQueryForResource(
                    f"Missing query for node capacity for resource {resource.value}: add one to "
                    "NODE_CAPACITY_RESOURCES_QUERY_MAP of !Queries",
                    where="dimensions",
                )

    def _require_requested(self, resources: Collection[Resource]) -> None:
        for resource in resources:
            if resource not in self.queries.app_requested:
                raise MissingQueryForResource(
                    f"Missing query for what apps request of resource {resource.value}: add one to "
                    "APP_REQUESTED_RESOURCES_QUERY_MAP of !Queries",
                    where="dimensions",
                )


class ClusterScoreDataProvider(ClusterDataProvider, ScoreDataProvider):
    """Knows also which apps suit persistent memory, and which nodes have it."""

    def __init__(
        self,
        kubeapi: Kubeapi,
        prometheus: Prometheus,
        queries: Queries | None = None,
        app_profiles_query: str = "app_profile",
        node_type_query: str = "node_type",
    ) -> None:
        self.app_profiles_query = app_profiles_query
        self.node_type_query = node_type_query
        super().__init__(kubeapi, prometheus, queries)

    def _all_queries(self) -> list[str]:
        return [*super()._all_queries(), self.app_profiles_query, self.node_type_query]

    def get_apps_profile(self) -> Mapping[AppName, float]:
        return self._by_label(self.app_profiles_query, "app")

    def get_nodes_type(self) -> Mapping[NodeName, NodeType]:
        result = self.prometheus.ask(self.node_type_query)

        def work_out() -> dict[NodeName, NodeType]:
            types: dict[NodeName, NodeType] = {}
            for row in result.rows:
                node, kind = row.labels.get("node"), row.labels.get("nodetype", "")
                if node:
                    is_known = kind in list(NodeType)
                    types[node] = NodeType(kind) if is_known else NodeType.UNKNOWN
            return types

        return self._remember("types", result.version, work_out)


def _values(result: Result, label: str) -> Iterable[tuple[str, float]]:
    """The values of a result by a label; rows without it are of no app or node."""
    for row in result.rows:
        name = row.labels.get(label)
        if name:
            yield name, row.value
