"""Pods and nodes that name thousands of resources: counted work, and what stays in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from stowplan.api.objects import Container, Pod, ResourceRequirements
from stowplan.cluster.pod_info import compile_pod
from stowplan.cluster.requests import pod_requests
from stowplan.cluster.resource_columns import ResourceColumns
from stowplan.lab.bench.decisions import DecisionCase, LoadedEngine
from stowplan.scheduler.event_handlers import EventHandlers
from stowplan.scheduler.outcome import Failure, Placement
from stowplan.testing import node, pod
from tests.perf.counting import Work

NAMES = 1_000
NODES = 200


def naming(
    count: int, amount: int, more: Mapping[str, int] | None = None, *, node: str = ""
) -> Pod:
    """A pod that asks for so much of each of so many resources, and for some more."""
    requests = {f"example.com/r{number}": amount for number in range(count)}
    return pod(f"names-{count}-{amount}", requests={**requests, **(more or {})}, node=node)


def counted(action: Callable[..., object], *args: object) -> int:
    work = Work()
    with work.counted():
        action(*args)
    return work.calls


def attempted(stage: LoadedEngine) -> tuple[Placement | Failure, int]:
    """The outcome of an attempt, and the calls that it took."""
    work = Work()
    with work.counted():
        outcome = stage.engine.attempt()
    assert isinstance(outcome, Placement | Failure)
    return outcome, work.calls


def a_stage() -> tuple[LoadedEngine, EventHandlers]:
    stage = LoadedEngine(DecisionCase("counted", "one shape", nodes=NODES, existing=NODES))
    return stage, EventHandlers(stage.engine)


def size(resources: ResourceColumns) -> tuple[int, ...]:
    few = resources._few_offers, resources._few_held
    return (resources.nbytes, len(resources._index), *map(len, few))


@pytest.mark.parametrize("amount", [0, 7])
def test_informer_events_of_a_pod_that_names_many(amount: int) -> None:
    stage, handlers = a_stage()
    table = stage.engine.cache.table
    calls, before = [], size(table.resources)
    for count in (NAMES, 2 * NAMES):
        there = naming(count, amount, node=table.names[0])
        compile_pod(there)
        calls.append(counted(handlers.add_pod, there))
        assert table.resources.nbytes == before[0]
        calls[-1] += counted(handlers.delete_pod, there)
        assert size(table.resources) == before
    assert calls[1] <= 2 * calls[0]
    assert calls[0] <= 12 * NAMES + 1_000


def test_a_decision_on_a_pod_that_names_many_of_0() -> None:
    stage, handlers = a_stage()
    table = stage.engine.cache.table
    calls, before = [], size(table.resources)
    for count in (NAMES, 2 * NAMES):
        handlers.add_pod(naming(count, 0))
        outcome, work = attempted(stage)
        calls.append(work)
        assert isinstance(outcome, Placement)
        assert size(table.resources) == before
    assert calls[1] <= 2 * calls[0]


def test_a_decision_on_a_pod_that_names_many_that_no_node_offers() -> None:
    """Nodes fail in several ways besides, so that each kind of row has its own list of reasons."""
    stage, handlers = a_stage()
    table = stage.engine.cache.table
    for number in range(NODES):
        offers = {f"example.com/o{place}": number >> place & 1 for place in range(7)}
        stage.engine.cache.set_node(node(table.names[number], resources=offers))
    calls, before = [], size(table.resources)
    for count in (NAMES, 2 * NAMES):
        handlers.add_pod(naming(count, 1, {f"example.com/o{place}": 1 for place in range(7)}))
        outcome, work = attempted(stage)
        calls.append(work)
        assert isinstance(outcome, Failure)
        assert outcome.message.count("Insufficient example.com/r") == count
        assert f"{NODES} Insufficient example.com/r{count - 1}" in outcome.message
        assert "100 Insufficient example.com/o0" in outcome.message
        assert size(table.resources) == before
    assert calls[1] <= 2 * calls[0]
    assert calls[0] <= 60 * NAMES


def test_nodes_that_offer_many() -> None:
    stage, _ = a_stage()
    cache = stage.engine.cache
    before = size(cache.table.resources)
    calls = []
    for count in (NAMES, 2 * NAMES):
        offers = {f"example.com/r{number}": 1 for number in range(count)}
        odd = node("odd", resources=offers)
        calls.append(counted(cache.set_node, odd))
        assert cache.table.resources.nbytes <= 16 * before[0]
        calls[-1] += counted(cache.remove_node, "odd")
        assert size(cache.table.resources)[1:] == before[1:]
        assert size(cache.table.resources)[0] <= 2 * before[0]
    assert calls[1] <= 2 * calls[0] + 2_000


def test_sidecars_that_each_name_another_resource() -> None:
    calls = []
    for count in (NAMES, 2 * NAMES):
        sidecars = [
            Container(
                name=f"c{number}",
                restart_policy="Always" if number % 2 else None,
                resources=ResourceRequirements(requests={f"example.com/r{number}": "1"}),
            )
            for number in range(count)
        ]
        there = pod(init_containers=sidecars)
        calls.append(counted(pod_requests, there))
    assert calls[1] <= 2 * calls[0]
