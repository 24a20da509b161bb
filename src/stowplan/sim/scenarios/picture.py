"""A cluster at one moment as it can be drawn: nodes, what they offer and hold, pods that wait.

Taken after the steps of a scenario (`Album`) and at its end; drawn by `page`. Amounts are those
that the scheduler counts with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from stowplan.api.objects import Pod
from stowplan.api.quantity import milli_value, value
from stowplan.cluster.pod_info import compile_pod
from stowplan.sim.scenarios.actions import Json
from stowplan.sim.scenarios.facts import is_ready, key_of, message_of, node_of, phase_of
from stowplan.sim.scenarios.manifests import ZONE

#: Nodes and pods in all pictures of an album; more would make a page that browsers cannot open.
_MOST_DRAWN: Final = 20_000
_DONE: Final = ("Succeeded", "Failed")


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

    @property
    def cpu_share(self) -> float:
        return _share(sum(pod.milli_cpu for pod in self.pods), self.milli_cpu)

    @property
    def memory_share(self) -> float:
        return _share(sum(pod.memory for pod in self.pods), self.memory)


@dataclass(frozen=True, slots=True)
class Picture:
    at: float
    title: str
    nodes: tuple[NodeBox, ...]
    waiting: tuple[PodBox, ...]

    @property
    def size(self) -> int:
        return len(self.nodes) + len(self.waiting) + sum(len(node.pods) for node in self.nodes)


@dataclass(slots=True)
class Album:
    """Pictures in the order of time, up to a sensible amount of them."""

    pictures: list[Picture] = field(default_factory=list)
    _drawn: int = 0

    @property
    def has_room(self) -> bool:
        return self._drawn < _MOST_DRAWN

    def add(self, picture: Picture) -> None:
        self._drawn += picture.size
        if self.has_room:
            self.pictures.append(picture)


def take_picture(at: float, title: str, nodes: Sequence[Json], pods: Sequence[Json]) -> Picture:
    held: dict[str, list[PodBox]] = {node["metadata"]["name"]: [] for node in nodes}
    waiting: list[PodBox] = []
    for pod in pods:
        if phase_of(pod) in _DONE:
            continue
        home = held.get(node_of(pod))
        (waiting if home is None else home).append(_pod_box(pod))
    boxes = [_node_box(node, tuple(held[node["metadata"]["name"]])) for node in nodes]
    boxes.sort(key=lambda box: box.zone)
    return Picture(at, title, tuple(boxes), tuple(waiting))


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
    labels, owners = metadata.get("labels") or {}, metadata.get("ownerReferences") or ()
    family = labels.get("app") or (owners[0]["name"] if owners else "")
    return PodBox(
        key_of(pod),
        family or metadata["name"].rstrip("0123456789").rstrip("-"),
        requests.get("cpu", 0),
        requests.get("memory", 0),
        (pod.get("spec") or {}).get("priority") or 0,
        phase_of(pod),
        "" if node_of(pod) else message_of(pod),
    )


def _share(used: int, offered: int) -> float:
    return used / offered if offered else 0.0
