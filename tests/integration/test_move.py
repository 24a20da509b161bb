"""`stowplan move` on the embedded API server: what it asks, does, refuses and follows."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stowplan.api.client import ApiClient
from stowplan.api.kubeconfig import load_cluster_config
from stowplan.api.objects import Pod
from stowplan.api.resources import PODS as POD_RESOURCE
from stowplan.apiserver.faults import Fault
from stowplan.errors import StowplanError
from stowplan.plugins.static_placement.labels import PinLabels
from stowplan.static.moving import Mover, MoveRefused, plan_move
from stowplan.static.pinning import read_nodes
from stowplan.static.pins import named_node
from tests.integration.pin_stage import (
    ARRIVED,
    LABEL,
    PLAN,
    PODS,
    STATEFUL_SET,
    PinStage,
    Player,
    is_untouched,
    move_stage,
)
from tests.waiting import wait_for

DONE = """\
default/web-0 pinned to worker-2 (label rf.scheduler.test.default/web-0)
default/web-0 no longer pinned to worker-1 (label rf.scheduler.test.default/web-0)
default/web-0 evicted
"""
PATIENCE_S = 60.0


@pytest.fixture
def stage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[PinStage]:
    """web-0 runs on worker-1, where its pin is."""
    with move_stage(tmp_path, capsys, monkeypatch) as made:
        yield made


def test_a_move(stage: PinStage) -> None:
    with Player(stage):
        code, out, err = stage.run("move", "web-0", "worker-2", "--yes")
    assert (code, err) == (0, "")
    begin, end = PLAN + DONE, ARRIVED
    assert out.startswith(begin)
    assert out.endswith(end)
    between = out[len(begin) : -len(end)].splitlines()
    # What was seen of it depends on when it was looked.
    assert set(between) <= {
        "shutting down on worker-1",
        "gone, waiting for StatefulSet web to recreate it",
        "waiting for a node",
    }
    assert stage.node_of("web-0") == "worker-2"
    assert stage.pins("worker-1") == {}
    assert stage.run("move", "web-0", "worker-2") == (
        0,
        "default/web-0 is already on worker-2, and pinned there: nothing to do\n",
        "",
    )


def test_without_anybody_to_ask_nothing_happens(stage: PinStage) -> None:
    code, out, err = stage.run("move", "web-0", "worker-2")
    assert (code, out) == (1, PLAN)
    assert err == "Error: nothing was changed: cannot ask without a terminal; add --yes\n"
    assert is_untouched(stage)


def test_it_need_not_be_followed(stage: PinStage) -> None:
    assert stage.run("move", "web-0", "worker-2", "-y", "--no-wait") == (0, PLAN + DONE, "")
    assert stage.pins("worker-2") == {LABEL: ""}


def test_a_pod_that_does_not_come_back_in_time(stage: PinStage) -> None:
    code, out, err = stage.run("move", "web-0", "worker-2", "-y", "--timeout", "3")
    assert code == 124
    assert out.startswith(PLAN + DONE)
    assert out.endswith("gone, waiting for StatefulSet web to recreate it\n")
    assert err == (
        "Error: pod default/web-0 is not on worker-2 in time: gone, waiting for StatefulSet web to "
        "recreate it. Its pin stays; `kubectl describe pod web-0 -n default` may say more\n"
    )


def test_a_pod_that_something_else_places(stage: PinStage) -> None:
    with Player(stage, binds_to="worker-1"):
        code, _, err = stage.run("move", "web-0", "worker-2", "-y")
    assert code == 1
    assert err == (
        "Error: default/web-0 went to worker-1, not to worker-2: it was not placed by its pin\n"
    )


def test_a_pod_that_is_there_needs_only_its_pin(stage: PinStage) -> None:
    stage.label("worker-2", LABEL)
    uid = stage.pod("web-0")["metadata"]["uid"]
    code, out, err = stage.run("move", "web-0", "worker-1", "--yes")
    assert (code, err) == (0, "")
    assert "note    it is already on that node: only its pins change\n" in out
    assert stage.pins("worker-2") == {}
    assert stage.pod("web-0")["metadata"]["uid"] == uid


def test_a_pod_that_waits_is_only_pinned_even_without_a_controller(stage: PinStage) -> None:
    stage.create_pod("lone")

    def bind() -> None:
        stage.api.bind("default", "lone", "worker-2")

    with when(lambda: "rf.scheduler.test.default/lone" in stage.pins("worker-2"), bind):
        code, out, err = stage.run("move", "lone", "worker-2", "--yes")
    assert (code, err) == (0, "")
    assert "note    it has no node yet: only its pins change\n" in out
    assert out.endswith("default/lone is on worker-2 now\n")


@contextmanager
def when(is_so: Callable[[], bool], act: Callable[[], None]) -> Iterator[None]:
    """Do something from beside, as soon as it is so."""

    def watch() -> None:
        wait_for("the moment to act", is_so)
        act()

    beside = threading.Thread(target=watch, daemon=True)
    beside.start()
    yield
    beside.join(PATIENCE_S)


@pytest.mark.parametrize(
    ("owner", "scheduler", "argv", "reason"),
    [
        (None, "test", (), "has no controller: deleted, nothing would create it again"),
        (
            {**STATEFUL_SET, "kind": "ReplicaSet", "name": "web-5d4"},
            "test",
            (),
            "belongs to ReplicaSet web-5d4, whose pods get a new name each time",
        ),
        (STATEFUL_SET, "test", ("--name", "other"), "uses scheduler test, which reads no pins of"),
        (STATEFUL_SET, "default-scheduler", (), "uses the cluster's own scheduler"),
    ],
)
def test_pods_that_are_refused(
    stage: PinStage,
    owner: dict[str, object] | None,
    scheduler: str,
    argv: tuple[str, ...],
    reason: str,
) -> None:
    stage.create_pod("x", "worker-1", owner=owner, scheduler=scheduler)
    code, out, err = stage.run("move", "x", "worker-2", "--yes", *argv)
    assert (code, out) == (1, "")
    assert reason in err
    assert stage.pins("worker-2") == {}
    assert "deletionTimestamp" not in stage.pod("x")["metadata"]


@pytest.mark.parametrize(
    ("argv", "code", "complaint"),
    [
        (("nobody", "worker-2"), 1, "there is no pod default/nobody to move; to pin a pod before"),
        (("nobody", "worker-2"), 1, "stowplan pin default/nobody worker-2 --name SCHEDULER"),
        (("nobody", "worker-2", "--name", "x"), 1, "pin default/nobody worker-2 --name x"),
        (("web-0", "worker-9"), 1, "there is no node 'worker-9'; did you mean"),
        (("web-0", "worker-2", "--grace-period", "0"), 2, "add --force"),
        (("web-0", "worker-2", "--grace-period", "-1"), 2, "Invalid value for '--grace-period'"),
        (("web-0", "worker-2", "--grace-period", "9" * 30), 2, "'--grace-period'"),
        (("web-0", "worker-2", "--timeout", "-1s"), 2, "--timeout must not be negative"),
        (("web-0", "worker-2", "--timeout", "soon"), 2, "Invalid value for '--timeout'"),
        (("web-0",), 2, "Missing argument 'NODE'"),
        (("web 0", "worker-2"), 2, "'web 0' cannot be the name of a pod"),
    ],
)
def test_mistakes(stage: PinStage, argv: tuple[str, ...], code: int, complaint: str) -> None:
    found, out, err = stage.run("move", *argv, "--yes")
    assert (found, out) == (code, "")
    assert complaint in err
    assert is_untouched(stage)


# Disruption budgets


def test_a_budget_that_forbids_it_is_told_before_anything_is_changed(stage: PinStage) -> None:
    stage.set_budget(allowed=0)
    code, out, err = stage.run("move", "web-0", "worker-2", "--yes")
    assert code == 1
    assert out == PLAN + "budget  web allows no disruption now (3 healthy, 3 needed)\n"
    assert err.splitlines() == [
        "Error: the API server refused to evict pod default/web-0: Cannot evict pod as it "
        "would violate the pod's disruption budget.",
        "Error: Try again later, or delete it anyway with --force",
    ]
    assert is_untouched(stage)


def test_force_asks_no_budget(stage: PinStage) -> None:
    stage.set_budget(allowed=0)
    with Player(stage):
        code, out, err = stage.run("move", "web-0", "worker-2", "-y", "--force")
    assert (code, err) == (0, "")
    assert "delete  default/web-0, with 1 s to shut down\n" in out
    assert (
        "budget  web allows no disruption now (3 healthy, 3 needed), ignored because of --force"
        in out
    )
    assert "default/web-0 deleted\n" in out
    assert out.endswith(ARRIVED)


def test_a_budget_with_room_is_used(stage: PinStage) -> None:
    stage.set_budget(allowed=1)
    with Player(stage):
        code, out, err = stage.run("move", "web-0", "worker-2", "-y", "--grace-period", "0",
                                   "--force")  # fmt: skip
        assert (code, err) == (0, "")
        assert "with 0 s to shut down" in out
        code, out, err = stage.run("move", "web-0", "worker-1", "-y")
    assert (code, err) == (0, "")
    assert "budget  web allows a disruption now (3 healthy, 2 needed)\n" in out
    assert out.endswith("default/web-0 is on worker-1 now (was on worker-2)\n")


# What may happen between the steps


def moving(stage: PinStage, act: Callable[[Mover, ApiClient], Awaitable[None]]) -> None:
    """Plan a move of web-0 to worker-2, and do with it what a test wants to."""

    async def run() -> None:
        cluster = load_cluster_config(kubeconfig=str(stage.kubeconfig))
        async with ApiClient(cluster) as client:
            pod: Pod = await client.get(POD_RESOURCE, "web-0", namespace="default")
            nodes = await read_nodes(client)
            target = named_node(nodes, "worker-2")
            plan = plan_move(pod, PinLabels("test"), target, nodes, is_name_given=False)
            await act(Mover(client, plan, poll_s=0.05), client)

    asyncio.run(run())


def test_a_budget_that_is_used_up_meanwhile(stage: PinStage) -> None:
    async def act(mover: Mover, client: ApiClient) -> None:
        await mover.check()
        await mover.pin()
        stage.set_budget(allowed=0)
        with pytest.raises(StowplanError) as failed:
            await mover.send_away()
        first, second = str(failed.value).splitlines()
        assert "disruption budget" in first
        assert second == (
            "Pod default/web-0 still runs on worker-1, but is pinned to worker-2 already: run the "
            "same command again, or undo the pin with stowplan pin default/web-0 worker-1 "
            "--only"
        )

    moving(stage, act)


def test_only_the_pod_that_was_looked_at_is_sent_away(stage: PinStage) -> None:
    async def act(mover: Mover, client: ApiClient) -> None:
        stage.api.delete(f"{PODS}/web-0", grace_seconds=0)
        wait_for("web-0 to go", lambda: not stage.api.answers(f"{PODS}/web-0"))
        stage.create_pod("web-0", owner=STATEFUL_SET)
        with pytest.raises(MoveRefused, match="has just changed"):
            await mover.check()
        await mover.send_away()
        assert "deletionTimestamp" not in stage.pod("web-0")["metadata"]

    moving(stage, act)


def test_an_eviction_whose_answer_is_lost_has_happened(stage: PinStage) -> None:
    fault = Fault(path="/eviction", action="lose-answer")
    stage.server.call(lambda server: server.faults.append(fault))

    async def act(mover: Mover, client: ApiClient) -> None:
        await mover.send_away()

    moving(stage, act)
    assert fault.hits == 1
    wait_for("web-0 to go", lambda: not stage.api.answers(f"{PODS}/web-0"))


def test_a_busy_server_is_asked_again(stage: PinStage) -> None:
    fault = Fault(path="/eviction", status=429, retry_after_s=0, times=2)
    stage.server.call(lambda server: server.faults.append(fault))

    async def act(mover: Mover, client: ApiClient) -> None:
        await mover.check()

    moving(stage, act)
    assert fault.hits == 2


def test_following_outlives_a_server_that_does_not_answer(stage: PinStage) -> None:
    said: list[str] = []
    fault = Fault(method="GET", path="/pods/web-0", action="drop", times=3)

    async def act(mover: Mover, client: ApiClient) -> None:
        await mover.pin()
        await mover.send_away()
        stage.server.call(lambda server: server.faults.append(fault))
        pod = await mover.follow(said.append, PATIENCE_S)
        assert pod.spec.node_name == "worker-2"

    def come_back() -> None:
        with Player(stage):
            wait_for("web-0", lambda: stage.api.answers(f"{PODS}/web-0") and stage.node_of("web-0"))

    with when(lambda: fault.hits == 3, come_back):
        moving(stage, act)
    assert said[0].startswith("cannot follow the move: API server")
    assert "gone, waiting for StatefulSet web to recreate it" in said
