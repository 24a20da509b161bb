"""What a scenario can do to a cluster, on the virtual one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from stowplan.errors import ConfigError, NotFound, StowplanError
from stowplan.sim.scenarios import Cluster, EntryKind, Options, Outcome, run_scenario

Scenario = Callable[[Cluster], Awaitable[None]]


def _run(scenario: Scenario, options: Options | None = None) -> Outcome:
    outcome = run_scenario(scenario, options=options)
    assert outcome.problem == ""
    return outcome


def test_a_pod_is_placed_and_runs() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create_node("n1")
        await cluster.create_pod("web", cpu="500m", labels={"app": "web"})
        await cluster.settle()
        pod = await cluster.get("Pod", "web")
        assert pod["status"]["phase"] == "Running"
        assert await cluster.node_of("web") == "n1"
        assert [each["metadata"]["name"] for each in await cluster.list("pods")] == ["web"]
        assert await cluster.list("Pod", labels={"app": "other"}) == []

    outcome = _run(scenario)
    assert outcome.placements == {"default/web": "n1"}
    assert outcome.counts["bound"] == 1


def test_a_job_ends_when_its_time_is_over_and_does_not_keep_the_cluster_busy() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create_node("n1")
        await cluster.create_pod("job", run_s=3600)
        await cluster.settle()
        assert cluster.now() < 60
        await cluster.sleep(3700)
        assert (await cluster.get("Pod", "job"))["status"]["phase"] == "Succeeded"

    kinds = [entry.kind for entry in _run(scenario).entries]
    assert kinds[-1] is EntryKind.FINISHED


def test_a_full_node_is_freed_and_the_next_pod_takes_the_place() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create_node("n1", cpu=1)
        await cluster.create_pod("first", cpu=1)
        await cluster.create_pod("second", cpu=1)
        await cluster.settle()
        assert await cluster.node_of("second") == ""
        await cluster.delete("Pod", "first")
        await cluster.settle()
        assert await cluster.node_of("second") == "n1"
        await cluster.delete("Pod", "first")  # gone already, and that is no mistake

    entries = _run(scenario).entries
    told = [(entry.kind.value, entry.subject) for entry in entries]
    assert ("unschedulable", "pod default/second") in told
    assert ("deleted", "pod default/first") in told


def test_more_important_pods_drive_others_out() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create(
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": "high"},
                "value": 1000,
            }
        )
        await cluster.create_node("n1", cpu=1)
        await cluster.create_pod("low", cpu=1)
        await cluster.settle()
        await cluster.create_pod("vip", cpu=1, priorityClassName="high")
        await cluster.settle()
        assert await cluster.node_of("vip") == "n1"
        with pytest.raises(NotFound):
            await cluster.get("Pod", "low")

    outcome = _run(scenario)
    preempted = [entry for entry in outcome.entries if entry.kind is EntryKind.PREEMPTED]
    assert [entry.subject for entry in preempted] == ["pod default/low"]
    assert preempted[0].details["preemptor"] == "default/vip"


def test_bad_days_of_nodes() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create_node("n1")
        await cluster.cordon("n1")
        await cluster.create_pod("web")
        await cluster.settle()
        assert await cluster.node_of("web") == ""
        await cluster.uncordon("n1")
        await cluster.settle()
        assert await cluster.node_of("web") == "n1"
        await cluster.fail("n1")
        await cluster.create_pod("after")
        await cluster.settle()
        assert [pod["metadata"]["name"] for pod in await cluster.list("Pod")] == ["after"]
        assert await cluster.node_of("after") == ""
        await cluster.recover("n1")
        await cluster.settle()
        assert await cluster.node_of("after") == "n1"
        await cluster.drain("n1")
        await cluster.settle()
        assert await cluster.list("Pod") == []
        node = await cluster.get("Node", "n1")
        assert node["spec"]["unschedulable"]

    _run(scenario)


def test_namespaces_are_made_as_they_are_named() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create_node("n1")
        await cluster.create_pod("web", namespace="shop")
        await cluster.settle()

    assert _run(scenario).placements == {"shop/web": "n1"}


def test_a_status_is_written_where_the_server_does_not_take_it_with_the_object() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create(
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": "budget"},
                "spec": {"maxUnavailable": 1, "selector": {}},
                "status": {"disruptionsAllowed": 1},
            }
        )
        budget = await cluster.get("PodDisruptionBudget", "budget")
        assert budget["status"]["disruptionsAllowed"] == 1

    _run(scenario)


def test_waiting_says_what_for_when_it_was_in_vain() -> None:
    async def scenario(cluster: Cluster) -> None:
        with pytest.raises(StowplanError, match="timed out after 5 s waiting for: a miracle"):
            await cluster.wait_until("a miracle", lambda: False, timeout_s=5)

        async def is_late() -> bool:
            return cluster.now() > 20

        await cluster.wait_until("the evening", is_late)

    _run(scenario)


def test_waiting_for_an_object_that_is_not_there_yet() -> None:
    async def scenario(cluster: Cluster) -> None:
        async def is_there() -> bool:
            return bool(await cluster.get("Node", "n9"))

        with pytest.raises(StowplanError, match=r"waiting for: a node \(.*n9.* not found"):
            await cluster.wait_until("a node", is_there, timeout_s=5)

        async def create_later() -> None:
            await cluster.sleep(3)
            await cluster.create_node("n9")

        creating = asyncio.create_task(create_later())
        await cluster.wait_until("a node", is_there, timeout_s=60)
        await creating

    _run(scenario)


def test_what_is_not_known_is_named() -> None:
    async def scenario(cluster: Cluster) -> None:
        with pytest.raises(ConfigError, match="kind Spaceship is not known; known: "):
            await cluster.get("Spaceship", "one")
        with pytest.raises(ConfigError, match="'v7' and kind 'Pod', which is not known"):
            await cluster.create({"apiVersion": "v7", "kind": "Pod", "metadata": {}})

    _run(scenario)


def test_somebody_of_the_scenarios_own_may_schedule() -> None:
    async def scenario(cluster: Cluster) -> None:
        async def bind_everything() -> None:
            while True:
                for pod in await cluster.list("Pod"):
                    if not pod["spec"].get("nodeName"):
                        metadata = pod["metadata"]
                        await cluster.client.bind(
                            metadata["namespace"], metadata["name"], metadata["uid"], "n1"
                        )
                await cluster.sleep(1)

        await cluster.create_node("n1")
        await cluster.create_pod("web")
        await cluster.settle()
        assert await cluster.node_of("web") == ""
        mine = cluster.start(bind_everything(), name="mine")
        await cluster.sleep(2)
        assert await cluster.node_of("web") == "n1"
        assert not mine.done()

    outcome = _run(scenario, Options(with_scheduler=False))
    assert outcome.counts == {"created": 1, "bound": 1}


def test_a_companion_that_breaks_fails_the_scenario() -> None:
    async def scenario(cluster: Cluster) -> None:
        async def break_down() -> None:
            raise LookupError("no map")

        mine = cluster.start(break_down())
        await cluster.sleep(10)
        await mine

    outcome = run_scenario(scenario)
    assert "LookupError: no map" in outcome.problem
    assert not outcome.is_ok
