"""Events: bit order, labels and matching, against kube-scheduler 1.36's values."""

from __future__ import annotations

import pytest

from stowplan.queue import events as ev
from stowplan.queue.events import ActionType, ClusterEvent


def test_bit_order_is_upstreams() -> None:
    assert [int(action) for action in ActionType if action] == [1 << bit for bit in range(13)]
    assert [action.name for action in ActionType if action] == [
        "ADD",
        "DELETE",
        "UPDATE_NODE_ALLOCATABLE",
        "UPDATE_NODE_LABEL",
        "UPDATE_NODE_TAINT",
        "UPDATE_NODE_CONDITION",
        "UPDATE_NODE_ANNOTATION",
        "UPDATE_NODE_DECLARED_FEATURE",
        "UPDATE_POD_LABEL",
        "UPDATE_POD_SCALE_DOWN",
        "UPDATE_POD_TOLERATION",
        "UPDATE_POD_SCHEDULING_GATES_ELIMINATED",
        "UPDATE_POD_GENERATED_RESOURCE_CLAIM",
    ]
    assert int(ActionType.ALL) == 8191
    assert int(ActionType.UPDATE) == 8188


@pytest.mark.parametrize(
    ("event", "label"),
    [
        (ev.UNSCHEDULED_POD_ADD, "UnschedulablePodAdd"),
        (ev.UNSCHEDULED_POD_UPDATE, "UnschedulablePodUpdate"),
        (ev.ASSIGNED_POD_DELETE, "AssignedPodDelete"),
        (ev.NODE_ADD, "NodeAdd"),
        (ClusterEvent("Node", ActionType.UPDATE_NODE_LABEL), "NodeUpdateNodeLabel"),
        (
            ClusterEvent("UnschedulablePod", ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED),
            "UnschedulablePodUpdatePodSchedulingGatesEliminated",
        ),
        (ClusterEvent("storage.k8s.io/CSINode", ActionType.ADD), "storage.k8s.io/CSINodeAdd"),
        (ClusterEvent("Pod", ActionType.ALL), "PodAll"),
        (ClusterEvent("Pod", ActionType.ADD | ActionType.DELETE), "Pod"),
        (ev.UNSCHEDULABLE_TIMEOUT, "UnschedulableTimeout"),
        (ev.FORCE_ACTIVATE, "ForceActivate"),
    ],
)
def test_labels(event: ClusterEvent, label: str) -> None:
    assert event.label == label


ADD, DELETE, UPDATE, ALL = (
    ActionType.ADD,
    ActionType.DELETE,
    ActionType.UPDATE,
    ActionType.ALL,
)
LABEL, TAINT = ActionType.UPDATE_NODE_LABEL, ActionType.UPDATE_NODE_TAINT


@pytest.mark.parametrize(
    ("happened", "registered", "matches"),
    [
        (("Node", ADD), ("Node", ADD), True),
        (("Node", ADD), ("Node", ADD | LABEL), True),
        (("Node", LABEL), ("Node", UPDATE), True),
        (("Node", UPDATE), ("Node", LABEL), False),  # less specific than what is registered
        (("Node", TAINT), ("Node", ADD | LABEL), False),
        (("Node", ADD), ("Node", DELETE), False),
        (("Node", ADD), ("Pod", ADD), False),
        (("AssignedPod", DELETE), ("Pod", DELETE), True),
        (("UnschedulablePod", UPDATE), ("Pod", UPDATE), True),
        (("UnschedulablePod", UPDATE), ("Pod", ALL), True),
        (("Pod", ADD), ("AssignedPod", ADD), False),
        (("Node", ADD), ("*", ALL), True),
        (("Node", ADD), ("*", ADD), True),
        (("Node", LABEL), ("*", ADD), False),
        (("*", ALL), ("*", ALL), True),
        (("*", ALL), ("Node", ALL), False),
    ],
)
def test_matching(
    happened: tuple[str, ActionType], registered: tuple[str, ActionType], matches: bool
) -> None:
    assert ClusterEvent(*happened).matches(ClusterEvent(*registered)) is matches
