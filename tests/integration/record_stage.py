"""A cluster that is recorded by a process, and what the recording says of it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stowplan.api.client import ApiClient
from stowplan.api.kubeconfig import ClusterConfig
from stowplan.api.resources import NODES, PODS
from stowplan.recording.entries import Entry, EntryType
from stowplan.recording.probe import is_recording
from stowplan.recording.reading import Problems, read_sessions
from stowplan.workloads.kinds import find_resource
from tests.embedded_fixtures import EmbeddedServer
from tests.waiting import wait_for

STOWPLAN = (sys.executable, "-m", "stowplan")


class Stage:
    """Objects of the cluster that is recorded."""

    def __init__(self, server: EmbeddedServer) -> None:
        self._server = server

    def node(self, name: str, cpu: str = "4") -> None:
        offers = {"cpu": cpu, "memory": "8Gi", "pods": "20"}
        node = {"metadata": {"name": name}, "status": {"allocatable": offers, "capacity": offers}}

        async def create(client: ApiClient) -> None:
            await client.create(NODES, node)

        self._do(create)

    def create(self, manifest: dict[str, Any]) -> None:
        resource = find_resource(manifest["apiVersion"], manifest["kind"])
        assert resource is not None
        namespace = manifest["metadata"].get("namespace", "")

        async def create(client: ApiClient) -> None:
            await client.create(resource, manifest, namespace=namespace)

        self._do(create)

    def node_of(self, pod: str) -> str:
        async def get(client: ApiClient) -> str:
            return (await client.get(PODS, pod, namespace="default")).spec.node_name

        return str(self._do(get))

    def pod(
        self,
        name: str,
        node: str = "",
        *,
        cpu: str = "500m",
        claims: list[Any] | None = None,
        resources: dict[str, str] | None = None,
        scheduler: str = "default-scheduler",
    ) -> None:
        container = {
            "name": "c",
            "image": "example.test/x",
            "env": [{"name": "PASSWORD", "value": "s3cret"}],
            "resources": {"requests": {"cpu": cpu, **(resources or {})}, "limits": resources or {}},
        }
        spec: dict[str, Any] = {"containers": [container], "schedulerName": scheduler}
        if claims:
            spec["resourceClaims"] = claims

        async def create(client: ApiClient) -> None:
            pod = {"metadata": {"name": name}, "spec": spec}
            await client.create(PODS, pod, namespace="default")
            if node:
                created = await client.get(PODS, name, namespace="default")
                await client.bind("default", name, created.metadata.uid, node)

        self._do(create)

    def delete(self, name: str) -> None:
        async def delete(client: ApiClient) -> None:
            await client.delete(PODS, name, namespace="default", grace_period_s=0)

        self._do(delete)

    def _do(self, work: Any) -> Any:
        async def run() -> Any:
            async with ApiClient(ClusterConfig(server=self._server.url)) as client:
                return await work(client)

        return self._server.run(run())


@contextmanager
def recorder(kubeconfig: Path, path: Path | str, *options: str) -> Iterator[subprocess.Popen[str]]:
    command = [*STOWPLAN, "record", str(path), "--kubeconfig", str(kubeconfig), *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def entries(path: Path) -> list[Entry]:
    if not is_recording(path):  # nothing is in it yet
        return []
    return [entry for session in read_sessions(path, Problems()) for entry in session.entries]


def bound(path: Path) -> dict[str, str]:
    """The nodes of pods as the file tells them."""
    found: dict[str, str] = {}
    for entry in entries(path):
        if entry.kind == "Pod" and entry.type in (EntryType.ADDED, EntryType.MODIFIED):
            pod = json.loads(bytes(entry.object))
            found[pod["metadata"]["name"]] = pod["spec"].get("nodeName", "")
    return found


def wait_until_bound(path: Path, **pods: str) -> None:
    wait_for(f"{pods} in the file", lambda: pods.items() <= bound(path).items())


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*STOWPLAN, *arguments], capture_output=True, text=True, timeout=120, check=False
    )


@contextmanager
def scheduler(
    kubeconfig: Path, *options: str, stowplan: tuple[str, ...] = STOWPLAN
) -> Iterator[subprocess.Popen[str]]:
    flags = ["--leader-elect=false", "--secure-port=0", *options]
    command = [*stowplan, "run", "--kubeconfig", str(kubeconfig), *flags]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()
