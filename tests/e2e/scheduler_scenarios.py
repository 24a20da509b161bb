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
#: Labels that pods select nodes by, and what they may be.
_LABELS = {"example.com/disk": ("ssd", "hdd", ""), "gen": ("3", "007", "12", "old"), "pool": "abc"}


class Scenarist:
    """Makes manifests from one seed; with `selecting`, pods are particular about their nodes."""

    def __init__(self, seed: int, *, selecting: bool = False) -> None:
        self._random = random.Random(seed)
        self._names = 0
        self._is_selecting = selecting
        self._nodes: list[str] = []

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
        if self._is_selecting:
            labels |= self._labels()
        spec: Json = {"taints": self.taints()}
        if self._random.random() < 0.1:
            spec["unschedulable"] = True
        offers = self.offers()
        status = {"capacity": offers, "allocatable": offers}
        body = {"metadata": {"labels": labels}, "spec": spec, "status": status}
        name = self._name("node")
        self._nodes.append(name)
        return Step("node", name, body)

    def _labels(self) -> dict[str, str]:
        return {
            key: self._random.choice(values)
            for key, values in _LABELS.items()
            if self._random.random() < 0.7
        }

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
        if self._is_selecting:
            spec |= self._selection()
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

    def _selection(self) -> Json:
        """nodeSelector and node affinity, each of which may be missing."""
        spec: Json = {}
        affinity: Json = {}
        if self._random.random() < 0.25:
            key = self._random.choice(list(_LABELS))
            spec["nodeSelector"] = {key: self._random.choice(_LABELS[key])}
        if self._random.random() < 0.45:
            terms = [self._term() for _ in range(self._random.choice([1, 1, 2]))]
            if all(map(_names_a_node, terms)):
                # kube-scheduler looks at several named nodes in the random order of a Go map.
                del terms[1:]
            affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {
                "nodeSelectorTerms": terms
            }
        if self._random.random() < 0.6:
            affinity["preferredDuringSchedulingIgnoredDuringExecution"] = [
                {"weight": self._random.choice([1, 3, 50, 100]), "preference": self._term()}
                for _ in range(self._random.choice([1, 2, 3]))
            ]
        if affinity:
            spec["affinity"] = {"nodeAffinity": affinity}
        return spec

    def _term(self) -> Json:
        """Empty ones among them, which match nothing, and names that no node has."""
        term: Json = {}
        if self._random.random() < 0.8:
            count = self._random.choice([1, 1, 2])
            term["matchExpressions"] = [self._expression() for _ in range(count)]
        if self._random.random() < 0.25:
            operator = self._random.choice(["In", "In", "NotIn"])
            term["matchFields"] = [
                {"key": "metadata.name", "operator": operator, "values": [name]}
                for name in self._random.choices(
                    [*self._nodes, "nowhere"], k=self._random.choice([1, 1, 1, 2])
                )
            ]
        return term

    def _expression(self) -> Json:
        key = self._random.choice(list(_LABELS))
        operator = self._random.choice(["In", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"])
        expression: Json = {"key": key, "operator": operator}
        if operator in ("In", "NotIn"):
            expression["values"] = self._random.sample(_LABELS[key], self._random.randint(1, 2))
        elif operator in ("Gt", "Lt"):
            expression |= {"key": "gen", "values": [self._random.choice(["3", "5", "0011"])]}
        return expression

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
            labels: Json = {"topology.kubernetes.io/zone": self._random.choice(["z1", "z2", "z9"])}
            if self._is_selecting:
                labels |= dict.fromkeys(_LABELS) | self._labels()
            return Step("change_node", name, {"metadata": {"labels": labels}})
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


def _names_a_node(term: Json) -> bool:
    return any(field["operator"] == "In" for field in term.get("matchFields", ()))


def waking() -> list[Step]:
    """One pod at a time is refused, and each time one change makes room for it."""
    small = {"cpu": "1", "memory": "1Gi", "pods": "2"}
    large = {"cpu": "8", "memory": "8Gi", "pods": "20"}

    def node(name: str, offers: Json, labels: Json | None = None) -> Step:
        status = {"capacity": offers, "allocatable": offers}
        return Step("node", name, {"metadata": {"labels": labels or {}}, "status": status})

    def pod(name: str, cpu: str, **spec: Any) -> Step:
        container = {"name": "main", "image": "main", "resources": {"requests": {"cpu": cpu}}}
        return Step("pod", name, {"containers": [container], **spec})

    def relabel(name: str, **labels: str) -> Step:
        return Step("change_node", name, {"metadata": {"labels": labels}})

    newer = {"matchExpressions": [{"key": "gen", "operator": "Gt", "values": ["5"]}]}
    first = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["w-n1"]}]}
    new_or_first = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [newer, {**newer, **first}]
            }
        }
    }
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
        pod("w-selects", "10m", nodeSelector={"disk": "ssd"}),
        relabel("w-n1", disk="hdd"),
        relabel("w-n1", disk="ssd"),
        Step("bound", "w-selects"),
        pod("w-affine", "10m", affinity=new_or_first),
        relabel("w-n2", gen="5"),
        relabel("w-n1", gen="12"),
        Step("bound", "w-affine"),
        relabel("w-n1", gen="4"),
        Step("barrier"),
        pod("w-newer", "10m", affinity=new_or_first),
        node("w-n3", large, {"gen": "0"}),
        node("w-n4", large, {"gen": "7"}),
        Step("bound", "w-newer"),
        pod("w-huge", "100"),
    ]
