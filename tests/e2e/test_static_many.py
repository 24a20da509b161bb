"""Five hundred pinned pods at once: where they went, what that cost, and what a crash changes.

What is asked of the API server is counted in its audit log, not timed.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stowplan.audit import Request
from tests.e2e.static_stage import ACCOUNT, PATIENCE_S, StaticStage, daemon, static_stage, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

Json = dict[str, Any]
PODS, NODES = 500, 50
BINDING, EVENT = ("", "pods/binding", "create"), ("events.k8s.io", "events", "create")
FLAGS = ("--name=test", "--daemon")
CREATED, CUT_OFF = 201, 504
# To ask what is allowed, to list and to watch; a watch may end and be taken up again.
OTHER_REQUESTS = 30


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StaticStage]:
    with static_stage(tmp_path_factory.mktemp("static")) as running:
        for number in range(NODES):
            running.create_node(node_name(number))
        yield running


def node_name(number: int) -> str:
    return f"node-{number % NODES:02}"


def where(pods: Iterable[int]) -> dict[str, str]:
    """The node that each of these pods is to be pinned to: its neighbours go elsewhere."""
    return {f"web-{number}": node_name(number * 7) for number in pods}


def pin(stage: StaticStage, namespace: str, places: dict[str, str]) -> None:
    """One request a node."""
    labels: dict[str, dict[str, str | None]] = {}
    for pod, node in places.items():
        labels.setdefault(node, {})[f"rf.scheduler.test.{namespace}/{pod}"] = ""
    for node, added in labels.items():
        stage.label(node, added)


def stateful_set(replicas: int) -> Json:
    container = {"name": "web", "image": "web"}
    return {
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "podManagementPolicy": "Parallel",
            "serviceName": "web",
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {
                    "schedulerName": "test",
                    "terminationGracePeriodSeconds": 0,
                    "containers": [container],
                },
            },
        },
    }


def create_pods(stage: StaticStage, namespace: str, replicas: int) -> None:
    path = f"/apis/apps/v1/namespaces/{namespace}/statefulsets"
    stage.api.create(path, stateful_set(replicas))
    wait_for("the pods to be there", lambda: len(stage.pods(namespace)) == replicas)


def check_bound_once(stage: StaticStage, namespace: str, requests: Iterable[Request]) -> None:
    """No pod was bound by two requests, and none was ever meant for a node that is not its own."""
    pods = stage.pods(namespace)
    node_by_uid = {pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in pods.values()}
    tried = [each for each in requests if each.right == BINDING and each.namespace == namespace]
    assert {(each.uid, each.node) for each in tried} == set(node_by_uid.items())
    bound = Counter(each.uid for each in tried if each.code == CREATED)
    assert set(bound.values()) == {1}
    # Whose sender was killed meanwhile: done or not, the API server calls it a timeout.
    cut_off = {each.uid for each in tried if each.code != CREATED}
    assert {each.code for each in tried} <= {CREATED, CUT_OFF}
    assert set(node_by_uid) - set(bound) <= cut_off


def told(events: Json) -> int:
    """Of how many pods it was told that they were placed."""
    return len({e["regarding"].get("name") for e in events["items"] if e["reason"] == "Scheduled"})


def test_all_go_to_their_nodes_with_hardly_more_than_a_bind_each(
    stage: StaticStage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    namespace = "many"
    stage.create_namespace(namespace)
    early, late = where(range(0, PODS, 2)), where(range(1, PODS, 2))
    since = stage.trail.mark()
    env = stage.account(tmp_path / "account")
    with daemon(tmp_path / "log", env, *FLAGS, "-vv") as scheduler:
        pin(stage, namespace, early)
        create_pods(stage, namespace, PODS)
        wait_for("the first half", lambda: len(stage.placed(namespace)) == len(early))
        assert stage.placed(namespace) == early, "the others wait"
        pin(stage, namespace, late)
        wait_for("the second half", lambda: len(stage.placed(namespace)) == PODS)
        assert stage.placed(namespace) == early | late
        events = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
        wait_for("all to be told", lambda: told(stage.api.get(events)) == PODS)
        scheduler.stop()

    requests = stage.trail.requests(ACCOUNT, since)
    assert [each for each in requests if each.code not in (200, 201)] == []
    check_bound_once(stage, namespace, requests)
    counts = Counter(each.right for each in requests)
    others = {right: count for right, count in counts.items() if right not in (BINDING, EVENT)}
    spoken = ", ".join(f"{count} {verb} {name}" for (_, name, verb), count in others.items())
    with capsys.disabled():
        print(
            f"\nstatic placement, {PODS} pods on {NODES} nodes, half of them labelled late: "
            f"{len(requests) / PODS:.2f} API requests a pod "
            f"({counts[BINDING]} binds, {counts[EVENT]} events, {spoken})"
        )
    assert counts[BINDING] == PODS
    # Every pod is told of once when it is placed; who waits for a label, once before that.
    assert counts[EVENT] <= PODS + len(late)
    assert sum(others.values()) <= OTHER_REQUESTS


def test_killed_in_the_middle_it_places_nothing_twice_or_wrongly(
    stage: StaticStage, tmp_path: Path
) -> None:
    namespace, replicas, lives = "killed", 300, 3
    stage.create_namespace(namespace)
    create_pods(stage, namespace, replicas)
    since = stage.trail.mark()
    env = stage.account(tmp_path / "account")

    def is_at_work(born: int) -> bool:
        requests = stage.trail.requests(ACCOUNT, born)
        return any(each.right == BINDING and each.code == CREATED for each in requests)

    pinned: dict[str, str] = {}
    left_to_do = []
    for life in range(lives):
        # They are pinned while nobody looks: the process finds a hundred at once.
        fresh = where(range(life, replicas, lives))
        pin(stage, namespace, fresh)
        pinned |= fresh
        born = stage.trail.mark()
        with daemon(tmp_path / f"log-{life}", env, *FLAGS) as scheduler:
            # Not with `wait_for`, which would come too late: a few milliseconds matter.
            deadline = time.monotonic() + PATIENCE_S
            while not is_at_work(born):
                assert time.monotonic() < deadline, f"it places nothing: {scheduler.log}"
                time.sleep(0.002)
            scheduler.kill()
        placed = stage.placed(namespace)
        assert placed.items() <= pinned.items()
        left_to_do.append(len(pinned) - len(placed))
    assert any(left_to_do), "it was killed with work before it"

    with daemon(tmp_path / "log", env, *FLAGS) as scheduler:
        wait_for("all to be placed", lambda: len(stage.placed(namespace)) == replicas)
        scheduler.stop()
    assert stage.placed(namespace) == pinned
    check_bound_once(stage, namespace, stage.trail.requests(ACCOUNT, since))
