"""The pretend kubelet: pods and nodes move along by themselves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from stowplan.apiserver.kubelet import KubeletOptions
from tests.unit.apiserver.serving import NODES, PODS, Answer, Api, node, pod, serving

QUICK = KubeletOptions(start_delay_s=0.0, stop_delay_s=0.0)


@pytest.fixture
async def cluster() -> AsyncIterator[Api]:
    async with serving(QUICK) as api:
        await api.create(NODES, node())
        yield api


def has_phase(phase: str) -> Any:
    return lambda answer: answer.status == 200 and answer.body["status"].get("phase") == phase


def has_taints(*expected: str) -> Any:
    def holds(answer: Answer) -> bool:
        taints = answer.body["spec"].get("taints") or []
        return [taint["key"] for taint in taints] == list(expected)

    return holds


async def test_a_bound_pod_runs(cluster: Api) -> None:
    await cluster.create(PODS, pod("a", initContainers=[{"name": "i", "image": "x"}]))
    await cluster.bind("a", "n1")
    answer = await cluster.eventually(f"{PODS}/a", has_phase("Running"))
    status = answer.body["status"]
    assert status["startTime"]
    assert status["podIP"].startswith("10.")
    assert status["podIPs"] == [{"ip": status["podIP"]}]
    conditions = {c["type"]: c["status"] for c in status["conditions"]}
    assert conditions == dict.fromkeys(
        ("PodScheduled", "PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady"),
        "True",
    )
    (container,) = status["containerStatuses"]
    assert (container["name"], container["ready"]) == ("c", True)
    assert "running" in container["state"]
    (init,) = status["initContainerStatuses"]
    assert init["state"]["terminated"]["reason"] == "Completed"


async def test_pods_have_addresses_of_their_own(cluster: Api) -> None:
    for name in "abc":
        await cluster.create(PODS, pod(name))
        await cluster.bind(name, "n1")
    answers = [await cluster.eventually(f"{PODS}/{n}", has_phase("Running")) for n in "abc"]
    assert len({answer.body["status"]["podIP"] for answer in answers}) == 3


async def test_a_pod_with_a_duration_succeeds(cluster: Api) -> None:
    annotations = {"stowplan.io/run-seconds": "0.01"}
    await cluster.create(PODS, pod("a", {"annotations": annotations}))
    await cluster.bind("a", "n1")
    answer = await cluster.eventually(f"{PODS}/a", has_phase("Succeeded"))
    (container,) = answer.body["status"]["containerStatuses"]
    assert container["state"]["terminated"]["exitCode"] == 0


async def test_a_duration_that_is_no_number_is_ignored(cluster: Api) -> None:
    annotations = {"stowplan.io/run-seconds": "soon"}
    await cluster.create(PODS, pod("a", {"annotations": annotations}))
    await cluster.bind("a", "n1")
    await cluster.eventually(f"{PODS}/a", has_phase("Running"))


async def test_pods_that_are_not_restarted_may_have_a_common_duration() -> None:
    async with serving(KubeletOptions(start_delay_s=0, run_s=0.01)) as api:
        await api.create(NODES, node())
        for name, policy in (("a", "Never"), ("b", "Always")):
            await api.create(PODS, pod(name, restartPolicy=policy))
            await api.bind(name, "n1")
        await api.eventually(f"{PODS}/a", has_phase("Succeeded"))
        await api.eventually(f"{PODS}/b", has_phase("Running"))


async def test_a_deleted_pod_vanishes(cluster: Api) -> None:
    await cluster.create(PODS, pod("a"))
    await cluster.bind("a", "n1")
    await cluster.eventually(f"{PODS}/a", has_phase("Running"))
    async with cluster.watch(PODS) as watch:
        await watch.take(1)
        await cluster.request("DELETE", f"{PODS}/a")
        assert await watch.take(3) == [("MODIFIED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


async def test_a_pod_on_no_known_node_stays_pending_until_the_node_comes(cluster: Api) -> None:
    await cluster.create(PODS, pod("a"))
    await cluster.create(PODS, pod("b"))
    await cluster.bind("a", "n2")
    await cluster.bind("b", "n1")
    await cluster.eventually(f"{PODS}/b", has_phase("Running"))
    assert (await cluster.get(f"{PODS}/a"))["status"]["phase"] == "Pending"
    await cluster.create(NODES, node("n2"))
    await cluster.eventually(f"{PODS}/a", has_phase("Running"))


async def test_what_was_there_before_the_start_is_served_too() -> None:
    async with serving(QUICK) as api:
        await api.server.stop()
        api.server.create("", "v1", "nodes", node())
        api.server.create("", "v1", "pods", pod("a", nodeName="n1"), namespace="default")
        await api.server.start(port=api.server.port)
        await api.eventually(f"{PODS}/a", has_phase("Running"))


async def test_a_new_node_becomes_ready_and_loses_its_taint() -> None:
    async with serving(KubeletOptions(node_delay_s=0.2)) as api:
        created = await api.create(NODES, node())
        assert [taint["key"] for taint in created["spec"]["taints"]] == [
            "node.kubernetes.io/not-ready"
        ]
        answer = await api.eventually(f"{NODES}/n1", has_taints())
        conditions = {c["type"]: c["status"] for c in answer.body["status"]["conditions"]}
        assert conditions["Ready"] == "True"
        assert answer.body["status"]["nodeInfo"]["kubeletVersion"] == "v1.36.3"


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, {"cpu": "4", "memory": "16Gi", "ephemeral-storage": "100Gi", "pods": "110"}),
        ({"capacity": {"cpu": "2"}}, {"cpu": "2", "memory": "16Gi", "pods": "110"}),
        ({"allocatable": {"cpu": "2", "pods": "3"}}, {"cpu": "2", "pods": "3", "memory": "16Gi"}),
    ],
)
async def test_a_kubelet_reports_what_the_manifest_leaves_out(
    status: dict[str, Any], expected: dict[str, str]
) -> None:
    async with serving(QUICK) as api:
        await api.create(NODES, {"metadata": {"name": "bare"}, "status": status})
        answer = await api.eventually(f"{NODES}/bare", has_taints())
        for part in ("capacity", "allocatable"):
            assert expected.items() <= answer.body["status"][part].items()
        labels = answer.body["metadata"]["labels"]
        assert labels["kubernetes.io/hostname"] == "bare"
        assert labels["kubernetes.io/os"] == "linux"


async def test_taints_follow_conditions_and_cordon(cluster: Api) -> None:
    path = f"{NODES}/n1"
    await cluster.eventually(path, has_taints())
    mine = [{"key": "mine", "effect": "NoSchedule"}]
    await cluster.patch(path, {"spec": {"taints": mine, "unschedulable": True}})
    await cluster.eventually(path, has_taints("mine", "node.kubernetes.io/unschedulable"))
    await cluster.patch(path, {"spec": {"unschedulable": False}})
    await cluster.eventually(path, has_taints("mine"))
    for name, status, key in (
        ("Ready", "False", "not-ready"),
        ("Ready", "Unknown", "unreachable"),
        ("MemoryPressure", "True", "memory-pressure"),
    ):
        conditions = [{"type": name, "status": status}]
        await cluster.patch(f"{path}/status", {"status": {"conditions": conditions}})
        await cluster.eventually(path, has_taints("mine", f"node.kubernetes.io/{key}"))
    conditions = [{"type": "Ready", "status": "True"}]
    await cluster.patch(f"{path}/status", {"status": {"conditions": conditions}})
    await cluster.eventually(path, has_taints("mine"))


async def test_a_node_with_conditions_is_believed(cluster: Api) -> None:
    status = {"conditions": [{"type": "Ready", "status": "False"}]}
    await cluster.create(NODES, {"metadata": {"name": "n2"}, "status": status})
    await cluster.create(NODES, node("n3"))
    await cluster.eventually(f"{NODES}/n3", has_taints())
    seen = await cluster.get(f"{NODES}/n2")
    assert [taint["key"] for taint in seen["spec"]["taints"]] == ["node.kubernetes.io/not-ready"]
    assert [c["status"] for c in seen["status"]["conditions"]] == ["False"]


async def test_a_replaced_pod_of_the_same_name_is_not_mistaken(cluster: Api) -> None:
    await cluster.create(PODS, pod("a"))
    await cluster.bind("a", "n1")
    await cluster.request("DELETE", f"{PODS}/a?gracePeriodSeconds=0")
    await cluster.create(PODS, pod("a"))
    await cluster.create(PODS, pod("b"))
    await cluster.bind("b", "n1")
    await cluster.eventually(f"{PODS}/b", has_phase("Running"))
    assert (await cluster.get(f"{PODS}/a"))["status"]["phase"] == "Pending"
