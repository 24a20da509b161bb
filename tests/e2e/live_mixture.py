"""Sixty nodes and five hundred pods from one seed, with all that the default profile reads.

A pod is a set of containers and up to three traits. Between pods, some that came before go, linger
with a finalizer, or get other labels, so that whatever is counted goes down as well as up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tests.e2e.live_nodes import GPU, HUGE, IMAGES, nodes
from tests.e2e.live_storage import Request, Storage
from tests.e2e.live_traits import APPS, NAMESPACES, TIERS, Traits
from tests.parity.generate.dice import Dice

Json = dict[str, Any]


@dataclass(frozen=True)
class Change:
    """What happens to a pod that came before, if it was placed: it goes, lingers or changes."""

    what: str
    namespace: str
    name: str
    labels: Json


class Mixture:
    """What is created before the scheduler starts, then the nodes, then the pods."""

    #: By name, what a class of priority says.
    priority_classes: ClassVar[dict[str, Json]] = {"urgent": {"value": 1000}, "lazy": {"value": -5}}
    #: How many of the pods have one.
    with_priority: ClassVar = 0.15
    grace_s: ClassVar = 0
    cpu: ClassVar = ["0", "1m", "50m", "100m", "200m", "0.3", "1"]
    memory: ClassVar = ["0", "64Mi", "200M", "512Mi", "1Gi"]

    def __init__(self, seed: int, nodes_wanted: int = 60, pods_wanted: int = 500) -> None:
        self._dice = Dice(seed)
        self.nodes = nodes(self._dice, nodes_wanted)
        self._storage = Storage(self._dice, self.nodes)
        self._storage.prepare(local_disks=60)
        self._traits = Traits(self._dice, self.nodes, self._storage)
        #: By namespace, what pods may be owned by.
        self._owners: dict[str, list[Json]] = {}
        self._workloads()
        self.pods = [self._pod(number) for number in range(pods_wanted)]
        #: By the number of the pod after which it happens.
        self.changes = {
            number: self._change(number) for number in range(20, pods_wanted) if number % 5 == 0
        }

    @property
    def preparations(self) -> list[Request]:
        return self._storage.requests

    @property
    def phases(self) -> dict[str, str]:
        """By claim, what must have become of it before the play begins."""
        return self._storage.phases

    # What pods belong to

    def _workloads(self) -> None:
        """Namespaces, classes of priority and runtime, services, replica sets."""
        for name, labels in NAMESPACES.items():
            if name != "default":
                self._post("/api/v1/namespaces", name, metadata={"labels": labels})
        for name, body in self.priority_classes.items():
            self._post("/apis/scheduling.k8s.io/v1/priorityclasses", name, **body)
        self._post(
            "/apis/node.k8s.io/v1/runtimeclasses",
            "walled",
            handler="walled",
            overhead={"podFixed": {"cpu": "250m", "memory": "120Mi"}},
        )
        for namespace in NAMESPACES:
            self._owners[namespace] = []
            for app in self._dice.sample(APPS, 2):
                path = f"/api/v1/namespaces/{namespace}/services"
                self._post(path, app, spec={"selector": {"app": app}, "ports": [{"port": 80}]})
            for kind in ("ReplicaSet", "StatefulSet", "ReplicationController"):
                tier = self._dice.choice(TIERS)
                self._owner(namespace, kind, {"app": self._dice.choice(APPS), "tier": tier})

    def _owner(self, namespace: str, kind: str, labels: Json) -> None:
        """Without replicas: nobody is there to make them."""
        group = "v1" if kind == "ReplicationController" else "apps/v1"
        spec: Json = {
            "replicas": 0,
            "selector": labels if group == "v1" else {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": "web"}]},
            },
        }
        root = "/api/v1" if group == "v1" else "/apis/apps/v1"
        name = f"{labels['app']}-{labels['tier']}"
        self._post(f"{root}/namespaces/{namespace}/{kind.lower()}s", name, spec=spec)
        reference = {
            "apiVersion": group,
            "kind": kind,
            "name": name,
            "uid": "6f2b8c9e-0000-4000-8000-000000000000",
            "controller": True,
        }
        self._owners[namespace].append({"reference": reference, "labels": labels})

    def _post(self, path: str, name: str, metadata: Json | None = None, **body: Any) -> None:
        body["metadata"] = {"name": name, **(metadata or {})}
        self._storage.requests.append(Request(path, body))

    # Pods

    def _pod(self, number: int) -> Json:
        dice = self._dice
        namespace = dice.choice(list(NAMESPACES))
        labels: Json = {"app": dice.choice(APPS), "tier": dice.choice(TIERS)}
        if dice.often(0.5):
            labels["rev"] = dice.choice(["1", "2"])
        metadata: Json = {"name": f"pod-{number}", "namespace": namespace, "labels": labels}
        if dice.often(0.4):
            owner = dice.choice(self._owners[namespace])
            labels |= owner["labels"]
            metadata["ownerReferences"] = [owner["reference"]]
        pod: Json = {
            "metadata": metadata,
            "spec": {"terminationGracePeriodSeconds": self.grace_s, **self._resources()},
        }
        self._traits.add_to(pod)
        return pod

    def _change(self, number: int) -> Change:
        pod = self._dice.choice(self.pods[:number])["metadata"]
        what = self._dice.choice(["delete", "delete", "linger", "relabel"])
        labels = {"app": self._dice.choice(APPS), "tier": self._dice.choice([None, *TIERS])}
        return Change(what, pod["namespace"], pod["name"], labels)

    # Resources

    def _resources(self) -> Json:
        dice = self._dice
        count = dice.choice([1, 1, 1, 2])
        spec: Json = {"containers": [self._container(f"c{index}") for index in range(count)]}
        if dice.often(0.2):
            spec["initContainers"] = [self._container("i0")]
            if dice.often(0.5):
                spec["initContainers"][0]["restartPolicy"] = "Always"
            if dice.often(0.3):
                spec["initContainers"].append(self._container("i1"))
        if dice.often(0.08):
            spec["runtimeClassName"] = "walled"
        if dice.often(self.with_priority):
            spec["priorityClassName"] = dice.choice(list(self.priority_classes))
        if dice.often(0.08):
            self._as_a_whole(spec)
        return spec

    def _container(self, name: str) -> Json:
        dice = self._dice
        requests: Json = {}
        limits: Json = {}
        if dice.often(0.8):
            requests["cpu"] = dice.choice(self.cpu)
        if dice.often(0.8):
            requests["memory"] = dice.choice(self.memory)
        if dice.often(0.15):
            requests["ephemeral-storage"] = dice.choice(["100Mi", "1Gi", "3Gi"])
        if dice.often(0.1):
            limits[GPU] = requests[GPU] = dice.choice(["0", "1", "1", "2"])
        if dice.often(0.06):
            limits[HUGE] = requests[HUGE] = "32Mi"
            requests.setdefault("cpu", "10m")
        if dice.often(0.15):
            # Without a request, the API server takes the limit for one.
            limits["cpu"] = "1500m"
        image = dice.choice(list(IMAGES)) if dice.often(0.6) else "unheard-of"
        return {
            "name": name,
            "image": image,
            "resources": {"requests": requests, "limits": limits},
        }

    def _as_a_whole(self, spec: Json) -> None:
        """Requests of the pod, which are no less than those of its containers together."""
        for container in (*spec["containers"], *spec.get("initContainers", ())):
            container["resources"] = {"requests": {"cpu": "50m", "memory": "32Mi"}}
        spec["resources"] = {
            "requests": {"cpu": self._dice.choice(["1", "2"]), "memory": "1Gi"},
            "limits": {"memory": "2Gi"},
        }
