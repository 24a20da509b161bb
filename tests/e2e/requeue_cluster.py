"""A real API server with a scheduler on it, for pods that wait for one thing to happen.

Objects are made with plain requests. The number of failed attempts of a pod is read from the
scheduler's log: neither conditions nor event series are written for every attempt.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from stowplan.lab.controlplane.api_access import ApiAccess, ApiError
from tests.waiting import wait_for

Json = dict[str, Any]

NODES = "/api/v1/nodes"
PODS = "/api/v1/namespaces/default/pods"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
CSI_NODES = "/apis/storage.k8s.io/v1/csinodes"
_DEVICES = "/apis/resource.k8s.io/v1"
RESOURCE_CLAIMS = f"{_DEVICES}/namespaces/default/resourceclaims"
SLICES = f"{_DEVICES}/resourceslices"
DEVICE_CLASSES = f"{_DEVICES}/deviceclasses"
#: In the order in which they can be removed.
_ALL = (
    *(PODS, NODES, CLAIMS, VOLUMES, CLASSES, CSI_NODES),
    *(RESOURCE_CLAIMS, SLICES, DEVICE_CLASSES),
)
_KINDS = {
    NODES: ("v1", "Node"),
    PODS: ("v1", "Pod"),
    CLAIMS: ("v1", "PersistentVolumeClaim"),
    VOLUMES: ("v1", "PersistentVolume"),
    CLASSES: ("storage.k8s.io/v1", "StorageClass"),
    CSI_NODES: ("storage.k8s.io/v1", "CSINode"),
    RESOURCE_CLAIMS: ("resource.k8s.io/v1", "ResourceClaim"),
    SLICES: ("resource.k8s.io/v1", "ResourceSlice"),
    DEVICE_CLASSES: ("resource.k8s.io/v1", "DeviceClass"),
}
#: Long enough for a pod that comes back by mistake to be tried.
_QUIET_S = 0.5


class Cluster:
    """`failed` is the text before the pod's name in the log line of a failed attempt."""

    def __init__(self, api: ApiAccess, log: Path, failed: str) -> None:
        self.api = api
        self._log = log
        self._failed = failed

    # Things that happen

    def create(self, path: str, name: str, **fields: Any) -> None:
        version, kind = _KINDS[path]
        metadata = {"name": name, **fields.pop("metadata", {})}
        body = {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}
        self.api.create(path, body)

    def node(self, name: str = "n1", *, cpu: str = "4", **spec: Any) -> None:
        labels = {"kubernetes.io/hostname": name, **spec.pop("labels", {})}
        offers = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
        status = {"capacity": offers, "allocatable": offers}
        self.create(NODES, name, metadata={"labels": labels}, spec=spec, status=status)

    def pod(self, name: str, *, on: str = "", labels: Json | None = None, **spec: Any) -> None:
        """A pod for Stowplan, or one that stands on a node already."""
        container: Json = {"name": "main", "image": "example.test/main:1"}
        container |= spec.pop("container", {})
        container.setdefault("resources", {"requests": {"cpu": "100m"}})
        self.create(
            PODS,
            name,
            metadata={"labels": labels or {}},
            spec={"containers": [container], **({"nodeName": on} if on else {}), **spec},
        )

    def patch(self, path: str, **fields: Any) -> None:
        self.api.patch(path, fields)

    def tolerate(self, name: str, toleration: Json) -> None:
        """One more: the server takes no change of those that are there."""
        path = f"{PODS}/{name}"
        present = self.api.get(path)["spec"].get("tolerations", [])
        self.patch(path, spec={"tolerations": [*present, toleration]})

    def delete(self, path: str) -> None:
        self.api.delete(path, grace_seconds=0)

    # Looking

    def wait_rejected(self, name: str, message: str) -> None:
        """Until the pod's condition says so, and the scheduler has let go of it."""

        def look() -> bool:
            conditions = self.api.get(f"{PODS}/{name}")["status"].get("conditions", [])
            texts = [c.get("message", "") for c in conditions if c["status"] == "False"]
            return any(message in text for text in texts)

        if message:
            wait_for(f"{name} to wait because of {message!r}", look)
        before = -1
        while before != (before := self.failures(name)):
            time.sleep(_QUIET_S)

    def failures(self, name: str) -> int:
        """Failed attempts of the pod, including those in earlier rows."""
        return self._log.read_text().count(f'"{self._failed}" pod="default/{name}" ')

    def stays(self, name: str) -> int:
        """Failed attempts of the pod, after time enough for another one."""
        time.sleep(_QUIET_S)
        assert not self.api.get(f"{PODS}/{name}")["spec"].get("nodeName"), f"{name} was bound"
        return self.failures(name)

    def wait_bound(self, name: str) -> str:
        def look() -> str | None:
            node: str | None = self.api.get(f"{PODS}/{name}")["spec"].get("nodeName")
            return node

        return wait_for(f"{name} to be bound; {self.failures(name)} attempts failed", look)

    # The end

    def clean(self) -> None:
        for path in _ALL:
            for thing in self.api.get(path)["items"]:
                self._remove(f"{path}/{thing['metadata']['name']}", thing)
        for path in _ALL:
            wait_for(f"{path} to be empty", lambda path=path: not self.api.get(path)["items"])  # type: ignore[misc]  # mypy: a lambda with a default

    def _remove(self, path: str, thing: Json) -> None:
        try:
            if thing["metadata"].get("finalizers"):
                # The controllers that would say that it may go are not running.
                self.api.patch(path, {"metadata": {"finalizers": None}})
            self.api.delete(path, grace_seconds=0)
        except ApiError as problem:
            if problem.status != 404:
                raise
