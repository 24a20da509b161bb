"""Stowplan in kube-scheduler's place, and back again: kubeadm's command line, and its manifest."""

from __future__ import annotations

import re
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from stowplan import __version__
from stowplan.lab.controlplane import ControlPlane
from stowplan.lab.controlplane.processes import free_port
from tests.image_fixtures import REPOSITORY, Images
from tests.pod_container import Pod, running
from tests.private_network import private_network
from tests.waiting import wait_for

pytestmark = pytest.mark.e2e

MANIFEST = REPOSITORY / "deploy" / "static-pod" / "kube-scheduler.yaml"
#: By kubeadm 1.36.3: kubeadm init phase control-plane scheduler --kubernetes-version=v1.36.3
KUBEADM = Path(__file__).with_name("kubeadm-kube-scheduler.yaml")
SCHEDULER_CONF = "/etc/kubernetes/scheduler.conf"
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
    with urllib.request.urlopen(f"https://127.0.0.1:{port}{path}", timeout=30, context=tls) as got:
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


@contextmanager
def one_node(plane: ControlPlane) -> Iterator[None]:
    offers = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    status = {"capacity": offers, "allocatable": offers}
    plane.api.create("/api/v1/nodes", {"metadata": {"name": "node"}, "status": status})
    try:
        yield
    finally:
        for pod in plane.api.get(PODS)["items"]:
            plane.api.delete(f"{PODS}/{pod['metadata']['name']}", grace_seconds=0)
        plane.api.delete("/api/v1/nodes/node")


@pytest.fixture
def node(control_plane: ControlPlane) -> Iterator[None]:
    with one_node(control_plane):
        yield


@pytest.mark.usefixtures("node")
def test_the_swap_and_back(control_plane: ControlPlane, tmp_path: Path) -> None:
    plane = control_plane
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


def test_the_manifest_is_kubeadms_but_for_the_image() -> None:
    theirs, ours = KUBEADM.read_text().splitlines(), MANIFEST.read_text().splitlines()
    changed = [(old, new) for old, new in zip(theirs, ours, strict=True) if old != new]
    version = __version__
    assert changed == [
        (
            "    image: registry.k8s.io/kube-scheduler:v1.36.3",
            f"    image: stowplan:{version}-static-pod",
        )
    ]


def pods_of(plane: ControlPlane) -> dict[str, tuple[str, str]]:
    """Name, UID and node of every pod."""
    return {
        pod["metadata"]["name"]: (pod["metadata"]["uid"], pod["spec"].get("nodeName", ""))
        for pod in plane.api.get(PODS)["items"]
    }


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("node")
def test_kubeadms_manifest_with_our_image(
    control_plane: ControlPlane, images: Images, tmp_path: Path
) -> None:
    """As a kubelet does it: one scheduler ends, then the other starts."""
    plane = control_plane
    manifest = yaml.safe_load(MANIFEST.read_text())
    pod = Pod(manifest["metadata"]["namespace"], manifest["spec"])
    container = images.container("stowplan:static-pod")
    assert images.configured(container, "User") == "0:0"

    upstream = plane.start_scheduler(None, "--leader-elect=true")
    create_pod(plane, "before")
    wait_bound(plane, "before")
    first = plane.api.get(LEASE)["spec"]
    upstream.stop()
    create_pod(plane, "first-gap")

    conf = plane.directory / "kube-scheduler.kubeconfig"
    assert conf.stat().st_mode & 0o777 == 0o600
    node = {SCHEDULER_CONF: conf}
    port = urlsplit(plane.url).port
    assert port is not None
    with (
        private_network(port) as network,
        running(images, container, pod, tmp_path / "pod", plane, node, network) as ours,
    ):
        wait_bound(plane, "first-gap")
        second = plane.api.get(LEASE)["spec"]
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            assert network.call(ours.probe, probe) == (200, "ok")
        create_pod(plane, "with-ours")
        wait_bound(plane, "with-ours")
        ours.stop()
    images.do("buildah", "rm", container)
    assert holder(plane) == "", "given up"
    create_pod(plane, "second-gap")
    assert pods_of(plane).pop("second-gap")[1] == ""
    before = pods_of(plane)

    again = plane.start_scheduler(None, "--leader-elect=true")
    try:
        create_pod(plane, "after")
        for name in ("second-gap", "after"):
            wait_bound(plane, name)
        third = plane.api.get(LEASE)["spec"]
    finally:
        again.stop()
    held = [each["holderIdentity"] for each in (first, second, third)]
    assert len(set(held)) == 3
    assert second["leaseTransitions"] > first["leaseTransitions"]
    assert third["leaseTransitions"] > second["leaseTransitions"]
    after = pods_of(plane)
    assert {name: after[name][0] for name in before} == {name: before[name][0] for name in before}
    assert {where for _, where in after.values()} == {"node"}, "no pod was lost"
    assert set(after) == {"before", "first-gap", "with-ours", "second-gap", "after"}
