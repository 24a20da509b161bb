"""Pods that wait for room in a full cluster: what each failed attempt costs.

One pod that finishes has all of them tried again. So an attempt must not look at each node when
nothing has changed since a pod of the same shape was tried.
"""

from __future__ import annotations

import gc
from random import Random

import pytest

from stowplan.api.objects import Pod
from stowplan.config.defaults import default_config
from stowplan.plugins.registry import in_tree_registry
from stowplan.scheduler.assembly import build_engine
from stowplan.scheduler.engine import Engine
from stowplan.scheduler.event_handlers import EventHandlers
from stowplan.scheduler.outcome import Failure
from stowplan.testing import node, pod
from tests.perf.counting import Work, rows_counted
from tests.perf.doubling import Steps

_SHAPES = 4


class _FullCluster:
    """Nodes of 2 CPU that are full, and pods that wait for 1 or more."""

    def __init__(self, nodes: int, waiting: int, *, priority: int = 0) -> None:
        self.engine: Engine = build_engine(
            default_config(), registry=in_tree_registry(), rng=Random(1)
        )
        self._handlers = EventHandlers(self.engine)
        self._small: list[Pod] = []
        for number in range(nodes):
            self._handlers.add_node(node(f"n{number}", cpu=2))
            self._handlers.add_pod(
                pod(f"large{number}", cpu="1900m", node=f"n{number}", priority=9)
            )
            self._small.append(pod(f"small{number}", cpu="100m", node=f"n{number}"))
            self._handlers.add_pod(self._small[-1])
        for number in range(waiting):
            cpu = f"{1000 + number % _SHAPES}m"
            self._handlers.add_pod(pod(f"waiting{number}", cpu=cpu, priority=priority))
        # Shapes are cached from their second use on.
        for _ in range(3):
            self.try_all()
            self.finish_one()

    def finish_one(self) -> None:
        self._handlers.delete_pod(self._small.pop())

    def try_all(self) -> int:
        attempts = 0
        while (outcome := self.engine.attempt()) is not None:
            assert isinstance(outcome, Failure)
            assert "Insufficient cpu" in outcome.message
            attempts += 1
        return attempts


def _lines_per_attempt(nodes: int, waiting: int, *, priority: int = 0) -> float:
    cluster, steps = _FullCluster(nodes, waiting, priority=priority), Steps()
    gc.disable()
    try:
        with steps.counted():
            attempts = cluster.try_all()
    finally:
        gc.enable()
    assert attempts == waiting
    return steps.total / attempts


@pytest.mark.parametrize("priority", [0, 5], ids=["none is lower", "victims do not help"])
def test_an_attempt_in_vain_costs_the_same_on_twice_as_many_nodes(priority: int) -> None:
    few = _lines_per_attempt(32, 100, priority=priority)
    assert _lines_per_attempt(64, 100, priority=priority) < 1.05 * few


def test_an_attempt_in_vain_costs_the_same_among_twice_as_many_waiting_pods() -> None:
    few = _lines_per_attempt(32, 100)
    assert _lines_per_attempt(32, 200) < 1.05 * few


def test_filters_look_at_rows_only_for_the_first_pod_of_a_shape() -> None:
    cluster, work = _FullCluster(32, 100), Work()
    with rows_counted(work):
        cluster.try_all()
    # Each shape once: the row that changed, by both of its caches; preemption asks no filter.
    assert work.rows <= 2 * _SHAPES * len(cluster.engine.profiles["default-scheduler"].filters)
