"""Providers on an embedded API server and a fake Prometheus: numbers, gaps, and bad days."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from stowplan.api.extender_protocol import ExtenderArgs
from stowplan.errors import ConfigError
from stowplan.extender.algorithms.fit import Fit
from stowplan.extender.cluster_data import (
    ClusterDataProvider,
    ClusterScoreDataProvider,
    MissingBasicResources,
    MissingQueryForResource,
    Queries,
)
from stowplan.extender.data import NodeType, Resource
from stowplan.extender.kubeapi import Kubeapi
from stowplan.extender.prometheus import Prometheus
from tests.unit.api.api_kit import until
from tests.unit.extender.cluster_kit import Cluster, following, running_cluster
from tests.unit.extender.fake_prometheus import FakePrometheus, Vector, by, serving, started

BASIC = (Resource.CPU, Resource.MEM)
RESULTS: dict[str, Vector] = {
    'app_req{dim="cpu"}': by("app", web=2, db=3.5),
    'app_req{dim="mem"}': by("app", web=4, db=10),
    'app_req{dim="mbw_flat"}': by("app", web=1),
    'app_req{dim="wss"}': by("app", web=1.5),
    'node_capacity{dim="mbw_read"}': by("node", n1=54.4, n2=33.2, elsewhere=7),
    'node_capacity{dim="mbw_write"}': by("node", n1=14.8),
    "sum(platform_mem_mode_size_bytes) by (node) != 0": by("node", n1=1.6e12),
    "platform_dram_hit_ratio": by("node", n1=0.99, n2=1),
    "app_profile": by("app", web=0.5, db=11.6),
    "node_type": [
        ({"node": "n1", "nodetype": "pmem"}, 1),
        ({"node": "n2", "nodetype": "dram"}, 1),
        ({"node": "n3", "nodetype": "hbm"}, 1),
        ({"node": "n4"}, 1),
        ({"nodetype": "pmem"}, 1),
    ],
}


@dataclass
class Stage:
    cluster: Cluster
    fake: FakePrometheus
    provider: ClusterScoreDataProvider


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    async with running_cluster() as cluster, serving(FakePrometheus(dict(RESULTS))) as fake:
        cluster.node("n1", cpu="72", memory="16Gi")
        cluster.node("n2", cpu="3920m", memory="1e9")
        cluster.node("boss", labels={"node-role.kubernetes.io/master": ""})
        cluster.pod("web-0", node="n1")
        prometheus = Prometheus("127.0.0.1", fake.port, max_age=0.1, timeout=5.0)
        async with following(cluster.kubeapi()) as kubeapi, started(prometheus):
            provider = ClusterScoreDataProvider(kubeapi, prometheus)
            await until(lambda: prometheus.note() is None)
            yield Stage(cluster, fake, provider)


async def test_numbers_come_from_the_cluster_and_from_prometheus(stage: Stage) -> None:
    provider = stage.provider
    assert provider.get_nodes_capacities(BASIC) == {
        "n1": {"cpu": 72.0, "mem": 17.0},
        "n2": {"cpu": 3.92, "mem": 1.0},
    }
    bandwidth = (*BASIC, Resource.MEMBW_READ, Resource.MEMBW_WRITE)
    assert provider.get_nodes_capacities(bandwidth) == {
        "n1": {"cpu": 72.0, "mem": 17.0, "membw_read": 54.0, "membw_write": 14.0},
        "n2": {"cpu": 3.92, "mem": 1.0, "membw_read": 33.0},
    }
    assert provider.get_apps_counts() == ({"n1": {"web": ["web-0"]}, "n2": {}}, {})
    assert provider.get_apps_requested_resources([Resource.CPU, Resource.WSS]) == {
        "web": {"cpu": 2.0, "wss": 1.5},
        "db": {"cpu": 3.5},
    }
    assert provider.get_dram_hit_ratio() == {"n1": 0.99, "n2": 1.0}
    assert list(provider.get_pmem_nodes()) == ["n1"]
    assert provider.get_apps_profile() == {"web": 0.5, "db": 11.6}
    assert provider.get_nodes_type() == {
        "n1": NodeType.PMEM,
        "n2": NodeType.DRAM,
        "n3": NodeType.UNKNOWN,
        "n4": NodeType.UNKNOWN,
    }


async def test_an_answer_is_worked_out_once(stage: Stage) -> None:
    provider = stage.provider
    first = provider.get_nodes_capacities(BASIC), provider.get_apps_requested_resources(BASIC)
    asked = len(stage.fake.seen)
    await until(lambda: len(stage.fake.seen) > asked + 20)
    assert provider.get_nodes_capacities(BASIC) is first[0]
    assert provider.get_apps_requested_resources(BASIC) is first[1]
    stage.cluster.node("n3")
    await until(lambda: len(provider.get_nodes_capacities(BASIC)) == 3)
    assert len(first[0]) == 2
    stage.fake.results['app_req{dim="cpu"}'] = by("app", web=9)
    await until(lambda: provider.get_apps_requested_resources(BASIC)["web"][Resource.CPU] == 9)
    assert first[1]["web"][Resource.CPU] == 2


async def test_requests_cost_neither_server_anything(stage: Stage) -> None:
    refusal = stage.cluster.fault("/api/", times=None)
    stage.fake.open.clear()
    asked = len(stage.fake.seen)
    algorithm = Fit(stage.provider, [Resource.CPU, Resource.MEM])
    args = ExtenderArgs(None, {"metadata": {"name": "a", "labels": {"app": "db"}}}, ["n1", "n2"])
    for _ in range(100):
        result = algorithm.filter(args)
        assert result.NodeNames == ["n1"]
        assert list(result.FailedNodes) == ["n2"]
    assert refusal.hits == 0
    assert len(stage.fake.seen) == asked


async def test_rows_without_an_app_or_node_are_of_nobody(stage: Stage) -> None:
    stage.fake.results['app_req{dim="cpu"}'] = [({"instance": "x"}, 1), ({"app": ""}, 2)]
    requested = stage.provider.get_apps_requested_resources
    await until(lambda: requested([Resource.CPU]) == {})


async def test_all_queries_are_fetched_before_the_first_question(stage: Stage) -> None:
    assert set(RESULTS) <= {seen["query"] for seen in stage.fake.seen}


async def test_without_prometheus_what_the_cluster_says_is_known() -> None:
    async with running_cluster() as cluster:
        cluster.node("n1")
        prometheus = Prometheus("127.0.0.1", 1, max_age=0.1)
        async with following(cluster.kubeapi()) as kubeapi, started(prometheus):
            provider = ClusterScoreDataProvider(kubeapi, prometheus)
            assert provider.get_nodes_capacities([*BASIC, Resource.WSS]) == {
                "n1": {"cpu": 4.0, "mem": 34.0}
            }
            assert provider.get_apps_requested_resources(BASIC) == {}
            assert provider.get_dram_hit_ratio() == {}
            assert list(provider.get_pmem_nodes()) == []
            assert provider.get_apps_profile() == {}
            assert provider.get_nodes_type() == {}


def _provider(**queries: Any) -> ClusterDataProvider:
    kubeapi = Kubeapi("http://127.0.0.1", 1)
    return ClusterDataProvider(kubeapi, Prometheus("127.0.0.1"), Queries(**queries))


def test_dimensions_without_cpu_or_memory_are_a_mistake() -> None:
    for dimensions in ([], [Resource.CPU], [Resource.MEM, Resource.WSS]):
        with pytest.raises(MissingBasicResources, match=r"Resources \(CPU, MEM\) are required\."):
            _provider().require(dimensions)
        with pytest.raises(MissingBasicResources):
            _provider().get_nodes_capacities(dimensions)


def test_dimensions_without_a_query_are_a_mistake() -> None:
    _provider().require([*BASIC, Resource.WSS, Resource.MEMBW_FLAT])
    with pytest.raises(MissingQueryForResource, match="what apps request of resource membw_read"):
        _provider().require([*BASIC, Resource.MEMBW_READ])
    without = _provider(NODE_CAPACITY_RESOURCES_QUERY_MAP={"membw_read": "x"})
    with pytest.raises(MissingQueryForResource, match="node capacity for resource wss") as raised:
        without.require([*BASIC, Resource.WSS])
    assert isinstance(raised.value, ConfigError)
    only_cpu = _provider(APP_REQUESTED_RESOURCES_QUERY_MAP={"cpu": "x"})
    with pytest.raises(MissingQueryForResource, match="what apps request of resource mem"):
        only_cpu.get_apps_requested_resources(BASIC)


def test_the_names_of_resources_are_checked() -> None:
    with pytest.raises(ConfigError, match="NODE_CAPACITY_RESOURCES_QUERY_MAP: 'disk' is not"):
        Queries(NODE_CAPACITY_RESOURCES_QUERY_MAP={"disk": "x"})
    with pytest.raises(ConfigError, match="the query for 'cpu' is empty"):
        Queries(APP_REQUESTED_RESOURCES_QUERY_MAP={"cpu": ""})


def test_the_default_queries_are_the_original_s() -> None:
    queries = Queries()
    assert queries.app_requested == {
        "cpu": 'app_req{dim="cpu"}',
        "mem": 'app_req{dim="mem"}',
        "membw_flat": 'app_req{dim="mbw_flat"}',
        "wss": 'app_req{dim="wss"}',
    }
    assert queries.node_capacity == {
        "membw_read": 'node_capacity{dim="mbw_read"}',
        "membw_write": 'node_capacity{dim="mbw_write"}',
        "membw_flat": 'node_capacity{dim="mbw_flat"}',
        "wss": 'node_capacity{dim="wss"}',
    }
