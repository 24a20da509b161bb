"""SchedulingGates, PrioritySort, DefaultBinder, and the plugins for learning."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest

from stowplan.api.objects import Pod
from stowplan.api.verbs import NoApi
from stowplan.cluster.pod_info import compile_pod
from stowplan.errors import ConfigError
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import FilterStep, ScoreStep
from stowplan.framework.handle import Handle
from stowplan.framework.profile import make_plugin
from stowplan.framework.status import SUCCESS, unresolvable
from stowplan.framework.waiting import WaitingPod
from stowplan.plugins.default_binder import DefaultBinder
from stowplan.plugins.node_number import NodeNumber
from stowplan.plugins.priority_sort import PrioritySort
from stowplan.plugins.random_choice import RandomArgs, RandomFilter, RandomScore
from stowplan.plugins.scheduling_gates import SchedulingGates
from stowplan.queue.events import ActionType, Hint
from stowplan.queue.pod import QueuedPod
from stowplan.testing import node, pod
from tests.unit.plugins.plugin_kit import hint, in_place, run_scores

# SchedulingGates


def test_gates_keep_a_pod_out_of_the_queue() -> None:
    plugin = SchedulingGates()
    assert plugin.pre_enqueue(pod()) is None
    assert plugin.pre_enqueue(pod(gates=["foo", "bar"])) == unresolvable(
        "waiting for scheduling gates: [foo bar]"
    )


def test_gates_hint() -> None:
    plugin, mine = SchedulingGates(), pod(uid="a", gates=["g"])
    action = ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
    assert hint(plugin, "Pod", action, mine, mine, pod(uid="a")) is Hint.QUEUE
    assert hint(plugin, "Pod", action, mine, mine, pod(uid="b")) is Hint.SKIP


# PrioritySort


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((10, 2.0), (5, 1.0)),
        ((5, 1.0), (5, 2.0)),
        ((None, 1.0), (0, 2.0)),
        ((0, 2.0), (-1, 1.0)),
    ],
)
def test_priority_then_time(
    first: tuple[int | None, float], second: tuple[int | None, float]
) -> None:
    keys = [
        PrioritySort().sort_key(QueuedPod(pod(priority=priority), timestamp))
        for priority, timestamp in (first, second)
    ]
    assert keys[0] < keys[1]


# DefaultBinder


class Client(NoApi):
    def __init__(self) -> None:
        self.bound: list[tuple[str, ...]] = []

    async def bind(
        self,
        pod_namespace: str,
        pod_name: str,
        pod_uid: str,
        node: str,
        *,
        timeout_s: float = 30.0,
    ) -> None:
        self.bound.append((pod_namespace, pod_name, pod_uid, node))


async def test_binding_names_the_pod_by_uid() -> None:
    client = Client()
    plugin = DefaultBinder(None, Handle(client=client))
    bound = pod("web-0", namespace="shop", uid="u")
    await plugin.bind(Cycle(in_place([]).table, compile_pod(bound)), bound, "n1")
    assert client.bound == [("shop", "web-0", "u", "n1")]


# NodeNumber


@pytest.mark.parametrize(
    ("name", "expected"), [("pod1", [10, 0, 0]), ("pod2", [0, 10, 0]), ("pod", [0, 0, 0])]
)
def test_same_digit_scores_ten(name: str, expected: list[int]) -> None:
    cache = in_place([node("node1"), node("node2"), node("node")])
    assert run_scores(NodeNumber(), pod(name), cache) == expected


class Later:
    """Stands in for the loop's timer."""

    def __init__(self) -> None:
        self.calls: list[tuple[float, Callable[[], None]]] = []

    def __call__(self, delay: float, call: Callable[[], None]) -> None:
        self.calls.append((delay, call))


def permitted(where: str) -> tuple[Any, Later, Handle, Pod]:
    later = Later()
    handle = Handle(call_later=later)
    held = pod("p", uid="u")
    cycle = Cycle(in_place([]).table, compile_pod(held))
    return NodeNumber(None, handle).permit(cycle, held, where), later, handle, held


@pytest.mark.parametrize("where", ["node0", "node", ""])
def test_nodes_without_a_digit_or_with_zero_do_not_wait(where: str) -> None:
    answer, later, _, _ = permitted(where)
    assert answer == (SUCCESS, 0.0)
    assert later.calls == []


def test_the_pod_is_held_for_the_digit_of_the_node() -> None:
    (status, timeout), later, handle, held = permitted("node3")
    assert (status.is_wait, timeout) == (True, 10.0)
    ((delay, release),) = later.calls
    assert delay == 3.0
    waiting = WaitingPod(held, "node3", {"NodeNumber": 10.0}, started=0.0)
    handle.waiting.add(waiting)
    release()
    assert waiting.status == SUCCESS
    handle.waiting.remove("u")
    release()


# RandomFilter and RandomScore


def chosen(plugin: RandomFilter) -> list[bool]:
    cache = in_place([node(f"n{i}") for i in range(40)])
    cycle = Cycle(cache.table, compile_pod(pod("p")))
    step = FilterStep(plugin)
    return [step.status_of_row(cycle, row).is_success for row in range(40)]


def scored(plugin: RandomScore) -> list[int]:
    cache = in_place([node(f"n{i}") for i in range(40)])
    cycle = Cycle(cache.table, compile_pod(pod("p")))
    out = np.zeros(cache.table.capacity, np.int64)
    step = ScoreStep(plugin, 1)
    step.fill(cycle, slice(None), out)
    return [int(score) for score in step.finish(cycle, out[:40])]


def test_the_same_seed_gives_the_same_choice() -> None:
    seeds = [RandomArgs(seed=seed) for seed in (1, 1, 2)]
    first, again, other = (chosen(RandomFilter(args)) for args in seeds)
    assert first == again != other
    assert {True, False} == set(first)
    one, same, different = (scored(RandomScore(args)) for args in seeds)
    assert one == same != different
    assert min(one) >= 0
    assert max(one) < 100


def test_without_a_seed_the_process_decides() -> None:
    results = [chosen(RandomFilter(None, Handle(rng=Random(seed)))) for seed in (5, 5, 6)]
    assert results[0] == results[1] != results[2]


def test_bad_luck_has_a_reason() -> None:
    cache = in_place([node(f"n{i}") for i in range(40)])
    step = FilterStep(make_plugin(RandomFilter, {"seed": 1}))
    statuses = {
        step.status_of_row(Cycle(cache.table, compile_pod(pod("p"))), row).message
        for row in range(40)
    }
    assert statuses == {"", "node(s) had bad luck"}
    with pytest.raises(ConfigError, match="seed"):
        make_plugin(RandomScore, {"seed": "x"})
