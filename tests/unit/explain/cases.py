"""Clusters in which a pod named `web` is pending for one of the commonest causes.

`python -m tests.unit.explain.cases` writes the texts of tests/data/explain anew; read them as
someone who meets Stowplan for the first time: is the next step plain from the first three lines?
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import yaml

from stowplan.clock import SystemClock
from stowplan.config.defaults import default_config
from stowplan.explain.fixes import find_fixes
from stowplan.explain.reasoning import Explainer
from stowplan.explain.sources import find_pod, read_file
from stowplan.explain.text import explanation_text
from stowplan.judge.configuration import Configuration, default_registry

TEXTS = Path(__file__).parents[2] / "data" / "explain"

Json = dict[str, Any]


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
    container: Json = {"name": "main", "image": "registry.example/app:1"}
    container["resources"] = {"requests": {"cpu": cpu, "memory": memory}}
    if "ports" in spec:
        container["ports"] = spec.pop("ports")
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop", "labels": labels},
        "spec": {"containers": [container], **spec},
        "status": {"phase": "Pending", **status},
    }


def three(**more: Any) -> list[Json]:
    return [a_node(f"worker-{number}", **more) for number in (1, 2, 3)]


def zones(*names: str) -> list[Json]:
    key = "topology.kubernetes.io/zone"
    return [a_node(f"worker-{place}", labels={key: zone}) for place, zone in enumerate(names, 1)]


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
                "topologyKey": "topology.kubernetes.io/zone",
            }
        ]
    }
}
IN_ZONES: Json = {
    "maxSkew": 1,
    "topologyKey": "topology.kubernetes.io/zone",
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
                                    "key": "topology.kubernetes.io/zone",
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
HOST_PORT = [{"containerPort": 80, "hostPort": 8080}]

CASES: dict[str, list[Json]] = {
    "cpu": [*three(), *full(), a_pod(cpu="2")],
    "memory": [
        *three(),
        *[a_pod(f"db-{n}", memory="12Gi", nodeName=f"worker-{n}") for n in (1, 2, 3)],
        a_pod(memory="6Gi"),
    ],
    "larger-than-any-node": [*three(), a_pod(cpu="8")],
    "taint": [*three(taints=[GPU_TAINT]), a_pod()],
    "node-selector": [*three(), a_pod(nodeSelector={"disktype": "ssd"})],
    "selected-node-tainted": [
        *three(),
        a_node("gpu-1", taints=[GPU_TAINT], labels={"pool": "gpu"}),
        a_pod(nodeSelector={"pool": "gpu"}),
    ],
    "node-not-ready": [
        a_node("w1", taints=[{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]),
        a_pod(),
    ],
    "node-missing": [*three(), a_pod(nodeName="worker-77")],
    "cordoned": [*three(unschedulable=True, taints=[CORDON]), a_pod()],
    "mixed": [
        a_node(
            "control-1",
            taints=[{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}],
        ),
        *three(),
        *full(),
        a_node("gpu-1", taints=[GPU_TAINT]),
        a_pod(cpu="2"),
    ],
    "too-many-pods": [
        a_node("worker-1", pods=1),
        a_pod("other", nodeName="worker-1"),
        a_pod(),
    ],
    "host-port": [
        a_node("worker-1"),
        a_pod("ingress", nodeName="worker-1", ports=HOST_PORT),
        a_pod(ports=HOST_PORT),
    ],
    "anti-affinity": [
        *three(),
        *[
            a_pod(f"web-{n}", labels={"app": "web"}, nodeName=f"worker-{n}", affinity=AWAY)
            for n in (1, 2, 3)
        ],
        a_pod(affinity=AWAY),
    ],
    "affinity": [*zones("a", "b"), a_pod(affinity=BESIDE_CACHE)],
    "topology-spread": [
        *zones("a", "b"),
        a_node("worker-3", taints=[GPU_TAINT], labels={"topology.kubernetes.io/zone": "c"}),
        a_pod("web-1", labels={"app": "web"}, nodeName="worker-1"),
        a_pod("web-2", labels={"app": "web"}, nodeName="worker-2"),
        a_pod(topologySpreadConstraints=[IN_ZONES]),
    ],
    "claim-missing": [*three(), a_pod(**DATA)],
    "claim-unbound": [*three(), claim(storageClassName="manual"), a_pod(**DATA)],
    "volume-in-another-zone": [*zones("a", "b"), *ZONAL_VOLUME, a_pod(**DATA)],
    "gated": [*three(), a_pod(schedulingGates=[{"name": "example.com/quota"}])],
    "nominated": [
        *three(),
        *full(),
        a_pod(cpu="2", priority=1000, status={"nominatedNodeName": "worker-2"}),
    ],
    "extended-resource": [
        *three(),
        a_pod(
            containers=[
                {
                    "name": "main",
                    "image": "a",
                    "resources": {
                        "requests": {"example.com/gpu": "1"},
                        "limits": {"example.com/gpu": "1"},
                    },
                }
            ]
        ),
    ],
    "no-nodes": [a_pod()],
    "fits": [*three(), a_pod()],
    "placed": [*three(), a_pod(nodeName="worker-2")],
}


def explainer_of(objects: Iterable[Json]) -> Explainer:
    text = yaml.safe_dump_all(list(objects)).encode()
    settings = Configuration(default_config(), default_registry())
    return Explainer(read_file("cluster.yaml", text), settings)


def shown(name: str) -> str:
    """What `stowplan explain web -n shop --fix` prints."""
    explainer = explainer_of(CASES[name])
    thing = find_pod(explainer.cluster, "shop", "web")
    fixes = find_fixes(explainer, thing, SystemClock())
    said = msgspec.structs.replace(explainer.explain(thing), fixes=fixes)
    return explanation_text(said)


def main() -> None:
    TEXTS.mkdir(exist_ok=True)
    for name in CASES:
        (TEXTS / f"{name}.txt").write_text(shown(name))
        print(f"## {name}\n{shown(name)}")


if __name__ == "__main__":
    main()
