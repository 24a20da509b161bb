"""Steps of a script, carried out on the embedded cluster: nodes, pods, namespaces, controllers."""

from __future__ import annotations

from typing import Any

import msgspec

from stowplan.apiserver.kinds import PODS
from stowplan.apiserver.paths import parse_path
from stowplan.apiserver.rest import ApiRequest
from stowplan.sim.faults.network import Network

Json = dict[str, Any]

ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
_MERGE = "application/merge-patch+json"
_DEVICES = "/apis/resource.k8s.io/v1"
_STORAGE_CLASS = {
    "metadata": {"name": "local"},
    "provisioner": "csi.simulated",
    "volumeBindingMode": "WaitForFirstConsumer",
}


class World:
    """What others than the scheduler do to the cluster."""

    def __init__(self, network: Network) -> None:
        self._network = network
        #: UIDs of pods that others than the schedulers under test put on their nodes.
        self.placed: set[str] = set()
        self.act("POST", "/apis/storage.k8s.io/v1/storageclasses", _STORAGE_CLASS)
        for name, value in (("low", 1), ("high", 1000)):
            priority_class = {"metadata": {"name": name}, "value": value}
            self.act("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", priority_class)
        for namespace in ("a", "b"):
            self.act("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})

    def act(self, method: str, path: str, body: Json | None = None) -> int:
        """Send a request of another client, which always arrives; return its status."""
        target = parse_path(path)
        assert target is not None, path
        media = _MERGE if method == "PATCH" else "application/json"
        sent = b"" if body is None else msgspec.json.encode(body)
        status, _ = self._network.answer(
            ApiRequest(method, target, {}, sent, media, "", "simulated-user")
        )
        self._network.note(f"user {method} {path} {status}")
        return status

    def add_node(
        self,
        *,
        name: str,
        cpu: int,
        zone: str = "z0",
        labels: Json | None = None,
        taint: str = "",
        pods: int = 20,
        devices: int = 0,
    ) -> None:
        amounts = {"cpu": f"{cpu}m", "memory": "16Gi", "pods": str(pods)}
        node: Json = {
            "metadata": {"name": name, "labels": {ZONE: zone, HOSTNAME: name, **(labels or {})}},
            "spec": {},
            "status": {"allocatable": amounts, "capacity": amounts},
        }
        if taint:
            node["spec"]["taints"] = [{"key": taint, "effect": "NoSchedule"}]
        self.act("POST", "/api/v1/nodes", node)
        if devices:
            self._add_devices(name, devices)

    def _add_devices(self, node: str, number: int) -> None:
        """Devices of a driver on a node, and the class of all of them."""
        self.act("POST", f"{_DEVICES}/deviceclasses", {"metadata": {"name": "device"}, "spec": {}})
        spec = {
            "driver": "device.simulated",
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"d{each}"} for each in range(number)],
        }
        self.act("POST", f"{_DEVICES}/resourceslices", {"metadata": {"name": node}, "spec": spec})

    def remove_node(self, *, name: str) -> None:
        self.act("DELETE", f"/api/v1/nodes/{name}")

    def resize_node(self, *, name: str, cpu: int) -> None:
        amounts = {"cpu": f"{cpu}m"}
        status = {"status": {"allocatable": amounts, "capacity": amounts}}
        self.act("PATCH", f"/api/v1/nodes/{name}/status", status)

    def relabel_node(self, *, name: str, labels: Json) -> None:
        self.act("PATCH", f"/api/v1/nodes/{name}", {"metadata": {"labels": labels}})

    def cordon_node(self, *, name: str, on: bool = True) -> None:
        self.act("PATCH", f"/api/v1/nodes/{name}", {"spec": {"unschedulable": on}})

    def create_pod(
        self,
        *,
        name: str,
        namespace: str = "a",
        kind: str = "plain",
        cpu: int = 100,
        priority: str = "",
        grace: int = 1,
        node: str = "",
        scheduler: str = "",
    ) -> None:
        """With `node` it is there at once, without a scheduler, as the pods of many operators."""
        pod = pod_of_kind(name, namespace, kind, cpu, priority, grace)
        if node:
            pod["spec"]["nodeName"] = node
        if scheduler:
            pod["spec"]["schedulerName"] = scheduler
        if kind == "volume":
            claim = {
                "metadata": {"name": name},
                "spec": {
                    "storageClassName": "local",
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}},
                },
            }
            self.act("POST", f"/api/v1/namespaces/{namespace}/persistentvolumeclaims", claim)
        if kind == "device":
            request = {"name": "r", "exactly": {"deviceClassName": "device"}}
            claim = {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}
            self.act("POST", f"{_DEVICES}/namespaces/{namespace}/resourceclaims", claim)
        if self.act("POST", f"/api/v1/namespaces/{namespace}/pods", pod) == 201 and node:
            self._note_placed(name, namespace)

    def bind_pod(self, *, name: str, node: str, namespace: str = "a") -> None:
        """Bind a pod as another scheduler does, or a user."""
        target = {"kind": "Node", "name": node}
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/binding"
        if self.act("POST", path, {"metadata": {"name": name}, "target": target}) == 201:
            self._note_placed(name, namespace)

    def _note_placed(self, name: str, namespace: str) -> None:
        record = self._network.cluster.store.get(PODS, namespace, name)
        assert record is not None
        self.placed.add(record.object["metadata"]["uid"])

    def delete_pod(self, *, name: str, namespace: str = "a", now: bool = False) -> None:
        options: Json = {"gracePeriodSeconds": 0} if now else {}
        self.act("DELETE", f"/api/v1/namespaces/{namespace}/pods/{name}", options)

    def namesake(self, *, name: str, namespace: str = "a", **pod: Any) -> None:
        """Delete a pod and create another of the same name at once."""
        self.delete_pod(name=name, namespace=namespace, now=True)
        self.create_pod(name=name, namespace=namespace, **pod)

    def evict_pod(self, *, name: str, namespace: str = "a") -> None:
        eviction = {"metadata": {"name": name, "namespace": namespace}}
        self.act("POST", f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", eviction)

    def delete_namespace(self, *, name: str) -> None:
        self.act("DELETE", f"/api/v1/namespaces/{name}")

    def compact(self) -> None:
        """Forget the history: watches that reconnect get 410."""
        self._network.cluster.compact()

    def drop_watches(self) -> None:
        self._network.cluster.drop_watches()

    def restart_apiserver(self) -> None:
        """All watches end, and their history is gone."""
        self.compact()
        self.drop_watches()


def pod_of_kind(name: str, namespace: str, kind: str, cpu: int, priority: str, grace: int) -> Json:
    container: Json = {
        "name": "c",
        "image": "i",
        "resources": {"requests": {"cpu": f"{cpu}m", "memory": "64Mi"}},
    }
    spec: Json = {"containers": [container], "terminationGracePeriodSeconds": grace}
    labels = {"app": kind}
    if priority:
        spec["priorityClassName"] = priority
    match kind:
        case "spread":
            spec["topologySpreadConstraints"] = [
                {
                    "maxSkew": 1,
                    "topologyKey": ZONE,
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {"matchLabels": {"app": kind}},
                }
            ]
        case "apart":
            term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": kind}}}
            spec["affinity"] = {
                "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
            }
        case "port":
            container["ports"] = [{"containerPort": 80, "hostPort": 8080}]
        case "ssd":
            spec["nodeSelector"] = {"disk": "ssd"}
        case "tolerant":
            spec["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
        case "volume":
            spec["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]
        case "device":
            spec["resourceClaims"] = [{"name": "d", "resourceClaimName": name}]
            container["resources"]["claims"] = [{"name": "d"}]
    return {"metadata": {"name": name, "namespace": namespace, "labels": labels}, "spec": spec}
