"""The demo's cluster and workloads: nodes, pods and their manifests.

Plain data made from a seed, without I/O. `story` decides when things happen, `show` makes them
happen.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any, Final

from stowplan.apiserver.kubelet import RUN_SECONDS

NAMESPACE: Final = "default"
ZONE_LABEL: Final = "topology.kubernetes.io/zone"
POOL: Final = {"key": "dedicated", "value": "batch", "effect": "NoSchedule"}
GPU: Final = "example.com/gpu"
#: Marks a pod that fits nowhere, so that its waiting is no failure of the demo.
STAYS_PENDING: Final = "stowplan.io/expected-to-stay-pending"
CRITICAL: Final = "demo-critical"

_ZONES: Final = "abc"
_POOL_EVERY: Final = 4  # the fourth node of each zone is in the batch pool
_SHAPES: Final = ((4, 8), (4, 16), (8, 16)) * 3  # cores and GiB of nodes outside the pool
_POOL_SHAPE: Final = (8, 16)


@dataclass(frozen=True, slots=True)
class NodePlan:
    """One node."""

    name: str
    zone: str
    cores: int
    memory_gi: int
    gpus: int = 0
    is_in_pool: bool = False
    is_cordoned: bool = False

    def manifest(self) -> dict[str, Any]:
        amounts = {"cpu": str(self.cores), "memory": f"{self.memory_gi}Gi", "pods": "32"}
        if self.gpus:
            amounts[GPU] = str(self.gpus)
        spec: dict[str, Any] = {}
        if self.is_in_pool:
            spec["taints"] = [POOL]
        if self.is_cordoned:
            spec["unschedulable"] = True
        labels = {ZONE_LABEL: self.zone, "kubernetes.io/hostname": self.name}
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self.name, "labels": labels},
            "spec": spec,
            "status": {"capacity": amounts, "allocatable": amounts},
        }


@dataclass(frozen=True, slots=True)
class PodPlan:
    """One pod. Without `run_s` it runs until it is deleted."""

    name: str
    app: str
    milli_cpu: int
    memory_mi: int
    gpus: int = 0
    run_s: float | None = None
    gate: str = ""
    is_critical: bool = False
    tolerates_pool: bool = False
    #: Why no node will ever take it; "" for a pod that must find its place.
    stays_pending: str = ""

    @property
    def key(self) -> str:
        return f"{NAMESPACE}/{self.name}"

    def manifest(self, speed: float = 1.0) -> dict[str, Any]:
        """The manifest to create; a job's run time shrinks as the demo speeds up."""
        requests = {"cpu": f"{self.milli_cpu}m", "memory": f"{self.memory_mi}Mi"}
        resources: dict[str, Any] = {"requests": requests}
        if self.gpus:
            requests[GPU] = str(self.gpus)
            resources["limits"] = {GPU: str(self.gpus)}
        annotations: dict[str, str] = {}
        spec: dict[str, Any] = {
            "containers": [{"name": "main", "image": f"{self.app}:1", "resources": resources}]
        }
        if self.run_s is not None:
            annotations[RUN_SECONDS] = f"{self.run_s / speed:.3f}"
            spec["restartPolicy"] = "Never"
        if self.stays_pending:
            annotations[STAYS_PENDING] = self.stays_pending
        if self.gate:
            spec["schedulingGates"] = [{"name": self.gate}]
        if self.is_critical:
            spec["priorityClassName"] = CRITICAL
        if self.tolerates_pool:
            spec["tolerations"] = [{**POOL, "operator": "Equal"}]
        metadata = {
            "name": self.name,
            "namespace": NAMESPACE,
            "labels": {"app": self.app},
            "annotations": annotations,
        }
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def priority_class() -> dict[str, Any]:
    """Critical pods leave the queue before all others."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": CRITICAL},
        "value": 100_000,
        "description": "Pods that earn the money.",
    }


def plan_nodes(rng: Random, count: int) -> tuple[NodePlan, ...]:
    """Nodes in three zones, in the order of their creation: node-a1, node-b1, node-c1, node-a2...

    Every cluster of twelve has the same capacity; the seed only distributes the sizes.
    """
    places = [(_ZONES[index % 3], index // 3 + 1) for index in range(count)]
    pool = [place for place in places if place[1] % _POOL_EVERY == 0]
    others = [place for place in places if place not in pool]
    shapes = list(_SHAPES)
    rng.shuffle(shapes)
    shape_of = {place: shapes[index % len(shapes)] for index, place in enumerate(others)}
    # A tiny cluster needs all of its nodes.
    cordoned = rng.choice(others) if len(others) > len(_ZONES) else None
    with_gpu = rng.choice(pool) if pool else None
    nodes = []
    for place in places:
        zone, number = place
        cores, memory_gi = shape_of.get(place, _POOL_SHAPE)
        nodes.append(
            NodePlan(
                name=f"node-{zone}{number}",
                zone=f"zone-{zone}",
                cores=cores,
                memory_gi=memory_gi,
                gpus=1 if place == with_gpu else 0,
                is_in_pool=place in pool,
                is_cordoned=place == cordoned,
            )
        )
    return tuple(nodes)
