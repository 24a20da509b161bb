"""Nodes, volumes and pods of a chaos run.

Pure: the objects follow from a seed. What must stay true: once half of the pods are gone, every
pod made here fits somewhere, so that one which stays pending is lost.
"""

from __future__ import annotations

import random
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]

ZONES = 4
ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
NODE_MILLI = 2000
NODE_MI = 4096
#: A node that is added again smaller has this share of its size.
SMALLER = 0.5
CLASS = "chaos"
HIGH = "chaos-high"
#: Goes first, and evicts nothing.
FIRST = "chaos-first"
#: Claims that pods share; each is bound when its first pod comes.
CLAIMS = 200
NAMESPACES = ("default", "chaos-a", "chaos-b", "chaos-c")
_GROUPS = 40
#: Out of a hundred pods; the rest have requests alone.
_KINDS = {"spread": 15, "apart": 10, "together": 5, "volume": 10, "high": 5}


def node(name: str, zone: int, share: float = 1.0) -> Json:
    offers = {
        "cpu": f"{int(NODE_MILLI * share)}m",
        "memory": f"{int(NODE_MI * share)}Mi",
        "pods": str(int(20 * share)),
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {HOST: name, ZONE: f"zone-{zone % ZONES}"}},
        "status": {
            "capacity": offers,
            "allocatable": offers,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def fixtures() -> list[tuple[str, Json]]:
    """What exists before the first pod, with the path to create it at."""
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    made: list[tuple[str, Json]] = [
        (classes, _priority(HIGH, "PreemptLowerPriority")),
        (classes, _priority(FIRST, "Never")),
        (
            "/apis/storage.k8s.io/v1/storageclasses",
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "StorageClass",
                "metadata": {"name": CLASS},
                "provisioner": "kubernetes.io/no-provisioner",
                "volumeBindingMode": "WaitForFirstConsumer",
            },
        ),
    ]
    made += [("/api/v1/namespaces", namespace(name)) for name in NAMESPACES[1:]]
    for number in range(CLAIMS):
        made.append(("/api/v1/persistentvolumes", _volume(number)))
        made.append(("/api/v1/namespaces/default/persistentvolumeclaims", _claim(number)))
    return made


def namespace(name: str) -> Json:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _priority(name: str, policy: str) -> Json:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": 1000,
        "preemptionPolicy": policy,
    }


def _volume(number: int) -> Json:
    zone = {"key": ZONE, "operator": "In", "values": [f"zone-{number % ZONES}"]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"volume-{number}"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": CLASS,
            "local": {"path": f"/mnt/{number}"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}},
        },
    }


def _claim(number: int) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": f"claim-{number}"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": CLASS,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }


class PodMaker:
    """Pods one after the other, each with a name of its own."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)
        self.made = 0

    def first(self) -> Json:
        """A pod that takes free room before all that wait for it."""
        pod = self.next("plain")
        pod["spec"]["priorityClassName"] = FIRST
        return pod

    def next(self, kind: str = "") -> Json:
        """A pod of a random kind, or of this one."""
        self.made += 1
        dice = self._dice
        kind = kind or self._choose()
        namespaced = "default" if kind == "volume" else dice.choice(NAMESPACES)
        group = f"{kind}-{dice.randrange(_GROUPS)}"
        requests = {"cpu": f"{dice.choice((200, 300, 500, 700))}m", "memory": "256Mi"}
        container = {
            "name": "main",
            "image": "example.test/main:1",
            "resources": {"requests": requests},
        }
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{kind}-{self.made}",
                "namespace": namespaced,
                "labels": {"group": group},
            },
            "spec": {
                "containers": [container],
                "terminationGracePeriodSeconds": 1,
                **self._special(kind, group),
            },
        }

    def _choose(self) -> str:
        roll = self._dice.randrange(100)
        for name, share in _KINDS.items():
            if roll < share:
                return name
            roll -= share
        return "plain"

    def _special(self, kind: str, group: str) -> Json:
        same = {"matchLabels": {"group": group}}
        if kind == "spread":
            constraint = {
                "maxSkew": 5,
                "topologyKey": ZONE,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": same,
            }
            return {"topologySpreadConstraints": [constraint]}
        if kind == "apart":
            term = {"topologyKey": HOST, "labelSelector": same}
            rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
            return {"affinity": {"podAntiAffinity": rule}}
        if kind == "together":
            wish = {"weight": 10, "podAffinityTerm": {"topologyKey": ZONE, "labelSelector": same}}
            return {
                "affinity": {
                    "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}
                }
            }
        if kind == "volume":
            claim = {"claimName": f"claim-{self.made % CLAIMS}"}
            return {"volumes": [{"name": "data", "persistentVolumeClaim": claim}]}
        return {"priorityClassName": HIGH} if kind == "high" else {}
