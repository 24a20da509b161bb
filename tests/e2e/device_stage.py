"""A real control plane with devices: nodes with slices, a class, and the claim controller."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from stowplan.audit import APISERVER_FLAGS
from stowplan.lab.controlplane import ControlPlane
from stowplan.testing import as_manifest, device, device_class, node, resource_slice
from tests.controlplane_fixtures import require_binaries
from tests.waiting import wait_for

Json = dict[str, Any]

GPU = "gpu.example.com"
PODS = "/api/v1/namespaces/default/pods"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
_CONTROLLERS = "resourceclaim-controller,garbage-collector-controller"
_PATHS = {
    "Node": "/api/v1/nodes",
    "Pod": PODS,
    "DeviceClass": "/apis/resource.k8s.io/v1/deviceclasses",
    "ResourceSlice": "/apis/resource.k8s.io/v1/resourceslices",
    "ResourceClaim": CLAIMS,
    "ResourceClaimTemplate": "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates",
}
PATIENCE_S = 180.0


class DeviceStage:
    """The cluster, and what is asked of it."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane

    def add(self, *manifests: Mapping[str, Any]) -> None:
        for each in manifests:
            metadata = {
                key: value
                for key, value in each["metadata"].items()
                if key not in ("uid", "creationTimestamp")
            }
            self.plane.api.create(_PATHS[each["kind"]], {**each, "metadata": metadata})

    def pods(self) -> dict[str, str]:
        """Names of pods, and their nodes."""
        found = self.plane.api.get(PODS)["items"]
        return {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in found}

    def claims(self) -> list[Json]:
        found: list[Json] = self.plane.api.get(CLAIMS)["items"]
        return found

    def wait_bound(self, *names: str) -> None:
        def look() -> bool:
            pods = self.pods()
            return all(pods[name] for name in names)

        wait_for(f"pods {', '.join(names)} to be bound", look, PATIENCE_S)

    def remove(self, *names: str) -> None:
        for name in names:
            self.plane.api.delete(f"{PODS}/{name}", grace_seconds=0)

    def wait_free(self) -> None:
        """Until no claim holds a device, as it must be when no pod is left."""
        wait_for(
            "all claims to be free",
            lambda: not any(claim["status"] for claim in self.claims()),
            PATIENCE_S,
        )


@contextmanager
def device_stage(nodes: int = 3, devices: int = 4) -> Iterator[DeviceStage]:
    """Nodes with devices of two models in turn; on node I they have the attribute node = I."""
    require_binaries("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
    with ControlPlane(apiserver_flags=APISERVER_FLAGS) as plane:
        stage = DeviceStage(plane)
        stage.add(device_class("gpu", driver=GPU))
        for number in range(nodes):
            name = f"n{number}"
            stage.add(as_manifest(node(name)))
            made = [
                device(
                    f"d{index}",
                    attributes={"model": "AB"[index % 2], "node": number, "numa": index // 2},
                    capacity={"memory": f"{index + 1}Gi"},
                )
                for index in range(devices)
            ]
            stage.add(resource_slice(GPU, made, node=name))
        plane.start_controller_manager(controllers=_CONTROLLERS)
        yield stage
