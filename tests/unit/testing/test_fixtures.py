"""The fixtures of the pytest plugin, which pytest finds because Stowplan is installed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stowplan.plugins.node_number import NodeNumber
from stowplan.sim.scenarios import Cluster, Outcome
from stowplan.testing import Faults, MemoryCluster, Verdict
from stowplan.testing.cluster import ClusterClock
from tests.unit.testing.planted import GoodColumns, on_ssd

pytestmark = pytest.mark.stowplan(plugins=[on_ssd])


def test_they_are_about_one_cluster(
    cluster: MemoryCluster,
    decide: Callable[..., Verdict],
    virtual_clock: ClusterClock,
    faults: Faults,
) -> None:
    cluster.add_node("n1", labels={"disk": "ssd"})
    assert decide("web").node == "n1"
    faults.server_error()
    cluster.add_pod("web")
    assert cluster.node_of("web") == ""
    before = virtual_clock.time()
    virtual_clock.advance(5)
    assert virtual_clock.time() == before + 5
    assert cluster.node_of("web") == "n1"
    with pytest.raises(ValueError, match="time does not go back"):
        virtual_clock.advance(-1)


@pytest.mark.stowplan(plugins=[GoodColumns], args={"GoodColumns": {"label": "kind"}})
def test_the_nearest_mark_counts(cluster: MemoryCluster) -> None:
    assert "on_ssd" not in cluster.engine.profiles["default-scheduler"].plugins
    cluster.add_node("n1", labels={"kind": "a"})
    assert cluster.decide("web", labels={"disk": "b"}).rejected_by == {"GoodColumns"}


@pytest.mark.stowplan(plugins=[NodeNumber], defaults=False)
def test_a_scenario_with_the_same_plugins(play_scenario: Callable[..., Outcome]) -> None:
    async def scenario(cluster: Cluster) -> None:
        for number in range(3):
            await cluster.create_node(f"node{number}")
        await cluster.create_pod("pod2")
        await cluster.settle()
        assert await cluster.node_of("pod2") == "node2"

    outcome = play_scenario(scenario)
    assert outcome.placements == {"default/pod2": "node2"}
    assert outcome.cluster_s >= 2.0, "it is held for as many seconds as the digit says"


def test_what_fails_in_a_scenario_fails_the_test(play_scenario: Callable[..., Outcome]) -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.expect("a node is there", False, found="none")
        assert await cluster.list("Node"), "no nodes"

    with pytest.raises(AssertionError, match="no nodes") as failed:
        play_scenario(scenario)
    assert "expected: a node is there; found: none" in str(failed.value)
