"""Clusters in which a pod named `web` is pending for one of the commonest causes.

`python -m tests.unit.explain.cases` writes the texts of tests/data/explain anew; read them as
someone who meets Stowplan for the first time: is the next step plain from the first three lines?
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec
import yaml

from stowplan.clock import VirtualClock
from stowplan.config.defaults import default_config
from stowplan.explain.fixes import find_fixes
from stowplan.explain.reasoning import Explainer
from stowplan.explain.sources import find_pod, read_file
from stowplan.explain.text import explanation_text
from stowplan.judge.configuration import Configuration, default_registry
from tests.unit.explain.manifests import (
    AWAY,
    BESIDE_CACHE,
    CORDON,
    DATA,
    GPU,
    GPU_TAINT,
    HOST_PORT,
    IN_ZONES,
    PREEMPTED,
    WITH_GPUS,
    ZONAL_VOLUME,
    ZONE,
    Json,
    a_node,
    a_pod,
    claim,
    csi_node,
    device_class,
    disk,
    full,
    gpu_claim,
    gpus,
    on_nodes,
    required,
    storage_class,
    term,
    three,
    with_claim,
    zones,
)

TEXTS = Path(__file__).parents[2] / "data" / "explain"

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
    "claim-missing": [*three(), claim("other"), a_pod(**DATA)],
    "claims-unread": [*three(), *full(), a_pod(cpu="2", **DATA)],
    "claims-unread-and-fits": [*three(), a_pod(**DATA)],
    "claims-unread-and-placed": [*three(), a_pod(nodeName="worker-2", **DATA)],
    "volumes-unread": [*three(), *full(), claim(volumeName="disk-1"), a_pod(cpu="2", **DATA)],
    "claim-unbound": [*three(), claim(storageClassName="manual"), a_pod(**DATA)],
    "volume-in-another-zone": [*zones("a", "b"), *ZONAL_VOLUME, a_pod(**DATA)],
    "gated": [*three(), a_pod(schedulingGates=[{"name": "example.com/quota"}])],
    "nominated": [
        *three(),
        *full()[:1],
        a_pod("batch-2", cpu="3", nodeName="worker-2", status=PREEMPTED, deleted=True),
        *full()[2:],
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
    "node-affinity": [
        a_node("worker-1", labels={"cpu-generation": "3", "disktype": "hdd"}),
        a_node("worker-2", labels={"cpu-generation": "4", "disktype": "hdd"}),
        a_pod(
            affinity=on_nodes(
                {"key": "cpu-generation", "operator": "Gt", "values": ["4"]},
                {"key": "disktype", "operator": "In", "values": ["ssd", "nvme"]},
            )
        ),
    ],
    "anti-affinity-of-others": [
        *zones("a", "a"),
        a_pod(
            "db-0",
            nodeName="worker-2",
            affinity=required("podAntiAffinity", term({"app": "web"}, ZONE)),
        ),
        a_pod(),
    ],
    "affinity-elsewhere": [
        *zones("a", "b"),
        a_node("worker-3", labels={ZONE: "c"}),
        a_pod("cache-0", labels={"app": "cache"}, cpu="4", nodeName="worker-3"),
        a_pod(affinity=BESIDE_CACHE),
    ],
    "spread-label-missing": [*three(), a_pod(topologySpreadConstraints=[IN_ZONES])],
    "volume-limit": [
        a_node("worker-1"),
        csi_node("worker-1", 1),
        storage_class("fast", provisioner="disk.example"),
        disk("disk-2"),
        claim("other", volumeName="disk-2"),
        a_pod("db-0", nodeName="worker-1", **with_claim("other")),
        disk("disk-1"),
        claim(volumeName="disk-1"),
        a_pod(**DATA),
    ],
    "volume-zone-label": [
        *zones("a", "b"),
        disk("disk-1", labels={ZONE: "c"}),
        claim(volumeName="disk-1"),
        a_pod(**DATA),
    ],
    "volume-none-free": [
        *three(),
        storage_class("local"),
        claim(storageClassName="local", resources={"requests": {"storage": "10Gi"}}),
        a_pod(**DATA),
    ],
    "claim-in-use": [
        *three(),
        disk("disk-1"),
        claim(volumeName="disk-1", accessModes=["ReadWriteOncePod"]),
        a_pod("db-0", nodeName="worker-2", **DATA),
        a_pod(**DATA),
    ],
    "preemption": [*three(), *full(), a_pod(cpu="2", priority=1000)],
    "preemption-against-budget": [
        *three(),
        *full(),
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "batch", "namespace": "shop"},
            "spec": {"selector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}},
            "status": {"disruptionsAllowed": 0},
        },
        a_pod(cpu="2", priority=1000),
    ],
    "preemption-never": [
        *three(),
        *full(),
        a_pod(cpu="2", priority=1000, preemptionPolicy="Never"),
    ],
    "preemption-in-vain": [
        *three(),
        *[
            a_pod(f"{name}-{n}", cpu="2", priority=priority, nodeName=f"worker-{n}")
            for n in (1, 2, 3)
            for name, priority in (("low", 0), ("high", 5000))
        ],
        a_pod(cpu="3", priority=1000),
    ],
    "resource-claim": [
        *three(),
        a_pod(resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}]),
    ],
    "claim-template-misspelt": [
        *three(),
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": "one-gpu", "namespace": "shop"},
            "spec": {"spec": {"devices": {"requests": []}}},
        },
        a_pod(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one-gpuu"}]),
    ],
    "devices-tainted-by-a-rule": [
        *three(),
        device_class(),
        gpus("worker-1", "A100"),
        {
            "apiVersion": "resource.k8s.io/v1beta2",
            "kind": "DeviceTaintRule",
            "metadata": {"name": "broken"},
            "spec": {"taint": {"key": "example.com/broken", "effect": "NoSchedule"}},
        },
        gpu_claim(),
        a_pod(**WITH_GPUS),
    ],
    "devices-taken": [
        *three(),
        device_class(),
        *[gpus(f"worker-{n}", "A100", "A100") for n in (1, 2, 3)],
        *[gpu_claim(f"job-{n}", given=f"worker-{n}/gpu-0") for n in (1, 2, 3)],
        *[a_pod(f"job-{n}", nodeName=f"worker-{n}") for n in (1, 2, 3)],
        gpu_claim(count=2),
        a_pod(**WITH_GPUS),
    ],
    "devices-of-another-model": [
        *three(),
        device_class(),
        gpus("worker-1", "A100", "A100"),
        gpus("worker-2", "A100", "H100"),
        gpu_claim("job", given="worker-2/gpu-1"),
        a_pod("job", nodeName="worker-2"),
        gpu_claim(model="H100"),
        a_pod(**WITH_GPUS),
    ],
    "devices-elsewhere": [
        *three(),
        device_class(),
        gpus("worker-1", "A100"),
        gpu_claim(given="worker-1/gpu-0"),
        a_pod(cpu="2", nodeSelector={"kubernetes.io/hostname": "worker-2"}, **WITH_GPUS),
    ],
    "devices-that-differ": [
        *three(),
        device_class(),
        gpus("worker-1", "A100", "H100"),
        gpu_claim(count=2, constraint=f"{GPU}/model"),
        a_pod(**WITH_GPUS),
    ],
    "device-selector-fails": [
        *three(),
        device_class(),
        gpus("worker-1", "A100"),
        gpu_claim(selector=f'device.attributes["{GPU}"].size == "80"'),
        a_pod(**WITH_GPUS),
    ],
    "ephemeral-volume": [
        *three(),
        claim("other"),
        a_pod(
            volumes=[
                {
                    "name": "scratch",
                    "ephemeral": {
                        "volumeClaimTemplate": {
                            "spec": {
                                "accessModes": ["ReadWriteOnce"],
                                "resources": {"requests": {"storage": "1Gi"}},
                            }
                        }
                    },
                }
            ]
        ),
    ],
    "no-nodes": [a_pod()],
    "fits": [*three(), a_pod()],
    "fits-by-now": [
        *three(),
        a_pod(
            status={
                "conditions": [
                    {
                        "type": "PodScheduled",
                        "status": "False",
                        "reason": "Unschedulable",
                        "message": "0/3 nodes are available: 3 Insufficient cpu.",
                    }
                ]
            }
        ),
    ],
    "placed": [*three(), a_pod(nodeName="worker-2")],
    "placed-and-fits-nowhere": [
        a_node("worker-1", taints=[GPU_TAINT]),
        a_pod(nodeName="worker-1"),
    ],
    "gated-and-fits-nowhere": [
        a_node("worker-1", taints=[GPU_TAINT]),
        a_pod(schedulingGates=[{"name": "example.com/quota"}]),
    ],
    "finished": [*three(), a_pod(nodeName="worker-2", status={"phase": "Succeeded"})],
}


def explainer_of(objects: Iterable[Json]) -> Explainer:
    text = yaml.safe_dump_all(list(objects)).encode()
    settings = Configuration(default_config(), default_registry())
    return Explainer(read_file("cluster.yaml", text), settings)


def shown(name: str, columns: int = 0) -> str:
    """What `stowplan explain web -n shop --fix` prints."""
    explainer = explainer_of(CASES[name])
    thing = find_pod(explainer.cluster, "shop", "web")
    fixes = find_fixes(explainer, thing, VirtualClock())
    said = msgspec.structs.replace(explainer.explain(thing), fixes=fixes)
    return explanation_text(said, columns)


def main() -> None:
    TEXTS.mkdir(exist_ok=True)
    for name in CASES:
        (TEXTS / f"{name}.txt").write_text(shown(name))
        print(f"## {name}\n{shown(name)}")


if __name__ == "__main__":
    main()
