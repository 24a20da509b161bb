"""Playing: every opcode on a cluster in memory, what the observer hears, and what can fail."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from stowplan.errors import ApiError, ConfigError, Conflict
from stowplan.workloads.model import Stage, Workload
from stowplan.workloads.play import WorkloadError, Write, play
from tests.unit.workloads.memory_cluster import MemoryCluster, Recorder

Read = Callable[..., Workload]


async def played(workload: Workload, cluster: MemoryCluster) -> Recorder:
    recorder = Recorder(cluster)
    async with cluster.running():
        await play(workload, cluster, observer=recorder)
    await asyncio.sleep(0)
    assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    return recorder


def created(cluster: MemoryCluster, plural: str) -> list[tuple[float, str]]:
    return [
        (at, write.name)
        for at, write in cluster.requests
        if write.verb == "create" and write.resource.plural == plural
    ]


async def test_operations_run_in_order_and_the_measured_pods_are_measured(read: Read) -> None:
    workload = read(
        """
        - {opcode: createNodes, count: 2}
        - {opcode: createPods, count: 3}
        - {opcode: createPods, count: 4, collectMetrics: true, podTemplatePath: pod.yaml}
        """
    )
    cluster = MemoryCluster()
    recorder = await played(workload, cluster)
    assert recorder.told == [
        "0 createNodes",
        "0 ended",
        "1 createPods",
        "1 ended",
        "2 createPods",
        "measuring namespace-2",
        "measured namespace-2",
        "2 ended",
    ]
    assert cluster.names("nodes") == ["node-0-00000", "node-0-00001"]
    assert cluster.names("pods", "namespace-1") == ["pod-00000", "pod-00001", "pod-00002"]
    assert len(cluster.names("pods", "namespace-2")) == 4
    # Everything before the fourth-last request was there before the measuring.
    assert recorder.requests_before_measuring == len(cluster.requests) - 4


async def test_an_operation_waits_for_its_own_pods(read: Read) -> None:
    workload = read(
        """
        - {opcode: createPods, count: 2, namespace: a}
        - {opcode: createPods, count: 2, namespace: a, podTemplatePath: pod.yaml}
        """
    )
    cluster = MemoryCluster()
    await played(workload, cluster)
    assert cluster.waits == [
        ("a", ("pod-00000", "pod-00001"), Stage.SCHEDULED),
        ("a", ("pod-00002", "pod-00003"), Stage.SCHEDULED),
    ]
    assert len([write for _, write in cluster.requests if write.name == "a"]) == 1


def web(pod: dict[str, Any]) -> bool:
    labels: dict[str, str] = pod["metadata"].get("labels", {})
    return labels.get("app") == "web"


async def test_a_barrier_waits_for_those_that_were_not_waited_for(read: Read) -> None:
    workload = read(
        """
        - {opcode: createPods, count: 1, namespace: a}
        - {opcode: createPods, count: 2, namespace: a, skipWaitToCompletion: true}
        - {opcode: createPods, count: 1, namespace: b, skipWaitToCompletion: true,
           podTemplatePath: pod.yaml}
        - {opcode: barrier, stageRequirement: Attempted}
        - {opcode: barrier, labelSelector: {app: web}, namespaces: [a], stageRequirement: Attempted}
        - {opcode: createNodes, count: 1}
        - {opcode: barrier}
        - {opcode: barrier}
        """
    )
    cluster = MemoryCluster()
    cluster.refuses = lambda pod: web(pod) and not cluster.names("nodes")
    await played(workload, cluster)
    two, one = ("pod-00001", "pod-00002"), ("pod-00000",)
    assert cluster.waits[1:] == [
        ("a", two, Stage.ATTEMPTED),
        ("b", one, Stage.ATTEMPTED),
        ("a", (), Stage.ATTEMPTED),
        ("a", two, Stage.SCHEDULED),
        ("b", one, Stage.SCHEDULED),
    ]


async def test_a_barrier_for_a_namespace_that_nobody_created_fails(read: Read) -> None:
    workload = read("- {opcode: createNodes, count: 1}\n- {opcode: barrier, namespaces: [x]}")
    with pytest.raises(WorkloadError) as failed:
        await played(workload, MemoryCluster())
    told = "Test/one, operation 1 (barrier): no operation has created the namespace x"
    assert str(failed.value) == told


async def test_namespaces_any_objects_and_volumes(read: Read) -> None:
    workload = read(
        """
        - {opcode: createNamespaces, prefix: team, count: 2, namespaceTemplatePath: namespace.yaml}
        - {opcode: createAny, templatePath: service.yaml, namespace: team-1, count: 2}
        - {opcode: createAny, templatePath: node.yaml}
        - {opcode: createPods, count: 2, namespace: team-0,
           persistentVolumeTemplatePath: volume.yaml,
           persistentVolumeClaimTemplatePath: claim.yaml}
        """
    )
    cluster = MemoryCluster()
    await played(workload, cluster)
    assert Counter(plural for plural, _, _ in cluster.objects) == {
        "namespaces": 2,
        "services": 2,
        "nodes": 1,
        "persistentvolumeclaims": 2,
        "persistentvolumes": 2,
        "pods": 2,
    }
    namespace = cluster.objects["namespaces", "", "team-0"]
    assert namespace["metadata"]["labels"] == {"team": "devops"}


async def test_updates_come_at_their_rate(read: Read) -> None:
    workload = read(
        """
        - {opcode: createPods, count: 3, namespace: a, podTemplatePath: numbered-pod.yaml}
        - {opcode: updateAny, count: 3, namespace: a, templatePath: numbered-pod.yaml,
           updatePerSecond: 10}
        - {opcode: updateAny, count: 2, namespace: a, templatePath: numbered-pod.yaml}
        """
    )
    cluster = MemoryCluster()
    await played(workload, cluster)
    updates = [
        (round(at, 3), write.name, write.subresource)
        for at, write in cluster.requests
        if write.verb == "update"
    ]
    assert updates == [
        (0.1, "pod-0", ""),
        (0.1, "pod-0", "status"),
        (0.2, "pod-1", ""),
        (0.2, "pod-1", "status"),
        (0.3, "pod-2", ""),
        (0.3, "pod-2", "status"),
        (0.3, "pod-0", ""),
        (0.3, "pod-0", "status"),
        (0.3, "pod-1", ""),
        (0.3, "pod-1", "status"),
    ]


async def test_pods_are_deleted_at_once_or_at_a_rate_or_in_the_background(read: Read) -> None:
    workload = read(
        """
        - {opcode: createPods, count: 4, namespace: a, podTemplatePath: numbered-pod.yaml}
        - {opcode: createPods, count: 3, namespace: b, podTemplatePath: numbered-pod.yaml}
        - {opcode: createPods, count: 3, namespace: c, podTemplatePath: numbered-pod.yaml}
        - {opcode: deletePods, namespace: a, labelSelector: {parity: "0"}, deletePodsPerSecond: 4}
        - {opcode: deletePods, namespace: b}
        - {opcode: deletePods, namespace: c, deletePodsPerSecond: 1, skipWaitToCompletion: true}
        - {opcode: createNodes, count: 1}
        - {opcode: sleep, duration: 1500ms}
        """
    )
    cluster = MemoryCluster()
    await played(workload, cluster)
    deleted = [(at, write.name) for at, write in cluster.requests if write.verb == "delete"]
    # The last ones are due after the end, so they are not deleted any more.
    assert deleted == [(0.25, "pod-0"), (0.5, "pod-2"), (1.5, "pod-0")]
    assert cluster.deleted_collections == [("b", {}, None)]
    assert cluster.names("pods", "a") == ["pod-1", "pod-3"]
    assert cluster.names("pods", "b") == []
    assert created(cluster, "nodes") == [(0.5, "node-6-00000")]
    assert cluster.now() == 2.0


async def test_churn_creates_up_to_a_number(read: Read) -> None:
    workload = read(
        """
        - {opcode: churn, mode: create, number: 2, templatePaths: [pod.yaml, node.yaml]}
        - {opcode: sleep, duration: 3s}
        """
    )
    cluster = MemoryCluster()
    await played(workload, cluster)
    assert created(cluster, "pods") == [(0.5, "pod-00000"), (1.0, "pod-00001")]
    assert created(cluster, "nodes") == [(0.5, "shelf-00000"), (1.0, "shelf-00001")]
    assert cluster.names("pods", "namespace-0") == ["pod-00000", "pod-00001"]


async def test_churn_without_a_number_goes_on_until_the_end(read: Read) -> None:
    workload = read(
        """
        - {opcode: churn, mode: create, intervalMilliseconds: 100, templatePaths: [pod.yaml]}
        - {opcode: sleep, duration: 1050ms}
        """
    )
    cluster = MemoryCluster()
    await played(workload, cluster)
    assert len(created(cluster, "pods")) == 10


async def test_churn_recreates(read: Read) -> None:
    workload = read(
        """
        - {opcode: churn, mode: recreate, number: 2, intervalMilliseconds: 1000,
           namespace: own, templatePaths: [pod.yaml, service.yaml]}
        - {opcode: sleep, duration: 5500ms}
        """
    )
    cluster = MemoryCluster()
    await played(workload, cluster)
    of_pods = [
        (at, write.verb, write.name)
        for at, write in cluster.requests
        if write.resource.plural == "pods"
    ]
    assert of_pods == [
        (1.0, "create", "pod-00000"),
        (2.0, "create", "pod-00001"),
        (3.0, "delete", "pod-00000"),
        (4.0, "delete", "pod-00001"),
        (5.0, "create", "pod-00002"),
    ]
    assert cluster.names("services", "own") == ["service-00002"]


async def test_churn_tries_again_what_could_not_be_created(read: Read) -> None:
    workload = read(
        """
        - {opcode: churn, mode: recreate, number: 1, intervalMilliseconds: 1000,
           templatePaths: [pod.yaml]}
        - {opcode: sleep, duration: 2500ms}
        """
    )
    cluster = MemoryCluster()

    def fails(write: Write) -> ApiError | None:
        return Conflict("no") if write.name == "pod-00000" else None

    cluster.fails = fails
    await played(workload, cluster)
    assert cluster.names("pods", "namespace-0") == ["pod-00001"]


async def test_a_steady_state_replaces_pods_until_the_time_is_up(read: Read) -> None:
    workload = read(
        """
        - {opcode: createPods, count: 2, namespace: a, steadyState: true, duration: 10s,
           collectMetrics: true}
        """
    )
    cluster = MemoryCluster()
    recorder = await played(workload, cluster)
    batches = len(cluster.deleted_collections)
    assert batches > 1
    assert all(each == ("a", {}, 0) for each in cluster.deleted_collections)
    made = [name for _, name in created(cluster, "pods")]
    assert len(made) == len(set(made)) >= 2 * batches
    assert recorder.told[1:3] == ["measuring a", "measured a"]
    assert cluster.now() == 10.0


async def test_a_steady_state_in_which_nothing_is_scheduled_fails(read: Read) -> None:
    workload = read("- {opcode: createPods, count: 2, steadyState: true, duration: 3s}")
    with pytest.raises(WorkloadError, match="no pod at all was scheduled within 3 s"):
        await played(workload, MemoryCluster(refuses=lambda pod: True))


async def test_measuring_between_start_and_stop(read: Read) -> None:
    workload = read(
        """
        - {opcode: startCollectingMetrics, name: some, namespaces: [a], labelSelector: {app: web}}
        - {opcode: createPods, count: 1, namespace: a}
        - {opcode: stopCollectingMetrics}
        """
    )
    recorder = await played(workload, MemoryCluster())
    assert [each for each in recorder.told if each.startswith("meas")] == [
        "measuring some",
        "measured some",
    ]
    assert recorder.told.index("1 ended") < recorder.told.index("measured some")


async def test_a_failure_says_which_operation_failed_and_nothing_is_left_running(
    read: Read,
) -> None:
    workload = read(
        """
        - {opcode: churn, mode: create, templatePaths: [node.yaml]}
        - {opcode: createPods, count: 2, namespace: a}
        """
    )
    cluster = MemoryCluster()

    def fails(write: Write) -> ApiError | None:
        return ApiError("quota exceeded") if write.name == "pod-00001" else None

    cluster.fails = fails
    with pytest.raises(WorkloadError) as failed:
        await played(workload, cluster)
    assert str(failed.value) == "Test/one, operation 1 (createPods): quota exceeded"
    assert isinstance(failed.value.__cause__, ApiError)


async def test_a_failure_in_the_background_ends_the_workload_at_once(read: Read) -> None:
    workload = read(
        """
        - {opcode: createPods, count: 2, namespace: a}
        - {opcode: deletePods, namespace: a, deletePodsPerSecond: 1, skipWaitToCompletion: true}
        - {opcode: sleep, duration: 1h}
        """
    )
    cluster = MemoryCluster()
    cluster.fails = lambda write: ApiError("forbidden") if write.verb == "delete" else None
    with pytest.raises(WorkloadError) as failed:
        await played(workload, cluster)
    assert str(failed.value) == "Test/one, operation 1 (deletePods): forbidden"
    assert cluster.now() == 1.0


async def test_a_template_that_fails_halfway_names_itself(read: Read, folder: Any) -> None:
    (folder / "shaky.yaml").write_text(
        "apiVersion: v1\nkind: Pod\n"
        "metadata: {name: 'p-{{ DivideInt 9 (SubtractInt .Index 1) }}'}\n"
    )
    workload = read("- {opcode: createPods, count: 3, podTemplatePath: shaky.yaml}")
    with pytest.raises(ConfigError, match=r"shaky\.yaml:3: number 1 of 3: division by zero"):
        await played(workload, MemoryCluster())


async def test_what_cannot_be_played_says_why(read: Read) -> None:
    workload = read("- {opcode: createNodes, count: 1}", params="{numNodeDeclaredFeatures: 1}")
    with pytest.raises(ConfigError, match="Test/one: needs features that upstream's test plants"):
        await played(workload, MemoryCluster())


async def test_a_driver_publishes_slices_for_nodes_that_match(read: Read) -> None:
    workload = read(
        """
        - {opcode: createNodes, count: 2}
        - {opcode: createResourceDriver, driverName: d, nodes: "node-0-*1", maxClaimsPerNode: 2}
        - {opcode: allocResourceClaims}
        """
    )
    cluster = MemoryCluster()
    await played(workload, cluster)
    slices = {key[2]: made for key, made in cluster.objects.items() if key[0] == "resourceslices"}
    assert list(slices) == ["node-0-00001"]
    spec = slices["node-0-00001"]["spec"]
    assert spec["nodeName"] == spec["pool"]["name"] == "node-0-00001"
    assert [device["name"] for device in spec["devices"]] == ["instance-0", "instance-1"]
    assert cluster.allocated == [""]


async def test_cancelling_leaves_nothing_running(read: Read) -> None:
    workload = read(
        """
        - {opcode: churn, mode: create, templatePaths: [pod.yaml]}
        - {opcode: createPods, count: 1, steadyState: true, duration: 1h}
        """
    )
    cluster = MemoryCluster(refuses=lambda pod: True)
    async with cluster.running():
        playing = asyncio.create_task(play(workload, cluster, observer=Recorder()))
        await cluster.sleep(2.0)
        playing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await playing
    assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    assert created(cluster, "pods")
