"""The control plane for tests, itself tested: it starts, serves, restarts, and leaves nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stowplan.clock import parse_rfc3339
from stowplan.lab.controlplane import ControlPlane, find_binary
from stowplan.lab.controlplane.api_access import ApiError
from tests.controlplane_fixtures import require_binaries
from tests.waiting import wait_for

pytestmark = pytest.mark.e2e

PODS = "/api/v1/namespaces/default/pods"

STATEFUL_SET = """
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {clusterIP: None, selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: web}
spec:
  replicas: 2
  serviceName: web
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      schedulerName: nobody-yet
      containers: [{name: web, image: web}]
"""

START_AND_WAIT = """
import json, sys, threading
from stowplan.lab.controlplane import ControlPlane

# From a thread that ends: the servers must outlive it, and only it.
started = []
starter = threading.Thread(target=lambda: started.append(ControlPlane().start()))
starter.start()
starter.join()
started[0].check_running()
print(json.dumps([str(started[0].directory), *started[0].pids.values()]), flush=True)
sys.stdin.read()
"""


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A process that has ended but was not yet waited for by its new parent is as good as gone.
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def node(name: str) -> dict[str, Any]:
    size = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    return {"metadata": {"name": name}, "status": {"capacity": size, "allocatable": size}}


NODE = {"apiVersion": "v1", "kind": "Node", **node("leased")}


def pod(name: str) -> dict[str, Any]:
    spec = {"schedulerName": "nobody", "containers": [{"name": "c", "image": "c"}]}
    return {"metadata": {"name": name}, "spec": spec}


def test_serves_pods_and_nodes(control_plane: ControlPlane) -> None:
    api = control_plane.api
    version = json.loads(api.raw("GET", "/version"))
    assert (version["major"], version["minor"]) == ("1", "36")
    api.create("/api/v1/nodes", node("first"))
    created = api.create(PODS, pod("placed"))
    assert created["status"]["phase"] == "Pending"
    try:
        # Without kube-controller-manager nobody would take a taint off again.
        assert "taints" not in api.get("/api/v1/nodes/first")["spec"]
        api.bind("default", "placed", "first")
        shown = control_plane.kubectl("get", "pod", "placed", "-o=jsonpath={.spec.nodeName}")
        assert (shown.returncode, shown.stdout) == (0, "first")
    finally:
        api.delete(f"{PODS}/placed", grace_seconds=0)
        api.delete("/api/v1/nodes/first")


def test_service_account_tokens_are_accepted(control_plane: ControlPlane, tmp_path: Path) -> None:
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    with pytest.raises(ApiError, match='serviceaccounts "robot" not found'):
        control_plane.service_account_token("default", "robot")
    control_plane.api.create(accounts, {"metadata": {"name": "robot"}})
    try:
        token = control_plane.service_account_token("default", "robot")
        kubeconfig = control_plane.write_kubeconfig("robot", token)
        command = [f"--kubeconfig={kubeconfig}", f"--cache-dir={tmp_path}", "auth", "whoami"]
        shown = subprocess.run(
            [find_binary("kubectl"), *command, "-o=jsonpath={.status.userInfo.username}"],
            capture_output=True,
            text=True,
        )
        assert shown.stdout == "system:serviceaccount:default:robot", shown.stderr
    finally:
        control_plane.api.delete(f"{accounts}/robot")


def test_client_go_watches_and_binds(control_plane: ControlPlane, informer_binary: Path) -> None:
    api = control_plane.api
    api.create("/api/v1/nodes", node("watched"))
    api.create(PODS, pod("watched"))
    try:
        with subprocess.Popen(
            [informer_binary, f"--kubeconfig={control_plane.kubeconfig}", "--namespace=default"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as informer:
            assert informer.stdin is not None
            assert informer.stdout is not None
            informer.stdin.write("bind default watched watched\n")
            informer.stdin.flush()
            wanted = {("SYNCED", "Pod"), ("SYNCED", "Node"), ("ADDED", "Node"), ("BOUND", "Pod")}
            for line in informer.stdout:
                event = json.loads(line)
                wanted.discard((event["event"], event["kind"]))
                if not wanted:
                    break
            informer.stdin.close()
        assert not wanted
        assert informer.returncode == 0
        assert api.get(f"{PODS}/watched")["spec"]["nodeName"] == "watched"
    finally:
        api.delete(f"{PODS}/watched", grace_seconds=0)
        api.delete("/api/v1/nodes/watched")


@pytest.fixture(scope="module")
def whole_cluster() -> Iterator[ControlPlane]:
    """A control plane with controllers and with KWOK in the place of kubelets."""
    require_binaries("etcd", "kube-apiserver", "kubectl", "kube-controller-manager", "kwok")
    with ControlPlane() as running:
        running.start_controller_manager()
        running.start_kwok()
        yield running


def test_stateful_set_waits_for_its_scheduler(whole_cluster: ControlPlane) -> None:
    api = whole_cluster.api

    def phase(name: str) -> str:
        try:
            return str(api.get(f"{PODS}/{name}")["status"]["phase"])
        except ApiError as error:
            return str(error.status)

    api.create("/api/v1/nodes", node("simulated"))
    whole_cluster.kubectl("apply", "-f", "-", input=STATEFUL_SET, check=True)
    wait_for("web-0 exists", lambda: phase("web-0") == "Pending")
    assert phase("web-1") == "404"
    api.bind("default", "web-0", "simulated")
    wait_for("web-0 runs", lambda: phase("web-0") == "Running")
    wait_for("web-1 follows", lambda: phase("web-1") == "Pending")
    assert "nodeName" not in api.get(f"{PODS}/web-1")["spec"]


def test_kube_scheduler_and_a_restart(whole_cluster: ControlPlane) -> None:
    require_binaries("kube-scheduler")
    api = whole_cluster.api
    scheduler = whole_cluster.start_scheduler()
    manifest = pod("scheduled")
    del manifest["spec"]["schedulerName"]
    try:
        api.create("/api/v1/nodes", node("roomy"))
        # KWOK makes it ready; until then kube-controller-manager keeps pods away from it.
        api.create(PODS, manifest)
        wait_for("it runs", lambda: api.get(f"{PODS}/scheduled")["status"]["phase"] == "Running")
    finally:
        scheduler.stop()
    assert "kube-scheduler" not in whole_cluster.pids
    address, before = whole_cluster.url, whole_cluster.pids["kube-apiserver"]
    whole_cluster.restart_apiserver(grace=0)
    assert whole_cluster.url == address
    assert whole_cluster.pids["kube-apiserver"] != before
    assert whole_cluster.api.get(f"{PODS}/scheduled")["status"]["phase"] == "Running"
    whole_cluster.check_running()


def test_nodes_of_kwok_stay_ready() -> None:
    """The node controller takes a node whose lease is not renewed for dead."""
    require_binaries("etcd", "kube-apiserver", "kubectl", "kube-controller-manager", "kwok")
    grace_s = 15  # for a busy machine, where KWOK may not get its turn for seconds
    with ControlPlane() as running:
        running.start_controller_manager(
            f"--node-monitor-grace-period={grace_s}s",
            "--node-monitor-period=1s",
            controllers="node-lifecycle-controller",
        )
        running.start_kwok(None, "--node-lease-duration-seconds=4")
        api = running.api
        api.create("/api/v1/nodes", node("kept"))

        def readiness() -> str:
            conditions = api.get("/api/v1/nodes/kept")["status"].get("conditions") or ()
            return next((str(c["status"]) for c in conditions if c["type"] == "Ready"), "")

        wait_for("it is ready", lambda: readiness() == "True")
        created = parse_rfc3339(api.get("/api/v1/nodes/kept")["metadata"]["creationTimestamp"])

        def renewed() -> bool:
            assert readiness() == "True"
            lease = api.get("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/kept")
            return parse_rfc3339(lease["spec"]["renewTime"]) > created + grace_s + 2

        wait_for("its lease has outlived the grace period", renewed, 60)


def test_up_with_kwok_keeps_leases() -> None:
    require_binaries("etcd", "kube-apiserver", "kubectl", "kube-controller-manager", "kwok")
    command = [
        sys.executable,
        "-m",
        "stowplan.controlplane",
        "up",
        "--controller-manager",
        "--kwok",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as up:
        try:
            assert up.stdout is not None
            kubeconfig = up.stdout.readline().strip().removeprefix("export KUBECONFIG=")

            def kubectl(*arguments: str, text: str = "") -> str:
                command = [str(find_binary("kubectl")), f"--kubeconfig={kubeconfig}", *arguments]
                return subprocess.run(command, input=text, capture_output=True, text=True).stdout

            kubectl("create", "-f", "-", text=json.dumps(NODE))
            lease = ("get", "lease", "-n=kube-node-lease", "leased")
            duration = "-o=jsonpath={.spec.leaseDurationSeconds}"
            wait_for("the node has a lease", lambda: kubectl(*lease, duration) == "40")
        finally:
            up.send_signal(signal.SIGTERM)
    assert up.returncode == 0


def test_stop_leaves_nothing() -> None:
    require_binaries("etcd", "kube-apiserver", "kubectl")
    stopped = ControlPlane(max_requests_inflight=800, apiserver_flags=["--profiling=false"]).start()
    directory, pids = stopped.directory, stopped.pids
    assert set(pids) == {"etcd", "kube-apiserver"}
    stopped.stop()
    assert [pid for pid in pids.values() if is_alive(pid)] == []
    assert not directory.exists()
    stopped.stop()


def test_nothing_outlives_a_killed_parent() -> None:
    require_binaries("etcd", "kube-apiserver", "kubectl")
    with subprocess.Popen(
        [sys.executable, "-c", START_AND_WAIT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    ) as parent:
        assert parent.stdout is not None
        directory, *pids = json.loads(parent.stdout.readline())
        assert len(pids) == 2
        assert all(is_alive(pid) for pid in pids)
        parent.send_signal(signal.SIGKILL)
    wait_for("the servers are gone", lambda: not any(is_alive(pid) for pid in pids))
    # A killed process cannot tidy up its files.
    assert Path(directory).exists()
    subprocess.run(["rm", "-rf", directory], check=True)
