"""A flood of pods that fit nowhere keeps neither those that fit nor the memory.

The flood is made once; every test leaves it as it found it, all of it waiting for an event.
"""

from __future__ import annotations

import gc

import pytest

from stowplan.framework.cycle import Cycle
from stowplan.queue.pod import QueuedPod
from stowplan.scheduler.decision import Decision
from stowplan.scheduler.outcome import Failure, Placement
from stowplan.testing import node, pod
from tests.unit.scheduler.requeue.world import World

pytestmark = pytest.mark.slow

FLOOD = 10_000
#: How many cycles after its turn a pod that fits may still wait.
_SLACK = 2


@pytest.fixture(scope="module")
def flooded() -> World:
    """10,000 pods that are too big for the cluster, of two shapes, all tried without success."""
    world = World([node("n1", cpu="4")])
    for number in range(FLOOD):
        world.add(pod(f"huge-{number}", cpu=str(64 + number % 2)))
    drain(world)
    return world


def drain(world: World) -> None:
    """Try every pod that is not waiting; none of them fits."""
    while (outcome := world.engine.attempt()) is not None:
        assert isinstance(outcome, Failure)
    counts = world.queue.counts
    assert (counts.active, counts.backoff, counts.in_flight) == (0, 0, 0)
    assert counts.unschedulable == FLOOD


def bring_all_back(world: World) -> None:
    """A placed pod that goes is an event for everyone who waits for room."""
    world.add(pod("leaves", cpu="0", node="n1"))
    world.remove("leaves")
    assert world.queue.counts.unschedulable == 0


def cycles_until_placed(world: World, name: str) -> int:
    """How many attempts it takes until the pod has a node."""
    for number in range(1, 2 * FLOOD):
        outcome = world.engine.attempt()
        assert outcome is not None
        if isinstance(outcome, Placement):
            assert outcome.pod.metadata.name == name
            world.engine.bound(outcome)
            return number
    raise AssertionError(f"{name} was never placed")


def turn_of(world: World, name: str) -> int:
    """How many attempts away the pod is, by the order of the queue."""
    pending = world.queue.pending()
    order = [queued.pod.metadata.name for queued in (*pending.active, *pending.backoff)]
    return order.index(name) + 1


def count_living(*kinds: type) -> int:
    gc.collect()
    return sum(isinstance(thing, kinds) for thing in gc.get_objects())


def test_one_that_fits_has_its_turn_at_once_while_the_flood_waits(flooded: World) -> None:
    flooded.add(pod("fits"))
    assert turn_of(flooded, "fits") == 1
    assert cycles_until_placed(flooded, "fits") <= 1 + _SLACK


def test_events_that_help_nobody_leave_the_flood_where_it_is(flooded: World) -> None:
    for number in range(3):
        flooded.add(node(f"small-{number}", cpu="1"))
    assert flooded.queue.counts.unschedulable == FLOOD


def test_one_that_fits_goes_first_while_the_flood_backs_off(flooded: World) -> None:
    bring_all_back(flooded)
    assert flooded.queue.counts.backoff == FLOOD
    flooded.add(pod("goes-first"))
    assert turn_of(flooded, "goes-first") == 1
    assert cycles_until_placed(flooded, "goes-first") <= 1 + _SLACK
    drain(flooded)


def test_one_that_fits_has_its_turn_when_the_whole_flood_comes_back(flooded: World) -> None:
    flooded.clock.advance(60)
    bring_all_back(flooded)
    assert flooded.queue.counts.active == FLOOD
    flooded.add(pod("in-turn"))
    flooded.add(pod("important", priority=1))
    assert (turn_of(flooded, "important"), turn_of(flooded, "in-turn")) == (1, FLOOD + 2)
    assert cycles_until_placed(flooded, "important") <= 1 + _SLACK
    assert cycles_until_placed(flooded, "in-turn") <= FLOOD + 1 + _SLACK
    drain(flooded)


def test_memory_stays_bounded(flooded: World) -> None:
    records = count_living(QueuedPod)
    attempts = count_living(Decision, Cycle, Failure)  # other tests may hold some
    objects = count_living(object)
    flooded.clock.advance(60)
    bring_all_back(flooded)
    drain(flooded)
    assert not any(flooded.queue.inflight_events.values())
    assert count_living(QueuedPod) == records
    left = count_living(Decision, Cycle, Failure) - attempts
    assert left <= 10, "no attempt leaves its record behind"
    # 10,000 more attempts leave behind less than one object in ten.
    assert count_living(object) - objects < FLOOD // 10
