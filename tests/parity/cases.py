"""Seeded random questions: a cluster, a pod and a configuration as plain JSON.

The same JSON goes to the oracle and to our own plugins. Objects are as an API server would have
stored them, with its defaults filled in, and valid enough that it would have. Values are drawn
from small sets, so that things often nearly match.
"""

from __future__ import annotations

from random import Random
from typing import Any, TypeAlias

from tests.parity.configurations import ARGUMENTS, GPU, STORAGE, configuration

Json: TypeAlias = dict[str, Any]

NIC = "example.com/nic"
PAGES = "hugepages-2Mi"
HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
MIB = 1 << 20
#: So much that a hundred times it is nearly all that an int64 holds. With more than 80 PiB a node,
#: upstream's scores overflow, and the cycle ends with an error about a score below zero; ours do
#: not.
HUGE = {
    "cpu": [f"{(1 << 56) - 3}m", f"{1 << 50}m", "1e6"],
    "memory": [str((1 << 56) - 3), "60Pi", "5000000000001m"],
    STORAGE: [str((1 << 56) - 3), "1Pi"],
    GPU: [str((1 << 56) - 3), "1k"],
}
NAMES = [f"n{number}" for number in range(10)]
IMAGES = {
    "registry.example/web:1": 30 * MIB,
    "registry.example/web:2": 300 * MIB,
    "registry.example/model:latest": 2000 * MIB,
    "registry.example/base@sha256:" + "a" * 64: 90 * MIB,
    "pause:latest": MIB,
}
FEATURES = [
    "UserNamespacesHostNetworkSupport",
    "RestartAllContainersOnContainerExits",
    "InPlacePodLevelResourcesVerticalScaling",
    "ExtendWebSocketsToKubelet",
]


def random_case(seed: int) -> Json:
    """A question for the oracle; the same for the same seed."""
    return _Dice(seed).case()


def large_case(seed: int) -> Json:
    """A question about so many nodes that kube-scheduler looks at a part of them only."""
    return _Dice(seed).large_case()


class _Dice(Random):
    """Draws parts of a case; `serial` numbers the pods."""

    serial = 0

    def often(self, chance: float) -> bool:
        return self.random() < chance

    def some(self, values: list[Any], most: int) -> list[Any]:
        return [self.choice(values) for _ in range(self.randint(0, most))]

    def case(self) -> Json:
        names = self.sample(NAMES, self.randint(1, 8))
        config = configuration(self.choice(ARGUMENTS) if self.often(0.5) else {})
        # A third are about placing a pod that is easily placed, so that scores decide.
        easy = self.often(0.33)
        case: Json = {
            "nodes": [self.node(name, easy=easy) for name in names],
            "pods": [self.standing(self.choice(names)) for _ in range(self.randint(0, 8))],
            "nominated": [],
            "pod": self.pod(easy=easy),
            "config": config,
            "objects": [],
            "scoreAll": True,
        }
        if self.often(0.2):
            case["nominated"] = [self.promised(self.choice(names)) for _ in range(3)]
        if self.often(0.1):
            case["pod"]["status"]["nominatedNodeName"] = self.choice(NAMES)
        return case

    def large_case(self) -> Json:
        names = [f"n{number}" for number in range(self.randint(99, 400))]
        easy = self.often(0.7)
        return {
            "nodes": [self.node(name, easy=easy) for name in names],
            "pods": [self.standing(self.choice(names)) for _ in range(60)],
            "nominated": [self.promised(self.choice(names)) for _ in range(5)],
            "pod": self.pod(easy=easy),
            "config": configuration({}, percentage=self.choice([0, 5, 30, 60, 100])),
            "objects": [],
            "scoreAll": False,
        }

    # Nodes

    def node(self, name: str, *, easy: bool) -> Json:
        labels = {HOSTNAME: name, "disk": self.choice(["ssd", "hdd"])}
        if self.often(0.6):
            labels["cores"] = self.choice(["2", "4", "16", "-3", "many", ""])
        if self.often(0.7):
            labels[self.choice([ZONE, ZONE, BETA_ZONE])] = self.choice(["z1", "z2", "z3"])
        if self.often(0.3):
            labels[REGION] = self.choice(["r1", "r2"])
        metadata: Json = {"name": name, "uid": f"uid-{name}"}
        if self.often(0.9):
            metadata["labels"] = labels
        spec: Json = {}
        if not easy:
            spec = {"unschedulable": True} if self.often(0.1) else {}
            if taints := [self.taint() for _ in range(self.choice([0, 0, 0, 1, 2, 3]))]:
                spec["taints"] = taints
        elif self.often(0.5):
            spec["taints"] = [{"key": "a", "value": "x", "effect": "PreferNoSchedule"}] * 2
        return {"metadata": metadata, "spec": spec, "status": self.node_status(easy=easy)}

    def node_status(self, *, easy: bool) -> Json:
        offers = {
            "cpu": self.choice(["0", "900m", "2", "4", "4", "16"]) if not easy else "16",
            "memory": self.choice(["0", "300Mi", "2Gi", "8Gi", "8Gi"]) if not easy else "32Gi",
            "pods": self.choice(["0", "1", "3", "110"]) if not easy else "110",
        }
        for name, amounts in (
            (STORAGE, ["1Gi", "100Gi"]),
            (GPU, ["0", "1", "8"]),
            (PAGES, ["0", "64Mi"]),
        ):
            if self.often(0.5):
                offers[name] = self.choice(amounts)
        if self.often(0.05):
            name = self.choice(list(HUGE))
            offers[name] = self.choice(HUGE[name])
        images = self.sample(sorted(IMAGES), self.randint(0, 4))
        return {
            "allocatable": offers,
            "capacity": offers,
            "images": [
                {"names": [image, *self.some(["also:1", "web:1"], 1)], "sizeBytes": IMAGES[image]}
                for image in images
            ],
            "declaredFeatures": sorted(self.sample(FEATURES, self.randint(0, 3))),
        }

    def taint(self) -> Json:
        return {
            "key": self.choice(["a", "b", "b", UNSCHEDULABLE]),
            "value": self.choice(["", "x", "y"]),
            "effect": self.choice(["NoSchedule", "NoExecute", "PreferNoSchedule"]),
        }

    # Pods

    def pod(self, *, easy: bool = False) -> Json:
        self.serial += 1
        name = f"p{self.serial}"
        spec: Json = {
            "schedulerName": "default-scheduler",
            "restartPolicy": "Always",
            "containers": [self.container(f"c{i}") for i in range(self.choice([1, 1, 2, 3]))],
        }
        if self.often(0.2):
            spec["initContainers"] = [self.init_container(f"i{i}") for i in range(2)]
        if self.often(0.1):
            spec["overhead"] = {"cpu": "250m", "memory": "120Mi"}
        if self.often(0.1):
            # Pod-level requests are no less than the containers'.
            spec["resources"] = {"requests": {"cpu": "6", "memory": "7Gi"}}
        if self.often(0.1):
            spec["volumes"] = [
                {"name": "model", "image": {"reference": self.choice(list(IMAGES))}},
            ]
        if self.often(0.5):
            spec["tolerations"] = [self.toleration() for _ in range(self.randint(1, 3))]
        if self.often(0.1):
            spec["hostNetwork"] = True
            spec["hostUsers"] = self.choice([True, False])
            for container in spec["containers"]:
                for port in container.get("ports", ()):
                    port["hostPort"] = port["containerPort"]
        if self.often(0.3):
            spec["priority"] = self.choice([-5, 0, 1000])
        if not easy or self.often(0.5):
            self.constrain(spec, hard=not easy)
        return {
            "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
            "spec": spec,
            "status": {},
        }

    def constrain(self, spec: Json, *, hard: bool) -> None:
        if hard and self.often(0.05):
            spec["nodeName"] = self.choice(NAMES)
        if hard and self.often(0.25):
            spec["nodeSelector"] = self.choice(
                [{"disk": "ssd"}, {"disk": "hdd", ZONE: "z1"}, {REGION: "r1"}, {}]
            )
        affinity: Json = {}
        if hard and self.often(0.3):
            affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {
                "nodeSelectorTerms": [self.term() for _ in range(self.randint(1, 3))]
            }
        if self.often(0.4):
            affinity["preferredDuringSchedulingIgnoredDuringExecution"] = [
                {"weight": self.choice([1, 7, 100]), "preference": self.term()}
                for _ in range(self.randint(1, 3))
            ]
        if affinity or self.often(0.1):
            spec["affinity"] = {"nodeAffinity": affinity}

    def term(self) -> Json:
        term: Json = {}
        if self.often(0.85):
            term["matchExpressions"] = [self.requirement() for _ in range(self.randint(1, 2))]
        if self.often(0.15):
            term["matchFields"] = [
                {
                    "key": "metadata.name",
                    "operator": self.choice(["In", "In", "NotIn"]),
                    "values": [self.choice(NAMES)],
                }
            ]
        return term

    def requirement(self) -> Json:
        key = self.choice(["disk", "cores", ZONE, HOSTNAME, "unheard-of"])
        operator = self.choice(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"])
        if operator in ("Exists", "DoesNotExist"):
            return {"key": key, "operator": operator}
        if operator in ("Gt", "Lt"):
            return {"key": "cores", "operator": operator, "values": [self.choice(["3", "-4"])]}
        values = {"disk": ["ssd", "hdd"], "cores": ["4", ""], ZONE: ["z1", "z2"]}.get(key, NAMES)
        return {"key": key, "operator": operator, "values": self.some(values, 2) or [values[0]]}

    def container(self, name: str) -> Json:
        requests = self.requests()
        container: Json = {
            "name": name,
            "image": self.choice(
                [*IMAGES, "pause", "registry.example/model", "registry.example/none:3"]
            ),
            "resources": {"requests": requests} if requests else {},
        }
        if self.often(0.3):
            container["ports"] = [self.port() for _ in range(self.randint(1, 2))]
        if self.often(0.05):
            container["restartPolicy"] = "Never"
            container["restartPolicyRules"] = [
                {
                    "action": self.choice(["Restart", "RestartAllContainers"]),
                    "exitCodes": {"operator": "In", "values": [42]},
                }
            ]
        return container

    def init_container(self, name: str) -> Json:
        container = self.container(name)
        container.pop("restartPolicyRules", None)
        container.pop("restartPolicy", None)
        if self.often(0.5):
            container["restartPolicy"] = "Always"
        return container

    def requests(self) -> Json:
        wanted: Json = {}
        for name, chance, amounts in (
            ("cpu", 0.7, ["0", "1m", "250m", "1", "1900m", "0.5", "1e0"]),
            ("memory", 0.7, ["0", "1", "100Mi", "1Gi", "2G", "1.5Gi", "1500m", "1e8"]),
            (STORAGE, 0.15, ["0", "500Mi", "2Gi"]),
            (GPU, 0.15, ["0", "1", "3"]),
            (NIC, 0.05, ["0", "1"]),
            (PAGES, 0.08, ["0", "32Mi"]),
        ):
            if self.often(chance):
                wanted[name] = self.choice(amounts)
        if self.often(0.01):
            name = self.choice(list(HUGE))
            wanted[name] = self.choice(HUGE[name])
        return wanted

    def port(self) -> Json:
        port: Json = {
            "containerPort": self.choice([80, 443, 8080]),
            "protocol": self.choice(["TCP", "TCP", "UDP", "SCTP"]),
        }
        if self.often(0.7):
            port["hostPort"] = self.choice([80, 443, 8080])
            if self.often(0.4):
                port["hostIP"] = self.choice(["0.0.0.0", "127.0.0.1", "10.0.0.1"])
        return port

    def toleration(self) -> Json:
        operator = self.choice(["", "Equal", "Exists", "Exists"])
        toleration: Json = {"operator": operator} if operator else {}
        key = self.choice(["a", "b", UNSCHEDULABLE, ""])
        if key or operator != "Exists":
            toleration["key"] = key or "a"
        if operator != "Exists":
            toleration["value"] = self.choice(["", "x", "y"])
        if self.often(0.6):
            toleration["effect"] = self.choice(["NoSchedule", "NoExecute", "PreferNoSchedule"])
        return toleration

    def standing(self, node: str) -> Json:
        pod = self.pod(easy=True)
        pod["spec"]["nodeName"] = node
        if self.often(0.1):
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        if self.often(0.15):
            # A resize that the kubelet has not finished: more or less than the spec asks for.
            pod["status"]["containerStatuses"] = [
                {
                    "name": container["name"],
                    "allocatedResources": self.requests(),
                    "resources": {"requests": self.requests()},
                }
                for container in pod["spec"]["containers"]
            ]
            if self.often(0.3):
                pod["status"]["conditions"] = [
                    {
                        "type": "PodResizePending",
                        "status": "True",
                        "reason": self.choice(["Infeasible", "Deferred"]),
                    }
                ]
        return pod

    def promised(self, node: str) -> Json:
        pod = self.pod(easy=True)
        pod["status"]["nominatedNodeName"] = node
        return pod
