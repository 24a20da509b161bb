"""Manifests of small clusters, for texts and fixes."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]
ZONE = "topology.kubernetes.io/zone"


def a_node(name: str, *, cpu: int = 4, memory: str = "16Gi", pods: int = 110, **more: Any) -> Json:
    labels = {"kubernetes.io/hostname": name, **more.pop("labels", {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": more,
        "status": {"allocatable": {"cpu": str(cpu), "memory": memory, "pods": str(pods)}},
    }


def a_pod(name: str = "web", *, cpu: str = "1", memory: str = "1Gi", **spec: Any) -> Json:
    labels = spec.pop("labels", {"app": name})
    status = spec.pop("status", {})
    metadata = {"name": name, "namespace": "shop", "labels": labels}
    if spec.pop("deleted", False):
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    container: Json = {"name": "main", "image": "registry.example/app:1"}
    container["resources"] = {"requests": {"cpu": cpu, "memory": memory}}
    if "ports" in spec:
        container["ports"] = spec.pop("ports")
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [container], **spec},
        "status": {"phase": "Pending", **status},
    }


def three(**more: Any) -> list[Json]:
    return [a_node(f"worker-{number}", **more) for number in (1, 2, 3)]


def zones(*names: str) -> list[Json]:
    return [a_node(f"worker-{place}", labels={ZONE: zone}) for place, zone in enumerate(names, 1)]


def full(*, cpu: str = "3") -> list[Json]:
    return [a_pod(f"batch-{n}", cpu=cpu, nodeName=f"worker-{n}") for n in (1, 2, 3)]


def claim(name: str = "data", **spec: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": name,
            "namespace": "shop",
            "annotations": {"pv.kubernetes.io/bind-completed": "yes"}
            if "volumeName" in spec
            else {},
        },
        "spec": {"accessModes": ["ReadWriteOnce"], **spec},
    }


DATA: Json = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}
GPU_TAINT: Json = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}
CORDON: Json = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
AWAY: Json = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {
                "labelSelector": {"matchLabels": {"app": "web"}},
                "topologyKey": "kubernetes.io/hostname",
            }
        ]
    }
}
BESIDE_CACHE: Json = {
    "podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {
                "labelSelector": {"matchLabels": {"app": "cache"}},
                "topologyKey": ZONE,
            }
        ]
    }
}
IN_ZONES: Json = {
    "maxSkew": 1,
    "topologyKey": ZONE,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "web"}},
}
ZONAL_VOLUME: list[Json] = [
    claim(volumeName="disk-1", storageClassName="zonal"),
    {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "disk-1"},
        "spec": {
            "capacity": {"storage": "10Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "zonal",
            "csi": {"driver": "disk.example", "volumeHandle": "1"},
            "claimRef": {"namespace": "shop", "name": "data"},
            "nodeAffinity": {
                "required": {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [
                                {
                                    "key": ZONE,
                                    "operator": "In",
                                    "values": ["c"],
                                }
                            ]
                        }
                    ]
                }
            },
        },
    },
]
PREEMPTED: Json = {
    "conditions": [
        {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    ]
}
HOST_PORT = [{"containerPort": 80, "hostPort": 8080}]


def term(selector: Json, key: str) -> Json:
    return {"labelSelector": {"matchLabels": selector}, "topologyKey": key}


def required(kind: str, *terms: Json) -> Json:
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def on_nodes(*expressions: Json) -> Json:
    """Required node affinity of one term."""
    terms = {"nodeSelectorTerms": [{"matchExpressions": list(expressions)}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def storage_class(name: str, *, provisioner: str = "kubernetes.io/no-provisioner") -> Json:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def csi_node(name: str, count: int) -> Json:
    driver = {"name": "disk.example", "nodeID": name, "allocatable": {"count": count}}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": name},
        "spec": {"drivers": [{**driver, "topologyKeys": None}]},
    }


def disk(name: str, **more: Any) -> Json:
    """A bound volume of the driver disk.example."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": more.pop("labels", {})},
        "spec": {
            "capacity": {"storage": "10Gi"},
            "accessModes": ["ReadWriteOnce"],
            "csi": {"driver": "disk.example", "volumeHandle": name},
            **more,
        },
    }


def with_claim(name: str) -> Json:
    return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]}


GPU = "gpu.example.com"


def device_class() -> Json:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": GPU},
        "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{GPU}"'}}]},
    }


def gpus(node: str, *models: str) -> Json:
    """A slice with one device per model, `gpu-0` first."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-gpus"},
        "spec": {
            "driver": GPU,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [
                {"name": f"gpu-{place}", "attributes": {"model": {"string": model}}}
                for place, model in enumerate(models)
            ],
        },
    }


def gpu_claim(
    name: str = "gpus",
    count: int = 1,
    model: str = "",
    given: str = "",
    constraint: str = "",
    selector: str = "",
) -> Json:
    """`given` is `node/device` if the claim has a device already, for the pod of its name."""
    exactly: Json = {"deviceClassName": GPU, "allocationMode": "ExactCount", "count": count}
    if model:
        selector = f'device.attributes["{GPU}"].model == "{model}"'
    if selector:
        exactly["selectors"] = [{"cel": {"expression": selector}}]
    devices: Json = {"requests": [{"name": "gpu", "exactly": exactly}]}
    if constraint:
        devices["constraints"] = [{"matchAttribute": constraint}]
    status: Json = {}
    if given:
        node, _, device = given.partition("/")
        result = {"request": "gpu", "driver": GPU, "pool": node, "device": device}
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        status = {
            "allocation": {
                "devices": {"results": [result]},
                "nodeSelector": {"nodeSelectorTerms": [term]},
            },
            "reservedFor": [{"resource": "pods", "name": name, "uid": f"{name}-uid"}],
        }
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "shop", "uid": f"{name}-claim"},
        "spec": {"devices": devices},
        "status": status,
    }


WITH_GPUS: Json = {"resourceClaims": [{"name": "gpus", "resourceClaimName": "gpus"}]}
