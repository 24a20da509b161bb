"""kubeadm's command line, run by Stowplan in kube-scheduler's place, and back again."""

from __future__ import annotations

import re
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


def flags_shown(page: str) -> dict[str, str]:
    """The lines below the header; kube-scheduler draws what separates name and value."""
    found = (re.fullmatch(r"([a-z0-9-]+)(?:: |:|=| )(.*)", line) for line in page.splitlines()[3:])
    return {line[1]: line[2] for line in found if line is not None}


def test_the_same_flags_are_shown(control_plane: ControlPlane, tmp_path: Path) -> None:
    flags = [
        "--authorization-always-allow-paths=/healthz,/readyz,/livez,/flagz",
        "--bind-address=127.0.0.1",
        "--leader-elect=false",
        "--vmodule=a=1,b=2",
        "--feature-gates=MemoryQoS=true",
        "--kube-api-qps=12.5",
        "--disabled-metrics=a",
        "--disabled-metrics=b,c",
        "--allow-metric-labels=metric,label=1,2",
        "--requestheader-username-headers=X-User",
        "--permit-port-sharing",
        "--log-flush-frequency=1m30s",
    ]
    upstream = control_plane.start_scheduler(None, *flags)
    theirs = flags_shown(probe(int(upstream.url.rpartition(":")[2]), "/flagz")[1])
    upstream.stop()
    conf, log = control_plane.directory / "kube-scheduler.kubeconfig", tmp_path / "log"
    words = [f"--kubeconfig={conf}", f"--secure-port={free_port()}", *flags]
    processes = []
    with log.open("w") as stream:
        # The second finds the port taken, and shares it.
        for _ in range(2):
            command = [sys.executable, "-m", "stowplan", "kube-scheduler", *words]
            processes.append(subprocess.Popen(command, stdout=stream, stderr=stream))
    try:
        wait_for("both to serve", lambda: log.read_text().count("Serving securely") == 2)
        ours = flags_shown(probe(int(words[1].partition("=")[2]), "/flagz")[1])
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(30)
    assert len(ours) == 62
    for name in ("config", "kubeconfig", "secure-port", "authorization-always-allow-paths"):
        assert {ours.pop(name), theirs.pop(name)}
    assert ours == theirs


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
