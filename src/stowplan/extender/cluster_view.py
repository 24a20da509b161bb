"""Nodes, and the pods of apps on them, kept up to date change by change.

The informers of `kubeapi` update it; `cluster_data` and `rescheduling` read it. No clock, no I/O.
Invariants: returned data never changes (a node that changes gets a new dict), and a read without a
change in between is free, because every request reads.

An app is the label `app` of its pods. Finished pods do not count, and neither do pods without the
label, whose needs are unknown. Control-plane nodes and the pods on them are ignored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from stowplan.api.objects import Node, Pod
from stowplan.api.quantity import nanos
from stowplan.extender.data import AppName, Apps, AppsCount, AppsOnNode, NodeName, TaskName

CONTROL_PLANE_LABELS: Final = (
    "node-role.kubernetes.io/master",
    "node-role.kubernetes.io/control-plane",
)
APP_LABEL: Final = "app"
_NANO: Final = 10**9
_NOTHING: Final[Apps] = {}


@dataclass(frozen=True, slots=True)
class Basics:
    """What a node says of itself: CPUs, and GB of memory; None for what it does not say."""

    cpu: float | None
    memory_gb: float | None


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a pod counts: on a node, or, with an empty name, nowhere yet."""

    node: NodeName
    app: AppName
    task: TaskName


class ClusterView:
    """See the module. `namespaces`: where more than one is watched, tasks are `namespace/name`."""

    def __init__(self, namespaces: tuple[str, ...]) -> None:
        #: Grows with every change of a node's capacities, and of the nodes that there are.
        self.nodes_version = 0
        self.pods_without_app = 0
        self.bad_quantities = 0
        self._namespaces = namespaces
        self._basics: dict[NodeName, Basics] = {}
        self._bad_nodes: set[NodeName] = set()
        #: By namespace and name.
        self._pods: dict[tuple[str, str], Pod] = {}
        self._by_node: dict[NodeName, Apps] = {}
        self._unassigned: AppsCount = {}
        #: Copies to be handed out, made when they are asked for.
        self._shown_basics: dict[NodeName, Basics] | None = None
        self._counts: tuple[AppsOnNode, AppsCount] | None = None

    # What is asked

    def basics(self) -> dict[NodeName, Basics]:
        """The nodes that are not of the control plane."""
        if self._shown_basics is None:
            self._shown_basics = dict(self._basics)
        return self._shown_basics

    def counts(self) -> tuple[AppsOnNode, AppsCount]:
        """The tasks of each app on each node, and how many pods of each app have no node yet."""
        if self._counts is None:
            assigned = {name: self._by_node.get(name, _NOTHING) for name in self._basics}
            self._counts = assigned, dict(self._unassigned)
        return self._counts

    @property
    def pod_count(self) -> int:
        return sum(not pod.is_finished for pod in self._pods.values())

    def pods_named(self, task: TaskName) -> list[Pod]:
        """The pods that a task's name may mean: several only where no namespace is given."""
        namespace, slash, name = task.rpartition("/")
        namespaces = (namespace,) if slash else self._namespaces
        found = (self._pods.get((each, name)) for each in namespaces)
        return [pod for pod in found if pod is not None]

    # Changes

    def put_node(self, node: Node) -> None:
        labels = node.metadata.labels or {}
        if any(label in labels for label in CONTROL_PLANE_LABELS):
            self.remove_node(node.name)
            return
        basics, is_good = _read(node)
        if basics != self._basics.get(node.name):
            if node.name not in self._basics:
                self._counts = None
            self._basics[node.name] = basics
            self._shown_basics = None
            self.nodes_version += 1
        (self._bad_nodes.discard if is_good else self._bad_nodes.add)(node.name)
        self.bad_quantities = len(self._bad_nodes)

    def remove_node(self, name: NodeName) -> None:
        if self._basics.pop(name, None) is not None:
            self._shown_basics = self._counts = None
            self.nodes_version += 1
        self._bad_nodes.discard(name)
        self.bad_quantities = len(self._bad_nodes)

    def put_pod(self, pod: Pod) -> None:
        key = (pod.metadata.namespace, pod.metadata.name)
        before = self._pods.get(key)
        self._pods[key] = pod
        self._move(before, pod)

    def remove_pod(self, pod: Pod) -> None:
        self._move(self._pods.pop((pod.metadata.namespace, pod.metadata.name), None), None)

    def _move(self, before: Pod | None, after: Pod | None) -> None:
        self.pods_without_app += _lacks_app(after) - _lacks_app(before)
        old, new = self._place(before), self._place(after)
        if old == new:
            return
        self._counts = None
        if old is not None:
            self._count(old, -1)
        if new is not None:
            self._count(new, +1)

    def _place(self, pod: Pod | None) -> _Place | None:
        if pod is None or pod.is_finished:
            return None
        app = (pod.metadata.labels or {}).get(APP_LABEL, "")
        if not app:
            return None
        metadata = pod.metadata
        task = pod.key if len(self._namespaces) > 1 else metadata.name
        # A pod that is bound is load, whether or not its kubelet has said so yet.
        return _Place(pod.spec.node_name, app, task)

    def _count(self, place: _Place, change: int) -> None:
        if not place.node:
            count = self._unassigned.get(place.app, 0) + change
            if count:
                self._unassigned[place.app] = count
            else:
                self._unassigned.pop(place.app, None)
            return
        apps = dict(self._by_node.get(place.node, _NOTHING))
        tasks = [task for task in apps.pop(place.app, ()) if task != place.task]
        if change > 0:
            tasks.append(place.task)
        if tasks:
            apps[place.app] = sorted(tasks)
        if apps:
            self._by_node[place.node] = apps
        else:
            self._by_node.pop(place.node, None)


def _lacks_app(pod: Pod | None) -> bool:
    if pod is None or pod.is_finished:
        return False
    return not (pod.metadata.labels or {}).get(APP_LABEL)


def _read(node: Node) -> tuple[Basics, bool]:
    """What a node says of itself, and whether all of it can be read."""
    capacity = node.status.capacity or {}
    numbers: dict[str, float | None] = {}
    for name in ("cpu", "memory"):
        try:
            number = nanos(capacity[name]) / _NANO
        except (KeyError, ValueError, OverflowError):
            number = -1.0
        numbers[name] = number if number >= 0 else None
    memory = numbers["memory"]
    # Whole GB, as the WCA scheduler has it.
    gb = None if memory is None else float(int(memory / 1e9))
    return Basics(numbers["cpu"], gb), None not in numbers.values()
