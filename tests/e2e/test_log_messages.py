"""kube-scheduler and Stowplan do the same work on one control plane; their logs are compared.

Every message of kube-scheduler at -v 4 appears here with its verbosity, its keys and the types of
their values, unless `ABSENT` says why not. A row that no longer names a difference fails, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from stowplan.lab.controlplane import ControlPlane
from stowplan.lab.controlplane.api_access import unverified_access
from stowplan.lab.controlplane.processes import free_port
from tests.controlplane_fixtures import require_binaries
from tests.e2e.requeue_cluster import PODS, Cluster
from tests.e2e.schedulers import kube_scheduler, stowplan
from tests.waiting import wait_for

pytestmark = pytest.mark.e2e

CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: true}
clientConnection: {kubeconfig: "{kubeconfig}"}
"""
FLAGS = ("--logging-format=json", "-v=10")
#: Parts of messages that are no part of the comparison: addresses, and the values of flags.
VARIABLE = re.compile(r'\d+\.\d+\.\d+\.\d+:\d+|="(?s:.*)"$')
#: In every line; `logger` names a plugin there and a module here.
FRAME = {"ts", "logger", "caller", "msg", "v"}

#: Messages of kube-scheduler at -v 4 that Stowplan does not write, by pattern, and why.
ABSENT = {
    "Golang settings": "the Go runtime",
    "OpportunisticBatch .*": "there is no opportunistic batching",
    "No (authentication|authorization)-kubeconfig provided.*": "the scheduler's own kubeconfig is "
    "used then, so certificates and tokens work",
    ".* DynamicServingCertificateController": "a task watches the files",
    "Loaded serving cert": "the parts of a certificate are not logged",
    "Exiting watch because received the bookmark.*": "lists are read page by page before the watch",
    r"\[graceful-termination\] .*": "one server, which says that it stopped listening",
    "The manifest file is empty, ignoring.": "a complaint about a flag that was not given",
    r"Unable to record event \(will not retry!\)": "its event about leadership comes too late",
}
#: Written only if a probe comes before the lists (tests/unit/server/test_health.py has one).
BY_CHANCE = re.compile(r"sched-handler-sync check failed: readyz\n.*")


@dataclass
class Logs:
    upstream: list[dict[str, Any]]
    ours: list[dict[str, Any]]


@pytest.fixture(scope="module")
def logs() -> Iterator[Logs]:
    require_binaries("etcd", "kube-apiserver", "kubectl", "kube-scheduler")
    with ControlPlane() as plane:
        with kube_scheduler(plane, CONFIG, "--leader-elect=true", *FLAGS) as upstream:
            work(plane)
        port = free_port()
        with stowplan(plane, CONFIG, f"--secure-port={port}", *FLAGS) as ours:
            assert unverified_access(f"https://127.0.0.1:{port}").answers("/readyz")
            work(plane)
        yield Logs(lines(upstream), lines(ours))


def lines(log: Path) -> list[dict[str, Any]]:
    """Every line; one that is not JSON fails the test."""
    return [json.loads(line) for line in log.read_text().splitlines()]


def work(plane: ControlPlane) -> None:
    """Binds, a gate, a pod that waits for a node, a preemption and deletions."""
    cluster = Cluster(plane.api, Path(), "")

    def pod(name: str) -> Any:
        return plane.api.get(f"{PODS}/{name}")

    def bound(name: str) -> bool:
        return "nodeName" in pod(name)["spec"]

    cluster.node("n1", cpu="2")
    cluster.node("n2", cpu="2")
    for name in ("a", "b", "c"):
        cluster.pod(name, container={"resources": {"requests": {"cpu": "500m"}}})
        wait_for(f"{name} to be bound", lambda name=name: bound(name))  # type: ignore[misc]  # mypy: a lambda with a default
    cluster.pod("gated", schedulingGates=[{"name": "example.com/gate"}])
    cluster.pod("huge", container={"resources": {"requests": {"cpu": "64"}}})
    wait_for("huge to be rejected", lambda: pod("huge")["status"]["conditions"])
    urgent = {"resources": {"requests": {"cpu": "1800m"}}}
    cluster.pod("urgent", container=urgent, priorityClassName="system-cluster-critical")

    def is_placed_without_kubelets() -> bool:
        for item in plane.api.get(PODS)["items"]:
            if "deletionTimestamp" in item["metadata"]:
                cluster.delete(f"{PODS}/{item['metadata']['name']}")
        return bound("urgent")

    wait_for("urgent to be bound", is_placed_without_kubelets)
    cluster.node("large", cpu="128")
    wait_for("huge to be bound", lambda: bound("huge"))
    cluster.clean()


def shape(line: dict[str, Any]) -> str:
    return VARIABLE.sub("*", line["msg"])


def by_message(found: list[dict[str, Any]], most: int = 4) -> dict[str, list[dict[str, Any]]]:
    messages: dict[str, list[dict[str, Any]]] = {}
    for line in found:
        if line.get("v", 0) <= most:
            messages.setdefault(shape(line), []).append(line)
    return messages


def test_every_message_appears_with_its_verbosity_and_keys(logs: Logs) -> None:
    ours, unused, missing = by_message(logs.ours, 10), set(ABSENT), []
    for message, wanted in by_message(logs.upstream).items():
        reasons = {pattern for pattern in ABSENT if re.fullmatch(pattern, message, re.DOTALL)}
        unused -= reasons
        if reasons or BY_CHANCE.fullmatch(message):
            continue
        found = ours.get(message, [])
        for line in wanted:
            keys = set(line) - FRAME
            if not any(keys <= set(each) and line.get("v") == each.get("v") for each in found):
                missing.append((line.get("v"), message, sorted(keys)))
    assert not missing
    assert not unused, "these are no differences any more"


def test_values_have_the_same_types(logs: Logs) -> None:
    """Above all: pods and nodes are objects, or texts, as in kube-scheduler's log."""
    ours = by_message(logs.ours)
    for message, wanted in by_message(logs.upstream).items():
        for line, own in ((line, own) for line in wanted for own in ours.get(message, ())):
            for key in (set(line) & set(own)) - FRAME:
                assert kind(own[key]) == kind(line[key]), (message, key, own[key], line[key])


def kind(value: Any) -> Any:
    """The type, and of names which fields they have."""
    if isinstance(value, dict) and set(value) <= {"name", "namespace"}:
        return sorted(value)
    return type(value)


def test_scores_of_both_add_up_alike(logs: Logs) -> None:
    """The first pods find the same cluster, so their scores at -v 10 are the same, too."""
    message = "Plugin scored node for pod"

    def scores(found: list[dict[str, Any]]) -> set[tuple[str, str, int]]:
        return {
            (line["plugin"], line["node"], line["score"])
            for line in found
            if line["msg"] == message and line["pod"]["name"] == "a"
        }

    ours = scores(logs.ours)
    assert ours
    assert ours == scores(logs.upstream)


def test_the_frame_of_a_line_is_the_same(logs: Logs) -> None:
    for found in (logs.upstream, logs.ours):
        for line in found:
            keys = [key for key in line if key in FRAME]
            assert keys == [key for key in ("ts", "logger", "caller", "msg", "v") if key in line]
            assert re.fullmatch(r"[\w.-]+/\w+\.\w+:\d+", line["caller"])
            assert 1.7e12 < line["ts"] < 4e12
