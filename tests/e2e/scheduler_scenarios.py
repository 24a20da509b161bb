"""Random but repeatable clusters and pods for the comparison with kube-scheduler."""

from __future__ import annotations

import random
from typing import Any

from tests.e2e.scheduler_play import Step

Json = dict[str, Any]

GPU = "example.com/gpu"
NIC = "other.example.com/nic"
PRIORITY_CLASSES = {"parity-high": 1000, "parity-low": -5}
_EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")
_TAINTS = ("team", "disk")


class Scenarist:
    """Makes manifests from one seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._names = 0

    def _name(self, kind: str) -> str:
        # Not in the order of the alphabet: a list would be sorted by name, arrivals are not.
        self._names += 1
        return f"{self._random.choice('zmqa')}-{kind}-{self._names}"

    # Nodes

    def node(self) -> Step:
        labels = {}
        if self._random.random() < 0.8:
            labels["topology.kubernetes.io/zone"] = self._random.choice(["z1", "z2", "z3"])
        if self._random.random() < 0.2:
            labels["failure-domain.beta.kubernetes.io/region"] = "r1"
        spec: Json = {"taints": self.taints()}
        if self._random.random() < 0.1:
            spec["unschedulable"] = True
        offers = self.offers()
        status = {"capacity": offers, "allocatable": offers}
        body = {"metadata": {"labels": labels}, "spec": spec, "status": status}
        return Step("node", self._name("node"), body)

    def offers(self) -> Json:
        pick = self._random.choice
        offers = {
            "cpu": pick(["1", "2", "3500m", "4", "8"]),
            "memory": pick(["1Gi", "2Gi", "3G", "8Gi"]),
            "pods": pick(["3", "8", "110"]),
        }
        if self._random.random() < 0.5:
            offers["ephemeral-storage"] = pick(["1Gi", "10Gi"])
        if self._random.random() < 0.4:
            offers[GPU] = pick(["1", "4", "8"])
        if self._random.random() < 0.2:
            offers["hugepages-2Mi"] = pick(["0", "64Mi"])
        return offers

    def taints(self) -> list[Json]:
        if self._random.random() < 0.6:
            return []
        keys = self._random.sample(_TAINTS, self._random.randint(1, 2))
        return [
            {
                "key": key,
                "value": self._random.choice(["a", "b"]),
                "effect": self._random.choice(_EFFECTS),
            }
            for key in keys
        ]

    # Pods

    def pod(self) -> Step:
        spec: Json = {
            "containers": [self._container(f"c{i}") for i in range(self._random.choice([1, 1, 2]))],
            "tolerations": self._tolerations(),
        }
        if self._random.random() < 0.25:
            first = self._container("i0")
            if self._random.random() < 0.5:
                first["restartPolicy"] = "Always"
            spec["initContainers"] = [first]
        if self._random.random() < 0.15:
            spec["priorityClassName"] = self._random.choice(list(PRIORITY_CLASSES))
        if self._random.random() < 0.1:
            # Large enough for any container here, as validation demands.
            spec["resources"] = {"requests": {"cpu": "3", "memory": "4Gi"}}
            for container in (*spec["containers"], *spec.get("initContainers", ())):
                container["resources"].pop("limits", None)
                container["resources"]["requests"] = {"cpu": "50m"}
        return Step("pod", self._name("pod"), spec)

    def _container(self, name: str) -> Json:
        pick, chance = self._random.choice, self._random.random
        requests: Json = {}
        limits: Json = {}
        if chance() < 0.8:
            requests["cpu"] = pick(["0", "1m", "100m", "250m", "0.3", "1", "2500m"])
        if chance() < 0.8:
            requests["memory"] = pick(["0", "1", "64Mi", "200M", "1Gi", "1.5Gi"])
        if chance() < 0.2:
            requests["ephemeral-storage"] = pick(["100Mi", "2Gi"])
        if chance() < 0.15:
            limits[GPU] = requests[GPU] = pick(["0", "1", "2", "3"])
        if chance() < 0.05:
            limits[NIC] = requests[NIC] = "1"
        if chance() < 0.08:
            limits["hugepages-2Mi"] = requests["hugepages-2Mi"] = "32Mi"
            requests.setdefault("cpu", "10m")
        if chance() < 0.2:
            # Without a request, the API server takes the limit for one.
            limits["cpu"] = "2500m"
        return {
            "name": name,
            "image": "main",
            "resources": {"requests": requests, "limits": limits},
        }

    def _tolerations(self) -> list[Json]:
        tolerations = []
        for _ in range(self._random.choice([0, 0, 1, 2])):
            toleration: Json = {"operator": "Exists"}
            if self._random.random() < 0.8:
                toleration["key"] = self._random.choice(
                    [*_TAINTS, "node.kubernetes.io/unschedulable"]
                )
                if self._random.random() < 0.5:
                    toleration |= {"operator": "Equal", "value": self._random.choice(["a", "b"])}
            if self._random.random() < 0.6:
                toleration["effect"] = self._random.choice(_EFFECTS)
            tolerations.append(toleration)
        return tolerations

    # Scenarios

    def steady(self, nodes: int, pods: int) -> list[Step]:
        """Pods come one after the other, and those that fit nowhere stay around."""
        return [
            *(self.node() for _ in range(nodes)),
            Step("barrier"),
            *(self.pod() for _ in range(pods)),
        ]

    def churn(self, nodes: int, rounds: int, pods: int) -> list[Step]:
        """Nodes and pods change between rounds of new pods.

        A round's pods are gone before nodes change: whoever still waited would be tried again at
        a moment that nobody can foresee.
        """
        steps = [self.node() for _ in range(nodes)]
        names = [step.name for step in steps]
        placed: list[str] = []
        for _ in range(rounds):
            steps += [self._change(names) for _ in range(3)]
            steps.append(Step("barrier"))
            new = [self.pod() for _ in range(pods)]
            for pod in new:
                steps += [pod, Step("forget_pending", pod.name)]
            placed += [pod.name for pod in new]
            for name in self._random.sample(placed, 2):
                placed.remove(name)
                steps.append(Step("delete_if_there", name))
        return steps

    def _change(self, names: list[str]) -> Step:
        kind = self._random.choice(["add", "remove", "relabel", "taint", "cordon", "resize"])
        if kind == "add":
            step = self.node()
            names.append(step.name)
            return step
        name = self._random.choice(names)
        if kind == "remove" and len(names) > 3:
            names.remove(name)
            return Step("delete_node", name)
        if kind == "relabel":
            zone = {"topology.kubernetes.io/zone": self._random.choice(["z1", "z2", "z9"])}
            return Step("change_node", name, {"metadata": {"labels": zone}})
        if kind == "taint":
            return Step("change_node", name, {"spec": {"taints": self.taints()}})
        if kind == "cordon":
            cordoned = self._random.random() < 0.5
            return Step("change_node", name, {"spec": {"unschedulable": cordoned}})
        offers = self.offers()
        return Step("change_node", name, {"status": {"capacity": offers, "allocatable": offers}})

    def sampled(self, nodes: int, pods: int) -> list[Step]:
        """More nodes than are looked at for one pod; nobody waits, so the cursor is certain."""
        steps = [self.node() for _ in range(nodes)]
        steps.append(Step("barrier"))
        for _ in range(pods):
            pod = self.pod()
            steps += [pod, Step("forget_pending", pod.name)]
        return steps


def waking() -> list[Step]:
    """One pod at a time is refused, and each time one change makes room for it."""
    small = {"cpu": "1", "memory": "1Gi", "pods": "2"}
    large = {"cpu": "8", "memory": "8Gi", "pods": "20"}

    def node(name: str, offers: Json, **spec: Any) -> Step:
        status = {"capacity": offers, "allocatable": offers}
        return Step("node", name, {"spec": spec, "status": status})

    def pod(name: str, cpu: str, **spec: Any) -> Step:
        container = {"name": "main", "image": "main", "resources": {"requests": {"cpu": cpu}}}
        return Step("pod", name, {"containers": [container], **spec})

    taint = {"key": "team", "value": "a", "effect": "NoSchedule"}
    return [
        Step("barrier"),
        # The beacon alone is no help: nobody tolerates its taint.
        pod("w-first", "1"),
        node("w-n1", small),
        Step("bound", "w-first"),
        pod("w-beside", "100m"),
        Step("delete_pod", "w-first"),
        Step("bound", "w-beside"),
        Step("change_node", "w-n1", {"spec": {"unschedulable": True}}),
        Step("barrier"),
        pod("w-cordoned", "10m"),
        Step("change_node", "w-n1", {"spec": {"unschedulable": False}}),
        Step("bound", "w-cordoned"),
        Step("change_node", "w-n1", {"spec": {"taints": [taint]}}),
        Step("barrier"),
        pod("w-tainted", "0"),
        Step("change_node", "w-n1", {"status": {"capacity": large, "allocatable": large}}),
        Step("change_node", "w-n1", {"spec": {"taints": []}}),
        Step("bound", "w-tainted"),
        pod("w-big", "10"),
        node("w-n2", {**large, "cpu": "16"}),
        Step("bound", "w-big"),
        pod("w-gated", "1", schedulingGates=[{"name": "example.com/later"}]),
        Step("change_pod", "w-gated", {"spec": {"schedulingGates": []}}),
        Step("bound", "w-gated"),
        pod("w-huge", "100"),
    ]
