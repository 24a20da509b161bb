"""A cluster at one moment as it can be drawn: nodes, what they offer and hold, pods that wait.

Taken at the end of a scenario and drawn by `page`, whose script draws other moments from the
`history`. Amounts are those that the scheduler counts with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from stowplan.api.objects import Pod
from stowplan.api.quantity import milli_value, value
from stowplan.cluster.pod_info import compile_pod
from stowplan.sim.scenarios.actions import Json
from stowplan.sim.scenarios.drawing import family_of
from stowplan.sim.scenarios.facts import (
    FINISHED_PHASES,
    is_ready,
    key_of,
    message_of,
    node_of,
    phase_of,
)
from stowplan.sim.scenarios.manifests import ZONE


@dataclass(frozen=True, slots=True)
class PodBox:
    key: str
    #: What pods of one kind share: decides the colour.
    family: str
    milli_cpu: int
    memory: int
    priority: int
    phase: str
    #: Why it waits.
    message: str = ""


@dataclass(frozen=True, slots=True)
class NodeBox:
    name: str
    zone: str
    milli_cpu: int
    memory: int
    pods: tuple[PodBox, ...]
    is_ready: bool
    is_cordoned: bool
    taints: tuple[str, ...]

    @classmethod
    def gone(cls, name: str) -> NodeBox:
        """A node that is not there any more."""
        return cls(name, "", 0, 0, (), True, False, ())

    @property
    def cpu_share(self) -> float:
        return _share(sum(pod.milli_cpu for pod in self.pods), self.milli_cpu)

    @property
    def memory_share(self) -> float:
        return _share(sum(pod.memory for pod in self.pods), self.memory)


@dataclass(frozen=True, slots=True)
class Picture:
    nodes: tuple[NodeBox, ...]
    waiting: tuple[PodBox, ...]


def take_picture(nodes: Sequence[Json], pods: Sequence[Json]) -> Picture:
    held: dict[str, list[PodBox]] = {node["metadata"]["name"]: [] for node in nodes}
    waiting: list[PodBox] = []
    for pod in pods:
        if phase_of(pod) in FINISHED_PHASES:
            continue
        home = held.get(node_of(pod))
        (waiting if home is None else home).append(_pod_box(pod))
    boxes = [_node_box(node, tuple(held[node["metadata"]["name"]])) for node in nodes]
    boxes.sort(key=lambda box: box.zone)
    return Picture(tuple(boxes), tuple(waiting))


def _node_box(node: Json, pods: tuple[PodBox, ...]) -> NodeBox:
    metadata, spec = node["metadata"], node.get("spec") or {}
    offers = (node.get("status") or {}).get("allocatable") or {}
    taints = [each for each in spec.get("taints") or () if "node.kubernetes.io/" not in each["key"]]
    return NodeBox(
        metadata["name"],
        (metadata.get("labels") or {}).get(ZONE, ""),
        milli_value(offers.get("cpu", "0")),
        value(offers.get("memory", "0")),
        pods,
        is_ready(node),
        bool(spec.get("unschedulable")),
        tuple(f"{each['key']}={each.get('value', '')}:{each['effect']}" for each in taints),
    )


def _pod_box(pod: Json) -> PodBox:
    requests = dict(compile_pod(msgspec.convert(pod, Pod)).held)
    metadata = pod["metadata"]
    return PodBox(
        key_of(pod),
        family_of(metadata["name"], metadata.get("labels") or {}),
        requests.get("cpu", 0),
        requests.get("memory", 0),
        (pod.get("spec") or {}).get("priority") or 0,
        phase_of(pod),
        "" if node_of(pod) else message_of(pod),
    )


def _share(used: int, offered: int) -> float:
    return used / offered if offered else 0.0
