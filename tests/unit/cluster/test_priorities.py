"""The lowest priority of all pods on nodes."""

from __future__ import annotations

from collections import Counter
from math import inf
from random import Random

from stowplan.cluster.pod_info import compile_pod
from stowplan.cluster.priorities import Priorities
from stowplan.cluster.table import NodeTable
from stowplan.testing import node, pod


def test_pods_come_and_go() -> None:
    priorities, there, rng = Priorities(), Counter[int](), Random(1)
    for _ in range(2_000):
        priority = rng.randrange(-20, 20)
        if there[priority] and rng.random() < 0.6:
            there[priority] -= 1
            priorities.remove(priority)
        else:
            there[priority] += 1
            priorities.add(priority)
        assert priorities.lowest == min(+there, default=inf)


def test_memory_returns_when_the_pods_are_gone() -> None:
    priorities = Priorities()
    for _ in range(3):
        for priority in range(1_000):
            priorities.add(priority)
        for priority in range(1_000):
            priorities.remove(priority)
    assert len(priorities._heap) <= 16
    assert priorities.lowest == inf


def test_the_table_counts_the_pods_of_all_rows() -> None:
    table = NodeTable()
    assert table.priorities.lowest == inf
    table.set_node(node("n"))
    row = table.add_pod("n", compile_pod(pod("high", uid="high", priority=5)))
    table.add_pod("n", compile_pod(pod("low", uid="low", priority=-3)))
    assert table.priorities.lowest == -3
    table.replace_pod(row, compile_pod(pod("low", uid="low", priority=7)))
    assert table.priorities.lowest == 5
    table.remove_pod(row, "high")
    assert table.priorities.lowest == 7
