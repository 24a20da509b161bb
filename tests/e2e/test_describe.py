"""What a person sees: `kubectl describe pod` says the same under kube-scheduler and Stowplan.

One story is played to each of the two on a control plane of its own: a pod that waits for nodes
that do not exist, one that is gated, one that evicts another and gets its place. Names are the
same; times, UIDs and addresses are made equal.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from stowplan.lab.controlplane import ControlPlane
from tests.controlplane_fixtures import require_binaries
from tests.e2e.schedulers import kube_scheduler, stowplan
from tests.waiting import wait_for

pytestmark = pytest.mark.e2e

CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: false
clientConnection:
  kubeconfig: "{kubeconfig}"
"""
PODS = "/api/v1/namespaces/default/pods"
Run = Callable[[ControlPlane, str], AbstractContextManager[Path]]


def _create_nodes(plane: ControlPlane) -> None:
    offers = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    for name, taints in (("n1", []), ("n2", [{"key": "own", "effect": "NoSchedule"}])):
        body = {
            "metadata": {"name": name},
            "spec": {"taints": taints},
            "status": {"capacity": offers, "allocatable": offers},
        }
        plane.api.create("/api/v1/nodes", body)


def _create_pod(plane: ControlPlane, name: str, cpu: str = "3", **spec: Any) -> None:
    container = {"name": "c", "image": "example.test/c:1", "resources": {"requests": {"cpu": cpu}}}
    plane.api.create(
        PODS, {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}
    )


def _pod(plane: ControlPlane, name: str) -> dict[str, Any]:
    return plane.api.get(f"{PODS}/{name}")


def _has_event(plane: ControlPlane, name: str, reason: str) -> bool:
    items = plane.api.get("/apis/events.k8s.io/v1/namespaces/default/events")["items"]
    return any(e["regarding"].get("name") == name and e["reason"] == reason for e in items)


def _describe(plane: ControlPlane, name: str) -> str:
    text = plane.kubectl("describe", "pod", name, check=True).stdout
    text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UID", text)
    text = re.sub(r"kube-api-access-\w{5}", "kube-api-access-XXXXX", text)
    text = re.sub(r"\w{3}, \d\d \w{3} \d{4} [\d:]{8} [+-]\d{4}", "TIME", text)
    # How old an event is, and how often it was said until kubectl asked.
    text = re.sub(r"\b\d+[smh]\d*s? \(x\d+ over \d+[smh]\d*s?\)", "AGE", text)
    text = re.sub(r"(?m)^(  \w+ +\w+ +)(AGE|<unknown>|\d+[smh]\S*)( +)", r"\1AGE ", text)
    text = re.sub(r"Terminating \(lasts [^)]*\)", "Terminating", text)
    return re.sub(r" +", " ", text)


def _play(plane: ControlPlane) -> dict[str, str]:
    """Texts by what they show."""
    seen: dict[str, str] = {}

    def show(title: str, name: str, reason: str = "") -> None:
        if reason:
            wait_for(f"{reason} of {name}", lambda: _has_event(plane, name, reason))
        seen[title] = _describe(plane, name)

    _create_nodes(plane)
    for name, value in (("low", 1), ("high", 100)):
        body = {"metadata": {"name": name}, "value": value}
        plane.api.create("/apis/scheduling.k8s.io/v1/priorityclasses", body)
    _create_pod(plane, "gated", schedulingGates=[{"name": "example.com/gate"}])
    show("a gated pod", "gated")
    _create_pod(plane, "lost", nodeSelector={"disk": "none"})
    wait_for("its condition", lambda: _pod(plane, "lost")["status"].get("conditions"))
    show("a pod that fits nowhere", "lost", "FailedScheduling")
    _create_pod(plane, "victim", priorityClassName="low")
    show("a bound pod", "victim", "Scheduled")
    _create_pod(plane, "preemptor", priorityClassName="high")
    wait_for("the victim to go", lambda: "deletionTimestamp" in _pod(plane, "victim")["metadata"])
    wait_for("the promise", lambda: _pod(plane, "preemptor")["status"].get("nominatedNodeName"))
    show("a victim", "victim", "Preempted")
    show("a preemptor that waits", "preemptor", "FailedScheduling")
    plane.api.delete(f"{PODS}/victim", grace_seconds=0)
    show("a preemptor that has its place", "preemptor", "Scheduled")
    return seen


@pytest.fixture(scope="module")
def texts() -> dict[str, dict[str, str]]:
    require_binaries("etcd", "kube-apiserver", "kube-scheduler", "kubectl")
    told: dict[str, dict[str, str]] = {}
    runs: dict[str, Run] = {"kube-scheduler": kube_scheduler, "stowplan": stowplan}
    for name, run in runs.items():
        with ControlPlane() as plane, run(plane, CONFIG):
            told[name] = _play(plane)
    return told


@pytest.mark.parametrize(
    "title",
    [
        "a gated pod",
        "a pod that fits nowhere",
        "a bound pod",
        "a victim",
        "a preemptor that waits",
        "a preemptor that has its place",
    ],
)
def test_the_same_is_said(texts: dict[str, dict[str, str]], title: str) -> None:
    ours, theirs = texts["stowplan"][title], texts["kube-scheduler"][title]
    assert ours.splitlines() == theirs.splitlines()


def test_the_texts_have_something_to_compare(texts: dict[str, dict[str, str]]) -> None:
    """The story went as it should, so that equal texts mean something."""
    theirs = texts["kube-scheduler"]
    assert "0/2 nodes are available" in theirs["a pod that fits nowhere"]
    assert "NominatedNodeName: n1" in theirs["a preemptor that waits"]
    assert "Preempted by pod UID on node n1" in theirs["a victim"]
    assert "DisruptionTarget True" in theirs["a victim"]
    assert "Successfully assigned" in theirs["a preemptor that has its place"]
