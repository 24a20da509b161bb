"""An embedded API server in the test's own loop, with nodes and pods of apps."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from stowplan.api.objects import OwnerReference
from stowplan.apiserver.faults import Fault
from stowplan.apiserver.kubelet import KubeletOptions
from stowplan.apiserver.server import ApiServer
from stowplan.extender.kubeapi import Kubeapi
from stowplan.testing import as_manifest, node, pod
from tests.unit.api.api_kit import until

OWNER = OwnerReference(
    kind="StatefulSet", name="web", uid="1", api_version="apps/v1", controller=True
)


@dataclass
class Cluster:
    server: ApiServer

    @property
    def port(self) -> int:
        return int(self.server.url.rpartition(":")[2])

    def node(self, name: str, **options: Any) -> None:
        self.server.create("", "v1", "nodes", as_manifest(node(name, **options)))

    def pod(self, name: str, app: str = "web", namespace: str = "default", **options: Any) -> None:
        built = pod(name, namespace=namespace, labels={"app": app}, **{"owner": OWNER, **options})
        self.server.create("", "v1", "pods", as_manifest(built), namespace=namespace)

    def namespace(self, name: str) -> None:
        manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        self.server.create("", "v1", "namespaces", manifest)

    def fault(self, path: str, **options: Any) -> Fault:
        wrong = Fault(path, **options)
        self.server.faults.append(wrong)
        return wrong

    def kubeapi(self, **options: Any) -> Kubeapi:
        return Kubeapi("http://127.0.0.1", self.port, **options)


@asynccontextmanager
async def running_cluster(port: int = 0) -> AsyncIterator[Cluster]:
    server = ApiServer(kubelet=KubeletOptions(enabled=False))
    await server.start(port=port)
    try:
        yield Cluster(server)
    finally:
        await server.stop()


@asynccontextmanager
async def following(kubeapi: Kubeapi) -> AsyncIterator[Kubeapi]:
    """Until it knows all there is."""
    await kubeapi.start()
    try:
        await until(lambda: kubeapi.is_synced)
        yield kubeapi
    finally:
        await kubeapi.stop()
