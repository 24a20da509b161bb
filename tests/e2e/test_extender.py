"""The real kube-scheduler asks our extender: filter, prioritize, preempt and bind, with names of
nodes and with whole nodes; an extender that fails, and one that is gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from stowplan.lab.controlplane import ControlPlane
from tests.controlplane_fixtures import require_binaries
from tests.e2e.schedulers import kube_scheduler
from tests.integration.extender_kit import ExtenderProcess, extender
from tests.unit.api.tls_kit import Authority
from tests.waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

REPOSITORY = Path(__file__).parents[2]
EXAMPLE = REPOSITORY / "examples" / "extender"
PODS = "/api/v1/namespaces/default/pods"
LABELS = "algorithms: [tests.e2e.extender_algorithms:Labels]\nalgorithm: !Labels\n"
BINDER = "algorithms: [tests.e2e.extender_algorithms:Binder]\nalgorithm: !Binder\n"
CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: false
podInitialBackoffSeconds: 1
podMaxBackoffSeconds: 1
extenders:
- urlPrefix: {url}
  filterVerb: filter
  prioritizeVerb: prioritize
  preemptVerb: preempt
  weight: 1000
  nodeCacheCapable: {cached}
  ignorable: {ignorable}
"""


class Stage:
    """A control plane of this module's own, with nodes and no scheduler yet."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        for name in ("a-1", "a-2", "b-1", "b-2"):
            offers = {"cpu": "4", "memory": "16Gi", "pods": "110"}
            plane.api.create(
                "/api/v1/nodes",
                {
                    "metadata": {"name": name},
                    "status": {"capacity": offers, "allocatable": offers},
                },
            )
        plane.api.create(
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            {"metadata": {"name": "urgent"}, "value": 1000},
        )

    def create(self, name: str, cpu: str = "100m", priority: str = "", **labels: str) -> None:
        container = {
            "name": "c",
            "image": "example.test/c:1",
            "resources": {"requests": {"cpu": cpu}},
        }
        spec: dict[str, Any] = {"containers": [container], "terminationGracePeriodSeconds": 0}
        if priority:
            spec["priorityClassName"] = priority
        self.plane.api.create(PODS, {"metadata": {"name": name, "labels": labels}, "spec": spec})

    def pod(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.plane.api.get(f"{PODS}/{name}")
        return found

    def node_of(self, name: str) -> str:
        def look() -> str:
            return str(self.pod(name)["spec"].get("nodeName", ""))

        return wait_for(f"{name} to be bound", look)

    def waits_for(self, name: str) -> str:
        """Why a pod is not bound."""

        def look() -> str:
            conditions = self.pod(name).get("status", {}).get("conditions", [])
            return next((str(c.get("message", "")) for c in conditions), "")

        return wait_for(f"{name} to be refused", look)

    def clear(self) -> None:
        for pod in self.plane.api.get(PODS)["items"]:
            self.plane.kubectl(
                "delete", "pod", pod["metadata"]["name"], "--grace-period=0", "--force", check=True
            )


@pytest.fixture(scope="module")
def plane() -> Iterator[Stage]:
    require_binaries("etcd", "kube-apiserver", "kubectl", "kube-scheduler")
    with ControlPlane() as running:
        yield Stage(running)


@pytest.fixture
def stage(plane: Stage) -> Iterator[Stage]:
    yield plane
    plane.clear()


@contextmanager
def served(
    stage: Stage,
    directory: Path,
    algorithm: str,
    *,
    cached: bool = True,
    ignorable: bool = False,
    more: str = "",
    env: dict[str, str] | None = None,
) -> Iterator[ExtenderProcess]:
    """An extender and a kube-scheduler that asks it."""
    with extender(directory, algorithm, env=env) as running:
        config = CONFIG.format(
            url=running.url, cached=str(cached).lower(), ignorable=str(ignorable).lower()
        )
        with kube_scheduler(stage.plane, config + more):
            yield running


@pytest.mark.parametrize("cached", [True, False], ids=["names", "whole nodes"])
def test_filter_and_prioritize(stage: Stage, tmp_path: Path, cached: bool) -> None:
    with served(stage, tmp_path, LABELS, cached=cached) as running:
        stage.create("free")
        assert stage.node_of("free") == "b-2"  # the best by our scores
        for node in ("a-1", "a-2", "b-1"):
            stage.create(f"only-{node}", only=node)
            assert stage.node_of(f"only-{node}") == node
        stage.create("nowhere", only="c-1")
        assert stage.waits_for("nowhere").startswith("0/4 nodes are available: 4 not c-1.")
        stage.create("broken", fail="no-such-app")
        failure = stage.waits_for("broken")
        assert failure.startswith("Labels.filter: LookupError: no-such-app (")
        assert "extender_algorithms.py:" in failure
        assert running.log.count("The algorithm failed") >= 1
        assert "clamped" not in running.log
        assert running.end() == 0


@pytest.mark.parametrize("cached", [True, False], ids=["names", "whole nodes"])
def test_preempt(stage: Stage, tmp_path: Path, cached: bool) -> None:
    with served(stage, tmp_path, LABELS, cached=cached):
        for node in ("a-1", "a-2", "b-1", "b-2"):
            stage.create(f"full-{node}", cpu="4", only=node)
            assert stage.node_of(f"full-{node}") == node
        for node in ("b-1", "a-2"):
            stage.create(f"urgent-{node}", cpu="3", priority="urgent", evict=node)
            assert stage.node_of(f"urgent-{node}") == node
        names = {pod["metadata"]["name"] for pod in stage.plane.api.get(PODS)["items"]}
        assert names == {"full-a-1", "urgent-a-2", "urgent-b-1", "full-b-2"}


def test_bind(stage: Stage, tmp_path: Path) -> None:
    env = {
        "BINDER_SERVER": stage.plane.url,
        "BINDER_TOKEN": stage.plane.admin_token,
        "BINDER_CA": str(stage.plane.certificate_authority),
    }
    with served(stage, tmp_path, BINDER, more="  bindVerb: bind\n", env=env):
        stage.create("free", only="b-1")
        assert stage.node_of("free") == "b-1"
        assert stage.pod("free")["metadata"]["annotations"]["bound-by"] == "extender"
        stage.create("refused")
        wait_for(
            "the refusal to be told",
            lambda: any(
                "the binder does not like its name" in event.get("note", "")
                for event in stage.plane.api.get(
                    "/apis/events.k8s.io/v1/namespaces/default/events"
                )["items"]
            ),
        )


@pytest.mark.parametrize("ignorable", [True, False], ids=["ignorable", "needed"])
def test_an_extender_that_is_gone(stage: Stage, tmp_path: Path, ignorable: bool) -> None:
    with served(stage, tmp_path, LABELS, ignorable=ignorable) as running:
        url = running.url
        stage.create("before", only="a-1")
        assert stage.node_of("before") == "a-1"
        running.process.kill()
        running.process.wait()
        stage.create("after", only="a-1")
        if ignorable:
            assert stage.node_of("after")
        else:
            assert f'Post "{url}/filter": dial tcp' in stage.waits_for("after")
            assert "nodeName" not in stage.pod("after")["spec"]


def test_https_with_a_client_certificate_and_files_that_change(
    stage: Stage, tmp_path: Path
) -> None:
    server, clients = Authority("server"), Authority("clients")
    pairs = {"server": server.server(), "client": clients.client("kube-scheduler")}
    for name, pair in pairs.items():
        (tmp_path / f"{name}.crt").write_bytes(pair.cert)
        (tmp_path / f"{name}.key").write_bytes(pair.key)
    (tmp_path / "server-ca.crt").write_bytes(server.cert)
    (tmp_path / "client-ca.crt").write_bytes(clients.cert)
    flags = (
        f"--tls-cert-file={tmp_path}/server.crt",
        f"--tls-private-key-file={tmp_path}/server.key",
        f"--client-ca-file={tmp_path}/client-ca.crt",
    )
    tls = f"""\
  enableHTTPS: true
  tlsConfig:
    caFile: {tmp_path}/server-ca.crt
    certFile: {tmp_path}/client.crt
    keyFile: {tmp_path}/client.key
"""
    with extender(tmp_path, LABELS, *flags) as running:
        url = f"https://127.0.0.1:{running.port}"
        config = CONFIG.format(url=url, cached="false", ignorable="false") + tls
        with kube_scheduler(stage.plane, config):
            stage.create("before", only="a-1")
            assert stage.node_of("before") == "a-1"
        renewed = server.server()
        (tmp_path / "server.crt").write_bytes(renewed.cert)
        (tmp_path / "server.key").write_bytes(renewed.key)
        wait_for("the new certificate", lambda: "Changed files are in use" in running.log)
        with kube_scheduler(stage.plane, config):
            stage.create("after", only="a-2")
            assert stage.node_of("after") == "a-2"
        without = config.replace("    certFile", "    #").replace("    keyFile", "    #")
        with kube_scheduler(stage.plane, without):
            stage.create("stranger")
            assert "code 401" in stage.waits_for("stranger")


def test_the_example(stage: Stage, tmp_path: Path) -> None:
    """examples/extender, with only the port another."""
    config = (EXAMPLE / "config.yaml").read_text()
    written = (EXAMPLE / "kube-scheduler.yaml").read_text()
    assert "http://127.0.0.1:31800" in written
    with extender(tmp_path, config, f"--plugins={EXAMPLE}", is_cold=True) as running:
        with kube_scheduler(stage.plane, written.replace("http://127.0.0.1:31800", running.url)):
            stage.create("of-a", rack="a")
            assert stage.node_of("of-a") == "a-2"
            stage.create("of-c", rack="c")
            assert stage.waits_for("of-c").startswith(
                "0/4 nodes are available: 4 node(s) not in rack c."
            )
        assert "[Filter] Trying to filter nodes for Pod 'of-a'" in running.log
