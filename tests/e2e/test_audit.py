"""`stowplan audit` on a real etcd and kube-apiserver: planted faults are found, and only those.

Faults are planted with the binding subresource, which checks no rule: it binds to full nodes, to
tainted ones and to nodes that do not exist.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from stowplan.audit import APISERVER_FLAGS, AuditTrail
from stowplan.lab.controlplane import ControlPlane
from stowplan.lab.controlplane.api_access import ApiError
from tests.controlplane_fixtures import require_binaries
from tests.waiting import wait_for

Json: TypeAlias = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"


class Stage:
    """A control plane whose history can be audited."""

    def __init__(self, plane: ControlPlane, trail: AuditTrail) -> None:
        self.plane = plane
        self.trail = trail

    def node(self, name: str, *, cpu: str = "1", pods: str = "10", **spec: Any) -> None:
        offers = {"cpu": cpu, "memory": "1Gi", "pods": pods}
        meta = {"name": name, "labels": {"kubernetes.io/hostname": name, "zone": name[0]}}
        status = {"allocatable": offers, "capacity": offers}
        body = {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": spec}
        self.plane.api.create("/api/v1/nodes", {**body, "status": status})

    def pod(self, name: str, node: str = "", *, cpu: str = "100m", **more: Any) -> None:
        """Create a pod and bind it, whatever it asks for."""
        resources = {"requests": {"cpu": cpu}}
        container = {"name": "main", "image": "example.test/x", "resources": resources}
        meta = {"name": name, "labels": more.pop("labels", {})}
        spec = {"schedulerName": "planted", "containers": [container], **more}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
        self.plane.api.create(PODS, pod)
        if node:
            self.bind(name, node)

    def bind(self, name: str, node: str) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        self.plane.api.create(f"{PODS}/{name}/binding", body)

    def announce(self, *names: str) -> None:
        """Write the event Scheduled."""
        for name in names:
            uid = self.plane.api.get(f"{PODS}/{name}")["metadata"]["uid"]
            pod = {"kind": "Pod", "namespace": "default", "name": name, "uid": uid}
            meta = {"name": f"{name}.1", "namespace": "default"}
            event = {"apiVersion": "v1", "kind": "Event", "metadata": meta, "involvedObject": pod}
            self.plane.api.create(
                "/api/v1/namespaces/default/events", {**event, "reason": "Scheduled"}
            )


def stowplan(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "stowplan", "audit", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def found_by(*arguments: str) -> set[tuple[str, str]]:
    """The findings of a run whose exit code agrees with them."""
    done = stowplan(*arguments, "-o", "json")
    assert done.returncode in (0, 1), done.stderr
    report = json.loads(done.stdout)
    assert done.returncode == (1 if report["findings"] else 0)
    return {(each["kind"], each["pod"].split("/")[1]) for each in report["findings"]}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    require_binaries("etcd", "kube-apiserver")
    trail = AuditTrail(tmp_path_factory.mktemp("audit"))
    with ControlPlane(apiserver_flags=[*APISERVER_FLAGS, *trail.flags]) as plane:
        stage = Stage(plane, trail)
        plant(stage)
        yield stage


PLANTED = {
    ("overcommit", "large"),
    ("taint", "intolerant"),
    ("unschedulable", "cordoned"),
    ("node-affinity", "choosy"),
    ("anti-affinity", "loner"),
    ("anti-affinity", "intruder"),
    ("affinity", "lonely"),
    ("spread", "squeezed"),
    ("missing-node", "nowhere"),
    ("volume-unbound", "homeless"),
    ("no-event", "silent"),
    ("pending", "waiting"),
}


def plant(stage: Stage) -> None:
    for name in ("a1", "a2", "b1"):
        stage.node(name)
    stage.node("t1", taints=[{"key": "gpu", "effect": "NoSchedule"}])
    stage.node("t2", unschedulable=True)
    time.sleep(1.1)  # times are whole seconds: what came before must be older
    plain = [f"plain{number}" for number in range(3)]
    for name in plain:
        stage.pod(name, "a1", labels={"app": "web"})
    stage.pod("large", "a1", cpu="900m")
    stage.pod("intolerant", "t1")
    stage.pod("cordoned", "t2")
    stage.pod("choosy", "a2", nodeSelector={"disk": "ssd"})
    anti = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone"}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    stage.pod("loner", "a2", affinity={"podAntiAffinity": {required: [anti]}}, labels={"x": "y"})
    stage.pod("hermit", "b1", affinity={"podAntiAffinity": {required: [anti]}})
    stage.pod("intruder", "b1", labels={"app": "web"})
    other = {**anti, "labelSelector": {"matchLabels": {"x": "y"}}}
    stage.pod("lonely", "b1", affinity={"podAffinity": {required: [other]}})
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    time.sleep(1.1)  # pods without the constraint, bound in the same second, would excuse it
    stage.pod("squeezed", "a2", labels={"app": "web"}, topologySpreadConstraints=[constraint])
    stage.pod("nowhere", "no-such-node")
    claim = {"name": "v", "persistentVolumeClaim": {"claimName": "none"}}
    stage.pod("homeless", "b1", volumes=[claim])
    stage.pod("silent", "b1")
    stage.pod("direct", nodeName="t1", cpu="5")
    stage.pod("waiting")
    stage.pod("gated", schedulingGates=[{"name": "example.test/gate"}])
    bound = {name for _, name in PLANTED} - {"waiting", "silent"}
    stage.announce(*plain, "hermit", *sorted(bound))


def history_of(stage: Stage) -> list[str]:
    return [
        "--etcd",
        stage.plane.etcd_url,
        "--audit-log",
        str(stage.trail.path),
        "--grace",
        "0s",
        "--in-flight",
        "0s",
    ]


def test_history(stage: Stage) -> None:
    # "squeezed" also stands where "loner" forbids it, and was bound after it.
    assert found_by(*history_of(stage)) == PLANTED | {("anti-affinity", "squeezed")}


def test_live(stage: Stage) -> None:
    """All were bound in the same second: which of two that exclude each other came later is
    unknown, and so is the first pod of a domain that is too full."""
    found = found_by("--kubeconfig", str(stage.plane.kubeconfig), "--grace", "0s")
    pairs = ("anti-affinity", "overcommit", "spread")
    assert {each for each in found if each[0] not in pairs} == {
        each for each in PLANTED if each[0] not in pairs
    }
    assert {kind for kind, _ in found} == {kind for kind, _ in PLANTED}


def test_what_was_so_before_the_binding_is_certain(stage: Stage) -> None:
    """By the managedFields that the API server keeps."""
    kubeconfig = str(stage.plane.kubeconfig)
    found = found_by("--kubeconfig", kubeconfig, "--only", "taint,unschedulable", "--certain")
    assert found == {("taint", "intolerant"), ("unschedulable", "cordoned")}
    stage.plane.api.patch("/api/v1/nodes/a2", {"spec": {"unschedulable": True}})
    only = ["--only", "unschedulable"]
    assert ("unschedulable", "loner") in found_by("--kubeconfig", kubeconfig, *only)
    assert ("unschedulable", "loner") not in found_by(
        "--kubeconfig", kubeconfig, *only, "--certain"
    )
    stage.plane.api.patch("/api/v1/nodes/a2", {"spec": {"unschedulable": None}})


def test_a_pod_that_is_gone_stays_in_the_history(stage: Stage, tmp_path: Path) -> None:
    stage.pod("brief", "t1")
    stage.announce("brief")
    stage.plane.api.delete(f"{PODS}/brief", grace_seconds=0)
    kept = tmp_path / "history.jsonl"
    only = ["--only", "taint,pending"]
    arguments = history_of(stage)
    expected = {("taint", "intolerant"), ("taint", "brief"), ("pending", "waiting")}
    assert found_by(*arguments, *only, "--save-history", str(kept)) == expected
    assert found_by("--history", str(kept), *only, "--grace", "0s") == expected
    live = found_by("--kubeconfig", str(stage.plane.kubeconfig), *only)
    assert ("taint", "brief") not in live


def test_a_second_binding_is_refused_and_no_finding(stage: Stage) -> None:
    with pytest.raises(ApiError, match="already assigned"):
        stage.bind("silent", "a1")
    assert found_by(*history_of(stage), "--only", "double-bind") == set()


def test_kube_scheduler_is_clean(stage: Stage) -> None:
    """A hundred pods with rules of all kinds, placed at full speed by the real kube-scheduler."""
    require_binaries("kube-scheduler")
    for number in range(6):
        stage.node(f"{'xyz'[number % 3]}{number}", cpu="4", pods="110")
    scheduler = stage.plane.start_scheduler()
    own = {"matchLabels": {"group": "g"}}
    chosen = {"nodeSelectorTerms": [{"matchExpressions": [
        {"key": "zone", "operator": "In", "values": ["x", "y", "z"]}]}]}  # fmt: skip
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    wishes: list[Json] = [
        {},
        {"topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
             "labelSelector": own}]},
        {"affinity": {"podAntiAffinity": {required: [
            {"labelSelector": {"matchLabels": {"lone": "yes"}},
             "topologyKey": "kubernetes.io/hostname"}]}}},
        {"affinity": {"podAffinity": {required: [{"labelSelector": own, "topologyKey": "zone"}]}}},
    ]  # fmt: skip
    for number in range(100):
        more = dict(wishes[number % 4])
        affinity = {**more.pop("affinity", {}), "nodeAffinity": {required: chosen}}
        labels = {"group": "g"} if number % 4 == 1 else {}
        if number % 4 == 2:
            labels = {"lone": "yes"}
        stage.pod(
            f"real{number}",
            schedulerName="default-scheduler",
            affinity=affinity,
            labels=labels,
            **more,
        )
    try:
        wait_for("the pods to be bound", lambda: len(bound_pods(stage)) >= 75 + 6, 60)
        wait_for("the events to be written", lambda: scheduled_events(stage) >= 75 + 6, 60)
    finally:
        scheduler.stop()
    bound = bound_pods(stage)
    assert len(bound) == 75 + 6  # one lone pod a node
    only = ["--scheduler-name", "default-scheduler"]
    assert found_by(*history_of(stage)[:-2], *only) == set()
    # Others have come since: where a rule reads them, only what is certain counts.
    kubeconfig = str(stage.plane.kubeconfig)
    assert found_by("--kubeconfig", kubeconfig, "--grace", "0s", "--certain", *only) == set()


def bound_pods(stage: Stage) -> list[str]:
    return [
        pod["metadata"]["name"]
        for pod in stage.plane.api.get(PODS)["items"]
        if pod["spec"].get("nodeName") and pod["metadata"]["name"].startswith("real")
    ]


def scheduled_events(stage: Stage) -> int:
    path = "/api/v1/namespaces/default/events?fieldSelector=reason=Scheduled"
    events = stage.plane.api.get(path)["items"]
    return sum(each["involvedObject"].get("name", "").startswith("real") for each in events)


def test_for_people(stage: Stage) -> None:
    done = stowplan(*history_of(stage), "--only", "taint", "--scheduler-name", "planted")
    assert done.returncode == 1
    header, *rows, _, last = done.stdout.splitlines()
    assert header.split() == ["FINDING", "POD", "NODE", "SCHEDULER", "REVISION", "SINCE", "WHAT"]
    assert any("taint gpu:NoSchedule is not tolerated (bound by " in row for row in rows), rows
    assert last.startswith(f"{len(rows)} finding")


def test_objects_stored_as_protobuf(control_plane: ControlPlane) -> None:
    done = stowplan("--etcd", control_plane.etcd_url)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"Error: etcd at {control_plane.etcd_url}: /registry/")
    assert done.stderr.endswith(
        " is stored as protobuf."
        " Fix: run kube-apiserver with --storage-media-type=application/json\n"
    )


def test_a_history_that_was_compacted(stage: Stage) -> None:
    """The last test: what came before it is lost. What stands still counts."""
    etcd = stage.plane.etcd_url
    with urllib.request.urlopen(f"{etcd}/v3/kv/range", b'{"key": "AA=="}') as answer:
        revision = json.load(answer)["header"]["revision"]
    body = json.dumps({"revision": revision, "physical": True}).encode()
    with urllib.request.urlopen(f"{etcd}/v3/kv/compaction", body) as answer:
        assert answer.status == 200
    stage.pod("again", "a1", cpu="900m")
    stage.pod("late", "t1")
    only = ["--only", "overcommit,taint"]
    assert found_by("--etcd", etcd, "--in-flight", "0s", *only) == {
        ("overcommit", "again"),
        ("overcommit", "late"),  # beside "direct"
        ("taint", "late"),
    }
    done = stowplan("--etcd", etcd, *only)
    assert "Note: the history was compacted: what happened before is unknown.\n" in done.stdout
