"""The stage of the framework's lessons: what it sees, what it plants, and what it says is gone."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest

from stowplan import Node, Pod
from stowplan.api.objects import ObjectMeta
from stowplan.errors import ApiUnavailable
from stowplan.learn.checking import Mistake, play
from stowplan.learn.course import Course
from stowplan.learn.stage import PlantedCounter, WatchedClient, needed
from stowplan.learn.work_check import check_work
from stowplan.sim.scenarios import Cluster


def test_bindings_are_remembered_and_fail_as_often_as_they_are_told() -> None:
    clients: list[WatchedClient] = []

    async def scenario(cluster: Cluster) -> None:
        client = WatchedClient(cluster)
        clients.append(client)
        client.failures["flaky"] = 2
        await cluster.create_node("node1")
        await cluster.create_pod("flaky")
        uid = (await cluster.get("Pod", "flaky"))["metadata"]["uid"]
        for _ in range(2):
            with pytest.raises(ApiUnavailable):
                await client.bind(cluster.namespace, "flaky", uid, "node1")
            assert not await cluster.node_of("flaky")
            await cluster.sleep(1)
        await client.bind(cluster.namespace, "flaky", uid, "node1")
        assert await cluster.node_of("flaky") == "node1"

    play(scenario, "virtual")
    times = clients[0].times("flaky")
    assert [round(each - times[0], 3) for each in times] == [0, 1, 2]
    assert clients[0].times("other") == []


def test_attempts_are_counted_and_come_to_an_end() -> None:
    counter = PlantedCounter("node1")
    pod = Pod(metadata=ObjectMeta(name="pod1"))
    nodes = [Node(metadata=ObjectMeta(name=f"node{number}")) for number in range(3)]
    for _ in range(counter.most):
        assert all(counter.filter(pod, node).is_success for node in nodes)
    assert counter.attempts == {"pod1": counter.most}
    with pytest.raises(asyncio.CancelledError):
        counter.filter(pod, nodes[1])


def test_what_is_gone_is_named() -> None:
    assert needed(SimpleNamespace(queue=1), "queue") == 1
    with pytest.raises(Mistake) as caught:
        needed(SimpleNamespace(), "queue")
    assert caught.value.fields == {"name": "SimpleNamespace.queue"}


@pytest.mark.parametrize(
    ("lesson", "old", "new", "told"),
    [
        ("10", "MiniScheduler", "Scheduler", "MiniScheduler"),
        ("11", "self.filters", "self.filter_plugins", "self.filters"),
        ("12", "self.scorers", "self.score_plugins", "self.scorers"),
        ("13", "pre_scorers", "prescorers", "self.pre_scorers"),
        ("14", "self.waiting", "self.held", "MiniScheduler.waiting"),
        ("15", "self.unschedulable", "self.refused", "SchedulingQueue.unschedulable"),
        ("16", "def move(", "def bring_back(", "SchedulingQueue.move"),
    ],
)
def test_a_part_with_another_name_is_told_and_no_defect(
    tmp_path: Path, lesson: str, old: str, new: str, told: str
) -> None:
    found = Course().find(lesson)
    file = tmp_path / found.file
    text = found.solution.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")
    verdict = check_work(found, file, on="virtual", language="en")
    assert f"there is no {told} in this file" in "\n".join(verdict.mistakes)
