"""Pods of several priorities, and what becomes of those that have to make room.

No kubelet runs here, so a pod that is deleted stays, terminating, until the test lets it go.
"""

from __future__ import annotations

from typing import Any

from tests.integration.target import Json, Target
from tests.waiting import wait_for

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
PRIORITIES: dict[str, Json] = {
    "it-low": {"value": 1},
    "it-middle": {"value": 10},
    "it-high": {"value": 100},
    "it-polite": {"value": 100, "preemptionPolicy": "Never"},
}


def create(target: Target, name: str, priority: str, cpu: str = "3", **spec: Any) -> None:
    target.create_pods(name, cpu=cpu, priorityClassName=f"it-{priority}", **spec)


def is_leaving(target: Target, name: str) -> bool:
    return "deletionTimestamp" in target.pod(name)["metadata"]


def wait_leaving(target: Target, name: str) -> Json:
    wait_for(f"{name} to be deleted", lambda: is_leaving(target, name))
    return target.pod(name)


def make_room_on_n1(target: Target, name: str) -> None:
    """Start a scheduler whose only node is full; the pod is nominated while `low` terminates."""
    target.create_nodes("n1")
    target.start()
    create(target, "low", "low")
    target.wait_bound("low")
    create(target, name, name)
    wait_leaving(target, "low")
    wait_for("the nomination", lambda: nominated(target, name) == "n1")


def nominated(target: Target, name: str) -> str:
    node: str = target.pod(name)["status"].get("nominatedNodeName", "")
    return node
