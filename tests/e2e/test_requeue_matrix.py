"""The rows of the requeue matrix are kube-scheduler's own answers, not only ours.

The matrix says on virtual time which pods come back (tests/unit/scheduler/requeue). Here every row
that an API server can play is played for kube-scheduler: the same plugin rejects the pods, and the
same ones are tried again. A row is mostly waiting, so several are played at a time, each on a
control plane where nothing else happens.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeAlias

import pytest

from stowplan.lab.controlplane import ControlPlane
from stowplan.lab.controlplane.api_access import ApiAccess, ApiError
from tests.controlplane_fixtures import require_binaries
from tests.e2e.requeue_world import Impossible, RealWorld
from tests.e2e.schedulers import kube_scheduler
from tests.e2e.test_requeue import CONFIG
from tests.unit.scheduler.requeue.matrix import Row, tried_in_vain
from tests.unit.scheduler.requeue.test_matrix import ROWS

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

#: The API server and the log of kube-scheduler.
Stage: TypeAlias = tuple[ApiAccess, Path]

#: What the API server refuses to create or to change.
IMPOSSIBLE = {
    "NodeResourcesFit-Pod-DELETE-a_pod_goes_that_had_only_the_promise_of_a_node",
    "NodeDeclaredFeatures-Pod-UPDATE-one_needs_it_no_more",
}
#: Their hints are compared with upstream's table (tests/unit/plugins/dra), which needs no UIDs.
_ELSEWHERE = "DynamicResources"
#: In the other rows the pods' record is made up, as no attempt ends that way.
HONEST = [row for row in ROWS if row.arrives is tried_in_vain and row.pair.plugin != _ELSEWHERE]
_AT_A_TIME = 3
#: How long a pod that was deleted while its volumes were being bound is still heard of.
_LAST_WORDS_S = 1.5


@pytest.fixture(scope="module")
def played(request: pytest.FixtureRequest) -> Iterator[Callable[[Row], set[str]]]:
    """Which pods come back in a row; all rows that were selected are begun at once."""
    require_binaries("etcd", "kube-apiserver", "kubectl", "kube-scheduler")
    selected: list[Any] = [
        item.callspec.params["row"]
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.module is request.module
    ]
    with ExitStack() as stack:

        def start(_: int) -> Stage:
            plane = stack.enter_context(ControlPlane())
            return plane.api, stack.enter_context(kube_scheduler(plane, CONFIG, "-v=5"))

        pool = stack.enter_context(ThreadPoolExecutor(_AT_A_TIME))
        stages: SimpleQueue[Stage] = SimpleQueue()
        for stage in pool.map(start, range(_AT_A_TIME)):
            stages.put(stage)
        outcomes = {str(row): pool.submit(_play, row, stages) for row in selected}
        yield lambda row: outcomes[str(row)].result()
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("row", [row for row in HONEST if str(row) not in IMPOSSIBLE], ids=str)
def test_kube_scheduler_agrees(row: Row, played: Callable[[Row], set[str]]) -> None:
    assert played(row) == row.back


@pytest.mark.parametrize("row", [row for row in HONEST if str(row) in IMPOSSIBLE], ids=str)
def test_the_rest_cannot_be_played(row: Row, played: Callable[[Row], set[str]]) -> None:
    with pytest.raises((ApiError, Impossible)):
        played(row)


def _play(row: Row, stages: SimpleQueue[Stage]) -> set[str]:
    stage = stages.get()
    world = RealWorld(*stage)
    try:
        for thing in row.cluster:
            world.add(thing)
        world.let_wait(row.waiting, row.pair.plugin)
        world.watch()
        row.change(world)
        return world.come_back(row.back, [pod.metadata.name for pod in row.waiting])
    finally:
        world.clean()
        if row.pair.plugin == "VolumeBinding":
            time.sleep(_LAST_WORDS_S)
        stages.put(stage)
