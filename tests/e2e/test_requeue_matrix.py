"""The rows of the requeue matrix are kube-scheduler's own answers, not only ours.

The matrix says on virtual time which pods come back (tests/unit/scheduler/requeue). Here every row
that an API server can play is played for kube-scheduler: the same plugin rejects the pods, and the
same ones are tried again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from stowplan.controlplane import ControlPlane
from stowplan.controlplane.api_access import ApiAccess, ApiError
from tests.controlplane_fixtures import require_binaries
from tests.e2e.requeue_world import Impossible, RealWorld
from tests.e2e.schedulers import kube_scheduler
from tests.e2e.test_requeue import CONFIG
from tests.unit.scheduler.requeue.matrix import Row, tried_in_vain
from tests.unit.scheduler.requeue.test_matrix import ROWS

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

#: What the API server refuses to create or to change.
IMPOSSIBLE = {
    "NodeResourcesFit-Pod-DELETE-a_pod_goes_that_had_only_the_promise_of_a_node",
    "NodeDeclaredFeatures-Pod-UPDATE-one_needs_it_no_more",
}
#: In the other rows the pods' record is made up, as no attempt ends that way.
HONEST = [row for row in ROWS if row.arrives is tried_in_vain]
#: How long a pod that was deleted while its volumes were being bound is still heard of.
_LAST_WORDS_S = 1.5


@pytest.fixture(scope="module")
def upstream() -> Iterator[tuple[ApiAccess, Path]]:
    require_binaries("etcd", "kube-apiserver", "kubectl", "kube-scheduler")
    with ControlPlane() as plane, kube_scheduler(plane, CONFIG, "-v=5") as log:
        yield plane.api, log


@pytest.fixture
def world(upstream: tuple[ApiAccess, Path], row: Row) -> Iterator[RealWorld]:
    world = RealWorld(*upstream)
    yield world
    world.clean()
    if row.pair.plugin == "VolumeBinding":
        time.sleep(_LAST_WORDS_S)


@pytest.mark.parametrize("row", [row for row in HONEST if str(row) not in IMPOSSIBLE], ids=str)
def test_kube_scheduler_agrees(row: Row, world: RealWorld) -> None:
    _play(row, world)


@pytest.mark.parametrize("row", [row for row in HONEST if str(row) in IMPOSSIBLE], ids=str)
def test_the_rest_cannot_be_played(row: Row, world: RealWorld) -> None:
    with pytest.raises((ApiError, Impossible)):
        _play(row, world)


def _play(row: Row, world: RealWorld) -> None:
    for thing in row.cluster:
        world.add(thing)
    for pod in row.waiting:
        world.let_wait(pod, row.pair.plugin)
    names = [pod.metadata.name for pod in row.waiting]
    world.watch()
    row.change(world)
    assert world.come_back(row.back, names) == row.back
