"""No step of a long listing grows with the cluster: function calls between two turns are counted.

A scheduler decides in the same thread, so it waits for the longest step, not for the whole listing.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from msgspec.structs import replace

from stowplan.api.objects import Condition, PodStatus
from stowplan.api.resources import NODES
from stowplan.console.columns import NodeColumns
from stowplan.console.pending import MOST_CAUSES, MOST_LISTED, waiting_pods
from stowplan.testing import node, pod
from tests.console_stage import Stage

FEW, MANY = 1_500, 4_500


async def longest_step(work: Callable[[], Coroutine[Any, Any, Any]]) -> tuple[int, Any]:
    """The most function calls between two turns of the event loop, and the result."""
    calls = most = 0

    def on_event(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    async def others() -> None:
        nonlocal calls, most
        while True:
            calls = 0
            await asyncio.sleep(0)
            most = max(most, calls)

    ticking = asyncio.create_task(others())
    await asyncio.sleep(0)
    gc.disable()
    sys.setprofile(on_event)
    try:
        found = await work()
    finally:
        sys.setprofile(None)
        gc.enable()
        ticking.cancel()
    return most, found


def refused(message: str) -> PodStatus:
    return PodStatus(conditions=(Condition(type="PodScheduled", status="False", message=message),))


def crowd(count: int) -> Stage:
    """As many waiting pods as placed ones; every waiting pod has a cause of its own."""
    stage = Stage()
    stage.add_nodes([node("n1", cpu=1)])
    for number in range(count):
        message = f"0/1 nodes are available: 1 node(s) lacked thing {number}."
        status = refused(message)
        waiting = pod(f"wait-{number}", status=status, priority=number % 7)
        stage.handlers.add_pod(waiting)
        stage.handlers.add_pod(pod(f"run-{number}", node="n1"))
    return stage


@pytest.mark.parametrize("with_engine", [True, False], ids=["scheduler", "objects"])
async def test_a_listing_of_the_queue_is_made_in_pieces(with_engine: bool) -> None:
    steps = []
    for count in (FEW, MANY):
        stage = crowd(count)
        engine = stage.engine if with_engine else None
        step, shown = await longest_step(lambda: waiting_pods(stage.mirror, engine))  # noqa: B023  # awaited at once
        steps.append(step)
        (state,) = [each for each in shown["states"] if each["pods"]]
        assert (state["pods"], state["causes"]) == (count, count)
        assert len(state["groups"]) == MOST_CAUSES
    assert steps[1] < steps[0] * 1.2


async def test_the_first_pods_of_the_queue_are_listed() -> None:
    stage = Stage()
    for number in range(1_200):
        stage.handlers.add_pod(pod(f"p{number:04d}", priority=1 if number == 1_100 else 0))
    shown = await waiting_pods(stage.mirror, stage.engine)
    (group,) = shown["states"][0]["groups"]
    names = [each["pod"] for each in group["listed"]]
    assert (group["pods"], len(names)) == (1_200, MOST_LISTED)
    assert names[:3] == ["default/p1100", "default/p0000", "default/p0001"]


async def test_a_search_is_made_in_pieces() -> None:
    steps = []
    for count in (FEW, MANY):
        stage = crowd(count)
        step, found = await longest_step(lambda: stage.mirror.search_pods("nobody", 30))  # noqa: B023  # awaited at once
        assert found == []
        steps.append(step)
    assert steps[1] < steps[0] * 1.2
    some = await crowd(FEW).mirror.search_pods("-149", 30)
    names = [each.metadata.name for each in some]
    assert names[:2] == ["wait-149", "wait-1490"]
    assert names.index("run-149") == 11
    assert len(set(names)) == len(names) == 22


async def test_a_changed_node_does_not_make_the_console_look_at_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = Stage()
    stage.add_nodes(node(f"n{number}", labels={"disk": "ssd"}) for number in range(200))
    columns = NodeColumns(stage.mirror.table, "boot")
    assert columns.refresh()
    looked: list[int] = []
    whole = NodeColumns._fact

    def looked_at(columns: NodeColumns, row: int) -> Any:
        looked.append(row)
        return whole(columns, row)

    monkeypatch.setattr(NodeColumns, "_fact", looked_at)
    changed = node("n7", labels={"disk": "hdd"})
    stage.mirror.put(NODES, replace(changed, spec=replace(changed.spec, unschedulable=True)))
    assert columns.refresh()
    assert len(looked) == 1
    assert columns.snapshot("disk")["group"]["values"] == ["ssd", "hdd"]


async def test_clients_share_a_listing() -> None:
    stage = crowd(1_100)
    first, second = stage.console.queue([], {}), stage.console.queue([], {})
    assert await first is await second
