"""What an update of a pod or a node amounts to."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from stowplan.api.objects import (
    Condition,
    Container,
    Named,
    Node,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodResourceClaimStatus,
    PodSpec,
    PodStatus,
    ResourceRequirements,
    Taint,
    Toleration,
)
from stowplan.queue.changes import node_changes, pod_changes
from stowplan.queue.events import ClusterEvent


def pod(cpu: str = "1", memory: str | None = "1Gi", node_name: str = "", **fields: object) -> Pod:
    requests: dict[str, str | int | float] = {"cpu": cpu}
    if memory is not None:
        requests["memory"] = memory
    container = Container(resources=ResourceRequirements(requests=requests))
    spec = PodSpec(containers=(container,), node_name=node_name)
    known = {name: value for name, value in fields.items() if name in PodSpec.__struct_fields__}
    spec = msgspec.structs.replace(spec, **known)
    labels = fields.get("labels")
    return Pod(
        metadata=msgspec.convert({"name": "a", "labels": labels}, ObjectMeta),
        spec=spec,
        status=PodStatus(
            resource_claim_statuses=(PodResourceClaimStatus(name="gpu"),)
            if fields.get("claim")
            else None
        ),
    )


def requests_of(pod: Pod) -> Mapping[str, int]:
    """Enough of a parser for the amounts used here."""
    resources = (pod.spec.containers or ())[0].resources
    assert resources is not None
    units = {"500m": 500, "1": 1000, "1000m": 1000, "2": 2000, "1Gi": 1024}
    return {name: units[str(amount)] for name, amount in (resources.requests or {}).items()}


def labels(changes: tuple[ClusterEvent, ...]) -> list[str]:
    return [change.label for change in changes]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (pod(), pod(labels={"a": "b"}), ["UnschedulablePodUpdatePodLabel"]),
        (pod(cpu="1"), pod(cpu="500m"), ["UnschedulablePodUpdatePodScaleDown"]),
        (pod(), pod(memory=None), ["UnschedulablePodUpdatePodScaleDown"]),
        (pod(cpu="1"), pod(cpu="2"), ["UnschedulablePodUpdate"]),
        (pod(cpu="1"), pod(cpu="1000m"), ["UnschedulablePodUpdate"]),
        (
            pod(scheduling_gates=(Named(name="g"),)),
            pod(),
            ["UnschedulablePodUpdatePodSchedulingGatesEliminated"],
        ),
        (
            pod(scheduling_gates=(Named(name="g"), Named(name="h"))),
            pod(scheduling_gates=(Named(name="g"),)),
            ["UnschedulablePodUpdate"],
        ),
        (
            pod(),
            pod(tolerations=(Toleration(key="a"),)),
            ["UnschedulablePodUpdatePodToleration"],
        ),
        (pod(), pod(claim=True), ["UnschedulablePodUpdatePodGeneratedResourceClaim"]),
        (pod(), pod(), ["UnschedulablePodUpdate"]),
        (pod(labels={}), pod(), ["UnschedulablePodUpdate"]),
        (
            pod(cpu="2", node_name="n"),
            pod(cpu="1", node_name="n", labels={"a": "b"}),
            ["AssignedPodUpdatePodLabel", "AssignedPodUpdatePodScaleDown"],
        ),
    ],
)
def test_pod_changes(old: Pod, new: Pod, expected: list[str]) -> None:
    assert labels(pod_changes(old, new, requests_of)) == expected


def test_without_a_parser_any_change_of_resources_may_be_a_scale_down() -> None:
    assert labels(pod_changes(pod(cpu="1"), pod(cpu="2"))) == ["UnschedulablePodUpdatePodScaleDown"]
    assert labels(pod_changes(pod(), pod())) == ["UnschedulablePodUpdate"]


def ready(status: str, heartbeat: str) -> tuple[Condition, ...]:
    return (Condition(type="Ready", status=status, last_probe_time=heartbeat),)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (Node(), Node(), []),
        (Node(spec=NodeSpec(unschedulable=True)), Node(), ["NodeUpdateNodeTaint"]),
        (Node(), Node(spec=NodeSpec(unschedulable=True)), []),
        (
            Node(),
            Node(status=NodeStatus(allocatable={"cpu": "4"})),
            ["NodeUpdateNodeAllocatable"],
        ),
        (Node(), Node(status=NodeStatus(capacity={"cpu": "4"})), []),
        (Node(), Node(metadata=ObjectMeta(labels={"a": "b"})), ["NodeUpdateNodeLabel"]),
        (Node(), Node(spec=NodeSpec(taints=(Taint(key="a"),))), ["NodeUpdateNodeTaint"]),
        (Node(spec=NodeSpec(taints=())), Node(), []),
        (
            Node(status=NodeStatus(conditions=ready("True", "1"))),
            Node(status=NodeStatus(conditions=ready("False", "1"))),
            ["NodeUpdateNodeCondition"],
        ),
        (
            Node(status=NodeStatus(conditions=ready("True", "1"))),
            Node(status=NodeStatus(conditions=ready("True", "2"))),
            [],
        ),
        (Node(), Node(metadata=ObjectMeta(annotations={"a": "b"})), ["NodeUpdateNodeAnnotation"]),
        (
            Node(),
            Node(status=NodeStatus(declared_features=("f",))),
            ["NodeUpdateNodeDeclaredFeature"],
        ),
        (
            Node(),
            Node(
                metadata=ObjectMeta(labels={"a": "b"}),
                status=NodeStatus(allocatable={"cpu": "4"}),
            ),
            ["NodeUpdateNodeAllocatable", "NodeUpdateNodeLabel"],
        ),
    ],
)
def test_node_changes(old: Node, new: Node, expected: list[str]) -> None:
    assert labels(node_changes(old, new)) == expected
