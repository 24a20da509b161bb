"""Volumes for the live comparison: classes, disks, and the claims that single pods ask for.

Everything is there before a scheduler starts, so that no watch can be late. Every disk has a size
of its own: which of two equal ones a claim gets would be a matter of chance on both sides.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.parity.generate.dice import BETA_ZONE, HOSTNAME, ZONE, Dice

Json = dict[str, Any]

LIMITED = "limited.csi.example.com"
COUNTED = "counted.csi.example.com"
#: In-tree kinds of disks by the drivers that took them over.
_MIGRATED = {
    "pd.csi.storage.gke.io": "kubernetes.io/gce-pd",
    "ebs.csi.aws.com": "kubernetes.io/aws-ebs",
}
#: Classes by name: when claims are bound, and by whom.
_CLASSES: dict[str, Json] = {
    "manual": {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "Immediate"},
    "local": {
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    },
    # Nobody provisions here; those whose driver counts its room have none.
    "counted": {"provisioner": COUNTED, "volumeBindingMode": "WaitForFirstConsumer"},
    "elsewhere": {
        "provisioner": COUNTED,
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE, "values": ["z9"]}]}],
    },
}
_CORE = "/api/v1"
_STORAGE = "/apis/storage.k8s.io/v1"


@dataclass(frozen=True)
class Request:
    """One request of the preparation."""

    path: str
    body: Json
    method: str = "POST"


@dataclass
class Storage:
    """Draws claims; collects what must be created for them."""

    dice: Dice
    nodes: list[Json]
    requests: list[Request] = field(default_factory=list)
    #: What the persistent volume controller must have made of each claim before the play begins.
    phases: dict[str, str] = field(default_factory=dict)
    _numbers: int = 0
    _shared: dict[tuple[str, str], list[str]] = field(default_factory=dict)

    def prepare(self, local_disks: int) -> None:
        """Classes, drivers and their limits, and disks that nobody has claimed yet."""
        for name, body in _CLASSES.items():
            self._post(f"{_STORAGE}/storageclasses", {"metadata": {"name": name}, **body})
        for name, counts in ((LIMITED, False), (COUNTED, True)):
            spec = {"storageCapacity": counts, "attachRequired": not counts}
            self._post(f"{_STORAGE}/csidrivers", {"metadata": {"name": name}, "spec": spec})
        for node in self.nodes:
            name = node["metadata"]["name"]
            if self.dice.often(0.9):
                count = self.dice.choice([0, 1, 1, 2, 2, 3, 8])
                drivers: list[Json] = [
                    {"name": LIMITED, "nodeID": name, "allocatable": {"count": count}},
                    {"name": COUNTED, "nodeID": name, "topologyKeys": [ZONE]},
                ]
                metadata: Json = {"name": name}
                if self.dice.often(0.7):
                    # An old node without the annotation has not moved its disks to drivers yet.
                    moved = ",".join(_MIGRATED.values())
                    metadata["annotations"] = {
                        "storage.alpha.kubernetes.io/migrated-plugins": moved
                    }
                drivers += [
                    {
                        "name": driver,
                        "nodeID": name,
                        "allocatable": {"count": self.dice.choice([0, 1, 2, 5])},
                    }
                    for driver in _MIGRATED
                ]
                body = {"metadata": metadata, "spec": {"drivers": drivers}}
                self._post(f"{_STORAGE}/csinodes", body)
        self._post(
            f"{_STORAGE}/namespaces/default/csistoragecapacities",
            {
                "metadata": {"name": "little"},
                "storageClassName": "counted",
                "capacity": "10Mi",
                "nodeTopology": {"matchLabels": {ZONE: "z1"}},
            },
        )
        for number in range(local_disks):
            node = self.dice.choice(self.nodes)
            keys = [key for key in (HOSTNAME, ZONE) if key in node["metadata"]["labels"]]
            key = self.dice.choice(keys) if keys else HOSTNAME
            affinity = _affinity(key, node["metadata"]["labels"].get(key, "nowhere"))
            self._disk(f"local-{number}", number + 1, "local", {"local": {"path": "/x"}}, affinity)

    # Kinds of claims, each the name of a claim in the namespace

    def bound(self, namespace: str) -> str:
        """A claim that has its disk, which is bound to a place in one of several ways, or not."""
        used = self._shared.setdefault((namespace, "bound"), [])
        if used and self.dice.often(0.35):
            return self.dice.choice(used)
        zone = self.dice.choice(["z1", "z2", "z3", "z4"])
        labels: Json = {}
        affinity = None
        kind = self.dice.choice(["labelled", "labelled", "affine", "affine", "host", "free"])
        if kind == "labelled":
            labels[ZONE] = self.dice.choice([zone, zone, "z1__z2", "z9"])
        elif kind == "affine":
            affinity = _affinity(ZONE, zone)
        elif kind == "host":
            affinity = _affinity(HOSTNAME, self.dice.choice(self.nodes)["metadata"]["name"])
        name = self._bound(namespace, ["ReadWriteOnce"], labels, affinity)
        used.append(name)
        return name

    def exclusive(self, namespace: str) -> str:
        """A claim for one pod at a time, which several pods ask for."""
        used = self._shared.setdefault((namespace, "exclusive"), [])
        if used and self.dice.often(0.6):
            return self.dice.choice(used)
        used.append(self._bound(namespace, ["ReadWriteOncePod"], {}, None))
        return used[-1]

    def in_tree(self, namespace: str) -> str:
        """A claim whose disk is of a kind that is served by a driver now, in a labelled zone."""
        used = self._shared.setdefault((namespace, "in-tree"), [])
        if used and self.dice.often(0.3):
            return self.dice.choice(used)
        disk = f"cloud-{self._numbers}"
        source = self.dice.choice(
            [
                {"gcePersistentDisk": {"pdName": disk}},
                {"awsElasticBlockStore": {"volumeID": f"aws://z1/{disk}"}},
            ]
        )
        key = self.dice.choice([ZONE, BETA_ZONE])
        labels = {key: self.dice.choice(["z1", "z2", "z3__z4"])}
        used.append(self._bound(namespace, ["ReadWriteOnce"], labels, None, source))
        return used[-1]

    def waiting(self, namespace: str) -> str:
        """A claim that gets its disk together with its pod, if there is one large enough."""
        size = self.dice.choice([1, 5, 10, 20, 40, 400])
        return self._claim(namespace, "local", f"{size}Gi", phase="Pending")

    def unprovided(self, namespace: str) -> str:
        """A claim that nobody can provide for."""
        chosen = self.dice.choice(["counted", "elsewhere"])
        return self._claim(namespace, chosen, "1Gi", phase="Pending")

    def unbound(self, namespace: str) -> str:
        return self._claim(namespace, "manual", "1Gi", phase="Pending")

    def lost(self, namespace: str) -> str:
        annotations = {"pv.kubernetes.io/bind-completed": "yes"}
        return self._claim(
            namespace, "manual", "1Gi", volume="gone", phase="Lost", annotations=annotations
        )

    def terminating(self, namespace: str) -> str:
        """Deleted, but kept by the finalizer that protects claims in use."""
        name = self._claim(namespace, "manual", "1Gi", phase="Pending")
        path = f"{_CORE}/namespaces/{namespace}/persistentvolumeclaims/{name}"
        self.requests.append(Request(path, {}, "DELETE"))
        return name

    def missing(self, _: str) -> str:
        return self.dice.choice(["nowhere", "never-made"])

    # Inside

    def _bound(
        self,
        namespace: str,
        modes: list[str],
        labels: Json,
        affinity: Json | None,
        kind: Json | None = None,
    ) -> str:
        number = self._next()
        disk, claim = f"disk-{number}", f"claim-{number}"
        source = {
            **(kind or {"csi": {"driver": LIMITED, "volumeHandle": disk}}),
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": namespace,
                "name": claim,
            },
        }
        self._disk(disk, number, "manual", source, affinity, modes, labels)
        if self.dice.often(0.2):
            self._attach(disk)
        return self._claim(
            namespace, "manual", f"{number}Gi", claim, modes, volume=disk, phase="Bound"
        )

    def _attach(self, disk: str) -> None:
        """Somewhere, as if a pod that is gone had left it there."""
        spec = {
            "attacher": LIMITED,
            "nodeName": self.dice.choice(self.nodes)["metadata"]["name"],
            "source": {"persistentVolumeName": disk},
        }
        body = {"metadata": {"name": f"attached-{disk}"}, "spec": spec}
        self._post(f"{_STORAGE}/volumeattachments", body)

    def _disk(
        self,
        name: str,
        gibibytes: int,
        class_name: str,
        source: Json,
        affinity: Json | None,
        modes: list[str] | None = None,
        labels: Json | None = None,
    ) -> None:
        spec: Json = {
            **source,
            "capacity": {"storage": f"{gibibytes}Gi"},
            "accessModes": modes or ["ReadWriteOnce"],
            "storageClassName": class_name,
            "persistentVolumeReclaimPolicy": "Retain",
        }
        if affinity is not None:
            spec["nodeAffinity"] = affinity
        metadata = {"name": name, "labels": labels or {}}
        self._post(f"{_CORE}/persistentvolumes", {"metadata": metadata, "spec": spec})

    def _claim(
        self,
        namespace: str,
        class_name: str,
        size: str,
        name: str = "",
        modes: list[str] | None = None,
        *,
        phase: str,
        volume: str | None = None,
        annotations: Json | None = None,
    ) -> str:
        name = name or f"claim-{self._next()}"
        spec: Json = {
            "accessModes": modes or ["ReadWriteOnce"],
            "storageClassName": class_name,
            "resources": {"requests": {"storage": size}},
        }
        if volume is not None:
            spec["volumeName"] = volume
        metadata = {"name": name, "annotations": annotations or {}}
        path = f"{_CORE}/namespaces/{namespace}/persistentvolumeclaims"
        self._post(path, {"metadata": metadata, "spec": spec})
        self.phases[f"{namespace}/{name}"] = phase
        return name

    def _next(self) -> int:
        self._numbers += 1
        return self._numbers

    def _post(self, path: str, body: Json) -> None:
        self.requests.append(Request(path, body))


def _affinity(key: str, value: str) -> Json:
    expression = {"key": key, "operator": "In", "values": [value]}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
