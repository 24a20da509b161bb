"""client-go's shared informers against both API servers, through our small Go program."""

from __future__ import annotations

import json
import os
import selectors
import ssl
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from stowplan.lab.controlplane import ControlPlane
from stowplan.lab.controlplane.api_access import ApiAccess
from tests.controlplane_fixtures import require_binaries
from tests.embedded_fixtures import running_embedded_server

Event = dict[str, Any]
PATIENCE_S = 30.0


class Informer:
    """The running program; `until` reads its lines, `tell` gives it a command."""

    def __init__(self, binary: Path, kubeconfig: Path, namespace: str, content_type: str) -> None:
        self._process = subprocess.Popen(
            [
                str(binary),
                f"--kubeconfig={kubeconfig}",
                f"--namespace={namespace}",
                f"--content-type={content_type}",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._process.stdout, selectors.EVENT_READ)
        self._partial = b""
        self.seen: list[Event] = []

    def tell(self, command: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n".encode())
        self._process.stdin.flush()

    def until(self, matches: Callable[[Event], bool]) -> Event:
        """The first event so far or from now on that matches."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            for event in self.seen:
                if matches(event):
                    return event
            self._read(deadline - time.monotonic())
        raise AssertionError(f"timed out; seen so far: {self.seen}")

    def _read(self, timeout_s: float) -> None:
        assert self._process.stdout is not None
        if not self._selector.select(max(0.0, timeout_s)):
            return
        chunk = self._process.stdout.read() or b""
        if not chunk and self._process.poll() is not None:
            raise AssertionError(f"the informer ended; seen so far: {self.seen}")
        *lines, self._partial = (self._partial + chunk).split(b"\n")
        self.seen += [json.loads(line) for line in lines]

    def end(self) -> str:
        """Ends it by closing its input; what it complained about."""
        assert self._process.stdin is not None
        assert self._process.stderr is not None
        self._process.stdin.close()
        assert self._process.wait(PATIENCE_S) == 0
        return self._process.stderr.read().decode()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._selector.close()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert stream is not None
            stream.close()


class Cluster:
    """An API server with a namespace and a node of its own."""

    def __init__(self, api: ApiAccess, kubeconfig: Path, drop: Callable[[], object]) -> None:
        self.api = api
        self.kubeconfig = kubeconfig
        self.drop_watches = drop
        self.namespace = f"go-{uuid.uuid4().hex[:8]}"
        self.node = f"node-{self.namespace}"
        self.pods = f"/api/v1/namespaces/{self.namespace}/pods"
        api.create("/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        api.create("/api/v1/nodes", {"metadata": {"name": self.node}})

    def create_pod(self, name: str) -> None:
        spec = {"containers": [{"name": "c", "image": "x"}], "schedulerName": "go"}
        self.api.create(self.pods, {"metadata": {"name": name}, "spec": spec})


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.e2e)])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    if request.param == "embedded":
        with running_embedded_server(tmp_path) as server:
            api = ApiAccess(server.url, ssl.create_default_context())
            yield Cluster(
                api,
                server.kubeconfig_path,
                lambda: server.call(lambda running: running.drop_watches()),
            )
        return
    require_binaries("etcd", "kube-apiserver", "kubectl")
    plane: ControlPlane = request.getfixturevalue("control_plane")
    running = Cluster(plane.api, plane.kubeconfig, lambda: None)
    yield running
    running.api.delete(f"/api/v1/nodes/{running.node}")
    running.api.delete(f"/api/v1/namespaces/{running.namespace}")


def is_event(name: str, pod: str) -> Callable[[Event], bool]:
    return lambda event: event["event"] == name and event.get("name") == pod


def synced(event: Event) -> bool:
    return bool(event["event"] == "SYNCED" and event["kind"] == "Pod")


@pytest.mark.parametrize(
    "content_type", ["application/json", "application/vnd.kubernetes.protobuf"]
)
def test_informers_sync_follow_and_bind(
    cluster: Cluster, informer_binary: Path, content_type: str
) -> None:
    cluster.create_pod("before")
    with Informer(informer_binary, cluster.kubeconfig, cluster.namespace, content_type) as informer:
        informer.until(synced)
        informer.until(is_event("ADDED", "before"))
        cluster.create_pod("after")
        added = informer.until(is_event("ADDED", "after"))
        assert "node" not in added
        informer.tell(f"bind {cluster.namespace} after {cluster.node}")
        informer.until(is_event("BOUND", "after"))
        modified = informer.until(is_event("MODIFIED", "after"))
        assert modified["node"] == cluster.node
        informer.tell(f"bind {cluster.namespace} after {cluster.node}")
        refused = informer.until(is_event("ERROR", "after"))
        assert "is already assigned to node" in refused["message"]
        cluster.api.delete(f"{cluster.pods}/before")
        informer.until(is_event("DELETED", "before"))
        informer.until(is_event("ADDED", cluster.node))
        assert "panic" not in informer.end()


def test_informers_survive_dropped_watches(cluster: Cluster, informer_binary: Path) -> None:
    with Informer(informer_binary, cluster.kubeconfig, cluster.namespace, "") as informer:
        informer.until(synced)
        for number in range(3):
            cluster.drop_watches()
            cluster.create_pod(f"pod-{number}")
            informer.until(is_event("ADDED", f"pod-{number}"))
        added = [event["name"] for event in informer.seen if event["event"] == "ADDED"]
        assert len(added) == len(set(added)), "an object was added twice"
        informer.end()
