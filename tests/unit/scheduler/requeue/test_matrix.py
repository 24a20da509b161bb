"""Every registered event, from the informer's callback to the place where each pod ends up."""

from __future__ import annotations

import pytest

from stowplan.scheduler.outcome import Placement
from tests.unit.scheduler.requeue import (
    rows_binding,
    rows_devices,
    rows_nodes,
    rows_pods,
    rows_taints,
    rows_volumes,
)
from tests.unit.scheduler.requeue.matrix import Row
from tests.unit.scheduler.requeue.world import World

ROWS = [
    *rows_nodes.ROWS,
    *rows_pods.ROWS,
    *rows_volumes.ROWS,
    *rows_binding.ROWS,
    *rows_devices.ROWS,
    *rows_taints.ROWS,
]
#: Backoff is over after the second, and not after the first.
_AT_ONCE, _LATER = 0.0, 30.0


def waiting_world(row: Row) -> World:
    """The row's cluster, with its pods rejected by its plugin and by no other."""
    world = World(row.cluster)
    for pod in row.waiting:
        row.arrives(world, pod)
        queued = world.queued(pod.metadata.name)
        assert queued.rejectors == {row.pair.plugin}, queued
        assert world.where(pod.metadata.name) == ("gated" if queued.is_gated else "unschedulable")
    return world


@pytest.mark.parametrize("elapsed", [_AT_ONCE, _LATER])
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_exactly_the_expected_pods_come_back(row: Row, elapsed: float) -> None:
    world = waiting_world(row)
    names = [pod.metadata.name for pod in row.waiting]
    before = {name: (world.where(name), world.queued(name).attempts) for name in names}
    world.clock.advance(elapsed)
    world.watch()

    row.change(world)

    # Nothing else happened that could have brought them back.
    assert world.happened
    assert all(event.matches(row.pair.event) for event in world.happened), world.happened
    assert all(event.action == row.pair.action for event in world.happened), world.happened
    for name in names:
        place = world.where(name)
        if name in row.stay:
            assert place == before[name][0], name
        else:
            was_tried = before[name][1] > 0
            assert place == ("backoff" if was_tried and elapsed == _AT_ONCE else "active"), name
    outcomes = world.attempt_all()
    assert outcomes.keys() & {*names} == row.back
    assert {name for name in names if isinstance(outcomes.get(name), Placement)} == {*row.placed}
    for name in row.stay:
        assert (world.where(name), world.queued(name).attempts) == before[name]
