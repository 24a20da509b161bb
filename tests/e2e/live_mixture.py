"""Sixty nodes and five hundred pods from one seed, with all that the default profile reads.

A pod is a set of containers and up to three *traits*, each of which speaks to one plugin. Most
traits can be satisfied somewhere, and some combinations nowhere: so pods are refused for reasons
that differ from node to node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.e2e.live_nodes import (
    DISKS,
    GENERATIONS,
    GPU,
    HUGE,
    IMAGES,
    POOLS,
    TAINTS,
    nodes,
)
from tests.e2e.live_storage import Request, Storage
from tests.parity.generate.dice import HOSTNAME, REGION, ZONE, Dice

Json = dict[str, Any]

NAMESPACES: dict[str, Json] = {
    "default": {},
    "shop": {"team": "shop", "env": "prod"},
    "bank": {"team": "bank", "env": "prod"},
    "lab": {"team": "lab", "env": "test"},
}
APPS, TIERS = ["web", "db", "cache"], ["front", "back"]
PRIORITY_CLASSES = {"urgent": 1000, "lazy": -5}


class Mixture:
    """What is created before the scheduler starts, then the nodes, then the pods."""

    def __init__(self, seed: int, nodes_wanted: int = 60, pods_wanted: int = 500) -> None:
        self._dice = Dice(seed)
        self.nodes = nodes(self._dice, nodes_wanted)
        self._storage = Storage(self._dice, self.nodes)
        self._storage.prepare(local_disks=60)
        self._replica_sets: dict[str, list[Json]] = {}
        self._workloads()
        self.pods = [self._pod(number) for number in range(pods_wanted)]

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
        for name, value in PRIORITY_CLASSES.items():
            self._post("/apis/scheduling.k8s.io/v1/priorityclasses", name, value=value)
        self._post(
            "/apis/node.k8s.io/v1/runtimeclasses",
            "walled",
            handler="walled",
            overhead={"podFixed": {"cpu": "250m", "memory": "120Mi"}},
        )
        for namespace in NAMESPACES:
            self._replica_sets[namespace] = []
            for app in self._dice.sample(APPS, 2):
                path = f"/api/v1/namespaces/{namespace}/services"
                self._post(path, app, spec={"selector": {"app": app}, "ports": [{"port": 80}]})
            for app in self._dice.sample(APPS, 2):
                tier = self._dice.choice(TIERS)
                self._replica_set(namespace, f"{app}-{tier}", {"app": app, "tier": tier})

    def _replica_set(self, namespace: str, name: str, labels: Json) -> None:
        template = {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "main", "image": "web"}]},
        }
        path = f"/apis/apps/v1/namespaces/{namespace}/replicasets"
        selector = {"matchLabels": labels}
        self._post(path, name, spec={"replicas": 0, "selector": selector, "template": template})
        self._replica_sets[namespace].append({"name": name, "labels": labels})

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
            owner = dice.choice(self._replica_sets[namespace])
            labels |= owner["labels"]
            metadata["ownerReferences"] = [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": owner["name"],
                    "uid": "6f2b8c9e-0000-4000-8000-000000000000",
                    "controller": True,
                }
            ]
        pod: Json = {
            "metadata": metadata,
            "spec": {"terminationGracePeriodSeconds": 0, **self._resources()},
        }
        for trait in self._traits():
            trait(self, pod)
        return pod

    def _traits(self) -> list[Callable[[Mixture, Json], None]]:
        """Without repetitions, in the order of the table, so that one never undoes another."""
        names, weights = list(_TRAITS), list(_TRAITS.values())
        chosen = self._dice.choices(names, weights, k=self._dice.choice([0, 1, 1, 2, 2, 3]))
        return [trait for trait in names if trait in chosen]

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
        if dice.often(0.15):
            spec["priorityClassName"] = dice.choice(list(PRIORITY_CLASSES))
        if dice.often(0.08):
            self._as_a_whole(spec)
        return spec

    def _container(self, name: str) -> Json:
        dice = self._dice
        requests: Json = {}
        limits: Json = {}
        if dice.often(0.8):
            requests["cpu"] = dice.choice(["0", "1m", "50m", "100m", "200m", "0.3", "1"])
        if dice.often(0.8):
            requests["memory"] = dice.choice(["0", "64Mi", "200M", "512Mi", "1Gi"])
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

    def _large(self, pod: Json) -> None:
        requests = pod["spec"]["containers"][0]["resources"]["requests"]
        name, amount = self._dice.choice(
            [("cpu", "5"), ("cpu", "64"), ("memory", "12Gi"), ("ephemeral-storage", "15Gi")]
        )
        if "resources" not in pod["spec"]:
            requests[name] = amount
            pod["spec"]["containers"][0]["resources"]["limits"].pop("cpu", None)

    # Choice of nodes

    def _selector(self, pod: Json) -> None:
        key, values = self._dice.choice([("disk", DISKS), ("pool", POOLS), (ZONE, ["z1", "z9"])])
        pod["spec"]["nodeSelector"] = {key: self._dice.choice(values)}

    def _required(self, pod: Json) -> None:
        terms = [self._term() for _ in range(self._dice.choice([1, 1, 2]))]
        self._affinity(pod, "nodeAffinity", "required", {"nodeSelectorTerms": terms})

    def _preferred(self, pod: Json) -> None:
        terms = [
            {"weight": self._dice.choice([1, 20, 100]), "preference": self._term()}
            for _ in range(self._dice.choice([1, 2]))
        ]
        self._affinity(pod, "nodeAffinity", "preferred", terms)

    def _named(self, pod: Json) -> None:
        """One term only: kube-scheduler looks at several named nodes in a random order.

        No volumes either: their last changes may come when the next pod is already refused, which
        is then tried again, and a pod that names its node moves the place where the search begins.
        """
        pod["spec"].pop("volumes", None)
        name = self._dice.choice(self.nodes)["metadata"]["name"]
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
        if self._dice.often(0.2):
            term["matchFields"].append(
                {"key": "metadata.name", "operator": "In", "values": ["nowhere"]}
            )
        self._affinity(pod, "nodeAffinity", "required", {"nodeSelectorTerms": [term]})

    def _term(self) -> Json:
        dice = self._dice
        if dice.often(0.1):
            name = dice.choice(self.nodes)["metadata"]["name"]
            return {
                "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": [name]}]
            }
        expressions = []
        for _ in range(dice.choice([1, 1, 2])):
            operator = dice.choice(["In", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"])
            key, values = dice.choice([("disk", DISKS), ("pool", POOLS), (REGION, ["east"])])
            expression: Json = {"key": key, "operator": operator}
            if operator in ("In", "NotIn"):
                expression["values"] = dice.sample(values, 1)
            elif operator in ("Gt", "Lt"):
                expression |= {"key": "gen", "values": [dice.choice(GENERATIONS)]}
            expressions.append(expression)
        return {"matchExpressions": expressions}

    def _tolerating(self, pod: Json) -> None:
        tolerations: list[Json] = []
        for taint in self._dice.some(TAINTS, 2):
            toleration = {"key": taint["key"], "operator": "Exists", "effect": taint["effect"]}
            if "value" in taint and self._dice.often(0.5):
                toleration |= {"operator": "Equal", "value": taint["value"]}
            tolerations.append(toleration)
        if self._dice.often(0.2):
            tolerations.append({"operator": "Exists"})
        pod["spec"]["tolerations"] = tolerations

    def _port(self, pod: Json) -> None:
        port: Json = {"containerPort": 80, "hostPort": self._dice.choice([80, 443])}
        if self._dice.often(0.3):
            port["hostIP"] = self._dice.choice(["10.0.0.1", "10.0.0.2"])
        if self._dice.often(0.2):
            port["protocol"] = "UDP"
        pod["spec"]["containers"][0]["ports"] = [port]
        if self._dice.often(0.5):
            # Few nodes to choose from, so that some are taken.
            pod["spec"]["nodeSelector"] = {"pool": "c", "disk": "hdd"}

    def _restarting(self, pod: Json) -> None:
        rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [3]}}
        pod["spec"]["containers"][0] |= {"restartPolicy": "Never", "restartPolicyRules": [rule]}

    # Other pods

    def _spread(self, pod: Json) -> None:
        dice = self._dice
        constraints: dict[tuple[str, str], Json] = {}
        for _ in range(dice.choice([1, 1, 2])):
            key = dice.choice([ZONE, ZONE, HOSTNAME, "pool", "rack"] if dice.often(0.3) else [ZONE])
            action = dice.choice(["DoNotSchedule", "ScheduleAnyway"])
            constraint: Json = {
                "topologyKey": key,
                "whenUnsatisfiable": action,
                "maxSkew": dice.choice([1, 1, 2]),
                "labelSelector": {"matchLabels": {"app": pod["metadata"]["labels"]["app"]}},
            }
            if action == "DoNotSchedule" and dice.often(0.3):
                constraint["minDomains"] = dice.choice([2, 4, 5])
            if dice.often(0.3):
                constraint["nodeAffinityPolicy"] = dice.choice(["Honor", "Ignore"])
            if dice.often(0.3):
                constraint["nodeTaintsPolicy"] = dice.choice(["Honor", "Ignore"])
            if dice.often(0.3):
                constraint["matchLabelKeys"] = ["rev"]
            constraints[key, action] = constraint
        pod["spec"]["topologySpreadConstraints"] = list(constraints.values())

    def _near(self, pod: Json) -> None:
        terms = [self._pod_term(pod, near=True)]
        self._affinity(pod, "podAffinity", "required", terms)

    def _apart(self, pod: Json) -> None:
        terms = [self._pod_term(pod, near=False) for _ in range(self._dice.choice([1, 1, 2]))]
        self._affinity(pod, "podAntiAffinity", "required", terms)

    def _leaning(self, pod: Json) -> None:
        for kind in self._dice.sample(
            ["podAffinity", "podAntiAffinity"], 1 + self._dice.often(0.3)
        ):
            weight = self._dice.choice([1, 50, 100])
            term = {"weight": weight, "podAffinityTerm": self._pod_term(pod, near=True)}
            self._affinity(pod, kind, "preferred", [term])

    def _pod_term(self, pod: Json, *, near: bool) -> Json:
        """Required distance is kept per host mostly: zones are few, and soon all taken."""
        dice = self._dice
        labels: Json = {"app": dice.choice([pod["metadata"]["labels"]["app"], *APPS])}
        if dice.often(0.5):
            labels["tier"] = dice.choice(TIERS)
        keys = [ZONE, REGION, HOSTNAME, "pool"] if near else [HOSTNAME] * 5 + [ZONE]
        term: Json = {"topologyKey": dice.choice(keys), "labelSelector": {"matchLabels": labels}}
        if dice.often(0.25):
            term["namespaces"] = dice.sample(list(NAMESPACES), 2)
        if dice.often(0.3):
            term["namespaceSelector"] = dice.choice(
                [{}, {"matchLabels": {"env": "prod"}}, {"matchLabels": {"team": "lab"}}]
            )
        if dice.often(0.2):
            term[dice.choice(["matchLabelKeys", "mismatchLabelKeys"])] = ["rev"]
        return term

    def _affinity(self, pod: Json, kind: str, strength: str, value: Any) -> None:
        affinity = pod["spec"].setdefault("affinity", {}).setdefault(kind, {})
        affinity[f"{strength}DuringSchedulingIgnoredDuringExecution"] = value

    # Volumes

    def _volumes(self, pod: Json) -> None:
        namespace = pod["metadata"]["namespace"]
        storage = self._storage
        kinds = {
            storage.bound: 40,
            storage.exclusive: 15,
            storage.waiting: 25,
            storage.unprovided: 4,
            storage.missing: 4,
            storage.unbound: 3,
            storage.lost: 3,
            storage.terminating: 3,
        }
        chosen = self._dice.choices(list(kinds), list(kinds.values()), k=self._dice.choice([1, 2]))
        claims = dict.fromkeys(make(namespace) for make in chosen)
        pod["spec"]["volumes"] = [
            {"name": f"v{index}", "persistentVolumeClaim": {"claimName": claim}}
            for index, claim in enumerate(claims)
        ]
        if self._dice.often(0.5):
            self._selector(pod)

    def _ephemeral(self, pod: Json) -> None:
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        template = {"volumeClaimTemplate": {"spec": spec}}
        pod["spec"].setdefault("volumes", []).append({"name": "own", "ephemeral": template})

    def _inline(self, pod: Json) -> None:
        """A disk that only one pod of a node may have."""
        target = {"targetPortal": "10.0.0.9", "iqn": "iqn.2001-04.com.example:a", "lun": 0}
        pod["spec"].setdefault("volumes", []).append({"name": "inline", "iscsi": target})
        if self._dice.often(0.6):
            pod["spec"]["nodeSelector"] = {"pool": "c", "disk": "hdd"}

    def _gated(self, pod: Json) -> None:
        pod["spec"]["schedulingGates"] = [{"name": "example.com/later"}]


#: Traits, and how often each comes.
_TRAITS: dict[Callable[[Mixture, Json], None], int] = {
    Mixture._large: 8,
    Mixture._selector: 8,
    Mixture._required: 8,
    Mixture._preferred: 8,
    Mixture._tolerating: 12,
    Mixture._port: 8,
    Mixture._restarting: 4,
    Mixture._spread: 14,
    Mixture._near: 8,
    Mixture._apart: 8,
    Mixture._leaning: 10,
    Mixture._volumes: 18,
    Mixture._ephemeral: 1,
    Mixture._inline: 5,
    Mixture._gated: 1,
    Mixture._named: 4,
}
