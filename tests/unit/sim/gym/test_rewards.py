"""Rewards, computed by hand."""

from __future__ import annotations

import pytest

from stowplan.cluster.pod_info import compile_pod
from stowplan.cluster.table import NodeTable
from stowplan.sim.gym import REWARDS, ClusterEnv
from stowplan.sim.gym.rewards import Step, fragmentation, utilisation
from stowplan.testing import node, pod
from tests.unit.sim.gym.clusters import some_node, some_pod, trace_of


def after(reward: str, *actions: int) -> list[float]:
    """Two nodes of 4 cores and 16 GiB; pods of 2 cores and 1 GiB, ten minutes apart, and a third
    that must wait twenty minutes for the first to end.
    """
    pods = [
        some_pod(0, "one", cpu_milli=2000, run_s=2400),
        some_pod(600, "two", cpu_milli=2000),
        some_pod(1200, "three", cpu_milli=4000),
    ]
    env = ClusterEnv(trace_of([some_node("a"), some_node("b")], pods), reward=reward)
    env.reset()
    return [env.step(action)[1] for action in actions]


def test_utilisation_is_of_nodes_in_use() -> None:
    together, apart = after("utilisation", 0, 0), after("utilisation", 0, 1)
    assert together == pytest.approx([(2 / 4 + 1 / 16) / 2, (4 / 4 + 2 / 16) / 2])
    # When the third has its turn, the first has ended.
    assert apart == pytest.approx([(2 / 4 + 1 / 16) / 2, (2 / 4 + 1 / 16) / 2])


def test_fragmentation_is_what_only_one_resource_is_left_of() -> None:
    assert after("fragmentation", 0, 0) == pytest.approx([-(2 / 4 - 1 / 16), -(4 / 4 - 2 / 16)])


def test_wait_time_is_in_hours_of_pods() -> None:
    assert after("wait_time", 0, 1) == pytest.approx([0, -1200 / 3600])
    assert after("wait_time", 0, 0, 1) == pytest.approx([0, 0, 0])


def test_the_default_is_all_of_them() -> None:
    parts = [after(name, 0, 1) for name in ("utilisation", "fragmentation", "wait_time")]
    assert after("balance", 0, 1) == pytest.approx([sum(each) for each in zip(*parts, strict=True)])
    assert set(REWARDS) == {"balance", "utilisation", "fragmentation", "wait_time"}


def test_amounts_that_an_int64_cannot_add_up() -> None:
    table = NodeTable()
    for name in "ab":
        table.set_node(node(name, cpu=f"{2**63 - 1}m", memory=str(2**63 - 1)))
        filling = pod(cpu=f"{2**63 - 1}m", memory=str(2**63 - 1), uid=name)
        table.add_pod(name, compile_pod(filling))
    step = Step(table, pod(), "a", elapsed_s=0, waited_s=0, waiting=0)
    assert utilisation(step) == 1
    assert fragmentation(step) == 0
