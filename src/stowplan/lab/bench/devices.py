"""Decisions about pods with device claims: ``python -m stowplan.bench.devices``.

Every node has GPUs, every pod a claim of one shape, as a template makes them. Measured is the CPU
time of one core from queue pop to reserved devices (`Engine.attempt`), without sockets. Reported
apart: what PreBind and the watch do with the claim afterwards, between two attempts, and the first
pod, for which the devices of all nodes are matched.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from random import Random
from typing import Any

import msgspec

from stowplan.api.device_objects import DeviceClass, ResourceClaim, ResourceSlice
from stowplan.api.objects import Pod
from stowplan.api.resources import DEVICE_CLASSES, RESOURCE_CLAIMS, RESOURCE_SLICES
from stowplan.config.defaults import default_config
from stowplan.lab.bench.as_command import as_command
from stowplan.lab.bench.synthetic import as_informed, nodes
from stowplan.plugins.dra.facts import DeviceFacts
from stowplan.plugins.registry import in_tree_registry
from stowplan.scheduler.assembly import build_engine
from stowplan.scheduler.event_handlers import EventHandlers
from stowplan.scheduler.outcome import Placement

DRIVER = "gpu.example.com"
_SELECTOR = f'device.attributes["{DRIVER}"].model == "A100"'
#: What a claim asks for, by the name of its shape.
SHAPES: dict[str, dict[str, Any]] = {
    "one GPU": {"requests": [{"name": "gpu", "exactly": {"count": 1}}]},
    "two GPUs of one NUMA node": {
        "requests": [{"name": "gpu", "exactly": {"count": 2}}],
        "constraints": [{"matchAttribute": f"{DRIVER}/numa"}],
    },
    "a GPU, or half of one": {
        "requests": [{"name": "gpu", "firstAvailable": [{"name": "whole"}, {"name": "half"}]}]
    },
}


@dataclass(frozen=True)
class DeviceCost:
    """Microseconds of CPU time a pod."""

    shape: str
    decision_us: float
    afterwards_us: float
    first_ms: float
    #: How often the decision about the first pod was deferred.
    deferred: int

    @property
    def pods_per_s(self) -> float:
        return 1e6 / self.decision_us


def slices(node_count: int, per_node: int) -> Iterator[ResourceSlice]:
    """One slice a node."""
    for index in range(node_count):
        name = f"node-{index:05}"
        devices = [
            {
                "name": f"gpu-{place}",
                "attributes": {
                    "model": {"string": "A100"},
                    "uuid": {"string": f"GPU-{index}-{place}"},
                    "numa": {"int": place * 2 // per_node},
                    "driverVersion": {"version": "550.1.2"},
                },
                "capacity": {"memory": {"value": "80Gi"}},
            }
            for place in range(per_node)
        ]
        spec = {
            "driver": DRIVER,
            "nodeName": name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
        }
        yield msgspec.convert({"metadata": {"name": f"{name}-gpus"}, "spec": spec}, ResourceSlice)


def device_class() -> DeviceClass:
    spec = {"selectors": [{"cel": {"expression": _SELECTOR}}]}
    return msgspec.convert({"metadata": {"name": "gpu"}, "spec": spec}, DeviceClass)


class Stage:
    """An engine with nodes and devices; pods with claims can be decided again and again."""

    def __init__(self, shape: str, node_count: int, per_node: int) -> None:
        self.engine = build_engine(default_config(), registry=in_tree_registry(), rng=Random(1))
        self._handlers = EventHandlers(self.engine)
        self._handlers.set_object(DEVICE_CLASSES, device_class())
        for one in slices(node_count, per_node):
            self._handlers.set_object(RESOURCE_SLICES, one)
        for node in nodes(node_count):
            self._handlers.add_node(node)
        self._facts = self.engine.cache.catalog.shared(DeviceFacts)
        self._shape = shape
        self._numbers = count()

    def decide(self, pods: int) -> tuple[float, float, int]:
        """Seconds for decisions, seconds for what follows, and how many were deferred."""
        for _ in range(pods):
            claim, pod = pod_with_claim(self._shape, next(self._numbers))
            self._handlers.set_object(RESOURCE_CLAIMS, claim)
            self._handlers.add_pod(pod)
        gc.collect()
        gc.freeze()
        clock = time.process_time
        deciding = following = 0.0
        deferred = placed = 0
        while placed < pods:
            began = clock()
            outcome = self.engine.attempt()
            decided = clock()
            deciding += decided - began
            if outcome is None:
                deferred += 1
                if deferred > 1_000:
                    raise RuntimeError("no pod is decided any more")
                continue
            if not isinstance(outcome, Placement):
                raise RuntimeError(f"a pod found no devices: {outcome.message}")
            placed += 1
            self.engine.permitted(outcome)
            self._bind(outcome)
            following += clock() - decided
        return deciding, following, deferred

    def _bind(self, outcome: Placement) -> None:
        """What PreBind and the watch would do."""
        for uid, claim in list(self._facts.in_flight.items()):
            self._handlers.set_object(RESOURCE_CLAIMS, claim)
            self._facts.release(uid)
        self.engine.bound(outcome)
        self._handlers.update_pod(outcome.queued.pod, as_informed(outcome.pod))


def pod_with_claim(shape: str, number: int) -> tuple[ResourceClaim, Pod]:
    """A pod, and the claim that was made for it from a template."""
    name, uid = f"pod-{number}", f"pod-uid-{number}"
    made = f"{name}-gpu"
    requests = [_complete(request) for request in SHAPES[shape]["requests"]]
    claim = {
        "metadata": {
            "name": made,
            "namespace": "default",
            "uid": f"claim-uid-{number}",
            "ownerReferences": [{"kind": "Pod", "name": name, "uid": uid, "controller": True}],
        },
        "spec": {"devices": {**SHAPES[shape], "requests": requests}},
    }
    amounts = {"cpu": "100m", "memory": "500Mi"}
    pod = {
        "metadata": {"name": name, "namespace": "default", "uid": uid, "labels": {"app": "train"}},
        "spec": {
            "containers": [{"name": "main", "resources": {"requests": amounts}}],
            "schedulerName": "default-scheduler",
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}],
        },
        "status": {
            "phase": "Pending",
            "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": made}],
        },
    }
    return msgspec.convert(claim, ResourceClaim), msgspec.convert(pod, Pod)


def _complete(request: dict[str, Any]) -> dict[str, Any]:
    """With the defaults of the API server."""
    given = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    if "exactly" in request:
        return {**request, "exactly": {**given, **request["exactly"]}}
    alternatives = [{**given, **one} for one in request["firstAvailable"]]
    return {**request, "firstAvailable": alternatives}


def measure(shape: str, node_count: int, per_node: int, pods: int) -> DeviceCost:
    stage = Stage(shape, node_count, per_node)
    first, _, deferred = stage.decide(1)
    stage.decide(20)
    deciding, following, _ = stage.decide(pods)
    return DeviceCost(shape, deciding / pods * 1e6, following / pods * 1e6, first * 1e3, deferred)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m stowplan.bench.devices",
        description="Decisions per second of CPU time about pods with device claims of one shape, "
        "on synthetic clusters without a control plane.",
    )
    parser.add_argument("--nodes", type=int, default=5_000, metavar="N", help="[default: 5000]")
    parser.add_argument("--devices", type=int, default=8, metavar="N", help="per node [default: 8]")
    parser.add_argument("--pods", type=int, default=2_000, metavar="N", help="[default: 2000]")
    chosen = parser.parse_args(arguments)
    print(f"{chosen.nodes:,} nodes of {chosen.devices} devices, CPU time of one core")
    print(f"{'claims':<28}{'pods/s':>9}{'us':>8}{'after':>8}{'first pod ms':>15}{'deferred':>10}")
    for shape in SHAPES:
        cost = measure(shape, chosen.nodes, chosen.devices, chosen.pods)
        print(
            f"{shape:<28}{cost.pods_per_s:>9,.0f}{cost.decision_us:>8.0f}"
            f"{cost.afterwards_us:>8.0f}{cost.first_ms:>15,.0f}{cost.deferred:>10}",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(as_command(main, "nothing was kept"))
