"""kubeadm's command line, run by Stowplan in kube-scheduler's place, and back again."""

from __future__ import annotations

import ssl
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from stowplan.lab.controlplane import ControlPlane
from stowplan.lab.controlplane.processes import free_port
from tests.waiting import wait_for

pytestmark = pytest.mark.e2e

PODS = "/api/v1/namespaces/default/pods"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"


def create_pod(plane: ControlPlane, name: str) -> None:
    container = {"name": "main", "image": "example.test/main:1"}
    plane.api.create(PODS, {"metadata": {"name": name}, "spec": {"containers": [container]}})


def wait_bound(plane: ControlPlane, name: str) -> None:
    wait_for(
        f"{name} to be bound",
        lambda: plane.api.get(f"{PODS}/{name}")["spec"].get("nodeName") == "node",
    )


def holder(plane: ControlPlane) -> str:
    return str(plane.api.get(LEASE)["spec"].get("holderIdentity") or "")


def probe(port: int, path: str) -> tuple[int, str]:
    tls = ssl._create_unverified_context()
    with urllib.request.urlopen(f"https://127.0.0.1:{port}{path}", timeout=5, context=tls) as got:
        return got.status, got.read().decode()


def test_the_swap_and_back(control_plane: ControlPlane, tmp_path: Path) -> None:
    plane = control_plane
    offers = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    plane.api.create(
        "/api/v1/nodes",
        {"metadata": {"name": "node"}, "status": {"capacity": offers, "allocatable": offers}},
    )
    upstream = plane.start_scheduler(None, "--leader-elect=true")
    create_pod(plane, "swap-a")
    wait_bound(plane, "swap-a")
    first = holder(plane)

    conf, port = plane.directory / "kube-scheduler.kubeconfig", free_port()
    log = tmp_path / "stowplan.log"
    command = [
        *(sys.executable, "-m", "stowplan", "kube-scheduler"),
        f"--authentication-kubeconfig={conf}",
        f"--authorization-kubeconfig={conf}",
        "--bind-address=127.0.0.1",
        f"--kubeconfig={conf}",
        "--leader-elect=true",
        f"--secure-port={port}",  # not kubeadm's: other tests may use 10259
    ]
    with log.open("w") as stream:
        process = subprocess.Popen(command, stdout=stream, stderr=stream)
    again = None
    try:
        wait_for("the endpoints", lambda: "Serving securely" in log.read_text())
        assert probe(port, "/livez") == (200, "ok"), "a standby is alive"
        upstream.stop()
        create_pod(plane, "swap-b")
        wait_bound(plane, "swap-b")
        second = holder(plane)
        assert second != first
        assert probe(port, "/readyz") == (200, "ok")
        assert "has no effect" not in log.read_text()

        again = plane.start_scheduler(None, "--leader-elect=true")
        process.terminate()
        assert process.wait(30) == 0, log.read_text()
        create_pod(plane, "swap-c")
        wait_bound(plane, "swap-c")
        assert holder(plane) not in (first, second, "")
    finally:
        process.kill()
        process.wait(30)
        if again is not None:
            again.stop()
        for name in ("swap-a", "swap-b", "swap-c"):
            plane.api.delete(f"{PODS}/{name}?gracePeriodSeconds=0")
        plane.api.delete("/api/v1/nodes/node")
