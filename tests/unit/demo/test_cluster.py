"""The pretend cluster: its shape, and objects that the API takes."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from stowplan.api.quantity import milli_value
from stowplan.apiserver.kubelet import RUN_SECONDS
from stowplan.demo.cluster import (
    CRITICAL,
    GPU,
    STAYS_PENDING,
    ZONE_LABEL,
    NodePlan,
    PodPlan,
    plan_nodes,
    priority_class,
)
from tests.unit.demo.rehearsal import node_from, pod_from


def nodes_of(seed: int, count: int = 12) -> tuple[NodePlan, ...]:
    return plan_nodes(Random(seed), count)


def test_twelve_nodes_in_three_zones() -> None:
    nodes = nodes_of(1)
    assert sorted(node.name for node in nodes) == [
        f"node-{zone}{number}" for zone in "abc" for number in (1, 2, 3, 4)
    ]
    assert Counter(node.zone for node in nodes) == {"zone-a": 4, "zone-b": 4, "zone-c": 4}
    assert all(node.name.startswith(node.zone.replace("zone", "node")) for node in nodes)


@pytest.mark.parametrize("seed", range(20))
def test_each_seed_has_a_pool_a_gpu_and_a_cordoned_node(seed: int) -> None:
    nodes = nodes_of(seed)
    pool = [node for node in nodes if node.is_in_pool]
    assert [node.name for node in pool] == ["node-a4", "node-b4", "node-c4"]
    (cordoned,) = (node for node in nodes if node.is_cordoned)
    (with_gpu,) = (node for node in nodes if node.gpus)
    assert cordoned not in pool
    assert with_gpu in pool


def test_seeds_differ_in_who_is_who_but_not_in_capacity() -> None:
    clusters = [nodes_of(seed) for seed in range(20)]
    assert len(set(clusters)) > 15
    assert {sum(node.cores for node in nodes) for nodes in clusters} == {72}
    assert len({sum(node.memory_gi for node in nodes) for nodes in clusters}) == 1
    assert len({(node.cores, node.memory_gi) for node in clusters[0]}) == 3


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 11, 13, 100])
def test_any_number_of_nodes(count: int) -> None:
    nodes = nodes_of(3, count)
    assert len({node.name for node in nodes}) == count
    assert sum(node.is_cordoned for node in nodes) == (1 if count > 3 else 0)
    assert any(not node.is_in_pool and not node.is_cordoned for node in nodes)


def test_a_node_as_the_api_reads_it() -> None:
    plan = NodePlan("node-a4", "zone-a", 8, 16, gpus=2, is_in_pool=True, is_cordoned=True)
    node = node_from(plan.manifest())
    assert node.metadata.labels is not None
    assert node.metadata.labels[ZONE_LABEL] == "zone-a"
    assert node.status.allocatable == {"cpu": "8", "memory": "16Gi", "pods": "32", GPU: "2"}
    assert node.spec.unschedulable
    assert node.spec.taints is not None
    (taint,) = node.spec.taints
    assert (taint.key, taint.value, taint.effect) == ("dedicated", "batch", "NoSchedule")


def test_a_plain_node_has_neither_taints_nor_extras() -> None:
    node = node_from(NodePlan("node-a1", "zone-a", 4, 8).manifest())
    assert not node.spec.unschedulable
    assert not node.spec.taints
    assert GPU not in (node.status.allocatable or {})


def test_a_job_as_the_api_reads_it() -> None:
    plan = PodPlan("trainer-1", "trainer", 1500, 512, gpus=1, run_s=6.0, tolerates_pool=True)
    pod = pod_from(plan)
    assert pod.key == plan.key == "default/trainer-1"
    assert pod.spec.containers is not None
    resources = pod.spec.containers[0].resources
    assert resources is not None
    assert resources.requests is not None
    assert milli_value(resources.requests["cpu"]) == 1500
    assert resources.limits == {GPU: "1"}
    assert pod.spec.tolerations is not None
    assert pod.spec.tolerations[0].operator == "Equal"
    assert pod.metadata.annotations == {RUN_SECONDS: "6.000"}
    assert plan.manifest()["spec"]["restartPolicy"] == "Never"


def test_jobs_run_faster_when_the_demo_does() -> None:
    manifest = PodPlan("report-1", "report", 100, 64, run_s=6.0).manifest(speed=4.0)
    assert manifest["metadata"]["annotations"] == {RUN_SECONDS: "1.500"}


def test_gates_priorities_and_expectations() -> None:
    gated = PodPlan("audit-1", "audit", 100, 64, gate="example.com/g").manifest()
    assert gated["spec"]["schedulingGates"] == [{"name": "example.com/g"}]
    critical = PodPlan("payments-1", "payments", 100, 64, is_critical=True).manifest()
    assert critical["spec"]["priorityClassName"] == CRITICAL == priority_class()["metadata"]["name"]
    huge = PodPlan("warehouse-1", "warehouse", 100, 64, stays_pending="is too big").manifest()
    assert huge["metadata"]["annotations"] == {STAYS_PENDING: "is too big"}
