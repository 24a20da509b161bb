"""An engine that verifies every decision, through a seeded history that uses every cache.

Pods of a few templates come again and again, so that whatever is derived from the cluster is found
in a cache, and is wrong if an event in between has not reached it.
"""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec

from stowplan.api.objects import Namespace, ObjectMeta, Pod
from stowplan.api.resources import (
    CSI_NODES,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
)
from stowplan.api.storage_objects import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from stowplan.clock import VirtualClock
from stowplan.cluster.pod_info import PodInfo
from stowplan.cluster.views import NodeView
from stowplan.config.load import parse_config
from stowplan.framework.cycle import Cycle
from stowplan.framework.plugin import Plugin, Reads
from stowplan.framework.status import SKIP, Status, unschedulable
from stowplan.plugins.registry import in_tree_registry
from stowplan.scheduler.assembly import build_engine
from stowplan.scheduler.event_handlers import EventHandlers
from stowplan.scheduler.outcome import Placement
from stowplan.testing import node, pod
from tests.unit.scheduler.engine_bench import changed

_NODES = [f"n{number}" for number in range(10)]
_ZONE, _HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
_CONFIG = parse_config(
    "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    "profiles: [{plugins: {multiPoint: {enabled: [{name: NotNoisy}]}}}]\n"
)


class WrongDecision(AssertionError):
    """The self-check found a decision that is not what a rebuilt cluster gives."""


class NotNoisy(Plugin):
    """A user's plugin: refuses nodes that hold a pod annotated as noisy."""

    name = "NotNoisy"
    reads = Reads.PODS
    verdicts = (unschedulable("noisy"),)

    def sign(self, info: PodInfo) -> str:
        return ""

    def pre_filter(self, cycle: Cycle) -> Status | None:
        return SKIP if cycle.pod.priority else None

    def filter_columns(self, cycle: Cycle, rows: Any, out: Any, overlay: Any) -> None:
        chosen = range(rows.stop) if isinstance(rows, slice) else rows.tolist()
        for row in chosen:
            standing = cycle.table.pods[row].values()
            out[row] = any("noisy" in (each.pod.metadata.annotations or {}) for each in standing)

    def filter(self, asking: Pod, on: NodeView) -> bool:
        return not any("noisy" in (each.metadata.annotations or {}) for each in on.pods)


def _term(key: str, **selector: Any) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "b"}}, **selector}


def _required(kind: str, term: dict[str, Any]) -> dict[str, Any]:
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _preferred(kind: str, term: dict[str, Any]) -> dict[str, Any]:
    weighted = [{"weight": 10, "podAffinityTerm": term}]
    return {kind: {"preferredDuringSchedulingIgnoredDuringExecution": weighted}}


def _spread(when: str) -> list[dict[str, Any]]:
    return [{"maxSkew": 1, "topologyKey": _ZONE, "whenUnsatisfiable": when} | _selecting("b")]


def _selecting(app: str) -> dict[str, Any]:
    return {"labelSelector": {"matchLabels": {"app": app}}}


def _container(**more: Any) -> list[dict[str, Any]]:
    return [{"name": "c", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}} | more]


_PORT = {"containerPort": 80, "hostPort": 8080}
_TEAM = {"namespaceSelector": {"matchLabels": {"team": "x"}}}
_CLAIM = [{"name": "data", "persistentVolumeClaim": {"claimName": "shared"}}]
_DISK = [{"name": "disk", "gcePersistentDisk": {"pdName": "one"}}]
_WAITING = [{"name": "data", "persistentVolumeClaim": {"claimName": "waiting"}}]
#: What pods are made of, by name.
TEMPLATES: dict[str, dict[str, Any]] = {
    "plain": {"cpu": "500m"},
    "large": {"cpu": 2},
    "small": {"cpu": None, "memory": None},
    "with init": {
        "containers": _container(),
        "init_containers": _container(resources={"requests": {"cpu": "1500m"}}),
    },
    "without init": {"containers": _container()},
    "pooled": {"node_selector": {"pool": "a"}, "cpu": "200m"},
    "tolerant": {"tolerations": ["t"], "cpu": "200m"},
    "image": {"containers": _container(image="web:latest"), "labels": {"app": "c"}},
    "port": {"containers": _container(ports=[_PORT])},
    "spread": {
        "labels": {"app": "b"},
        "topology_spread_constraints": _spread("DoNotSchedule"),
    },
    "spread in a pool": {
        "labels": {"app": "b"},
        "node_selector": {"pool": "a"},
        "topology_spread_constraints": _spread("DoNotSchedule"),
    },
    "would-be-spread": {
        "labels": {"app": "b"},
        "topology_spread_constraints": _spread("ScheduleAnyway"),
    },
    "near": {"labels": {"app": "b"}, "affinity": _required("podAffinity", _term(_ZONE))},
    "friendly": {"labels": {"app": "b"}, "affinity": _preferred("podAffinity", _term(_ZONE))},
    "apart": {
        "labels": {"app": "lone"},
        "affinity": _required("podAntiAffinity", _term(_HOST) | _selecting("lone")),
    },
    "not beside team x": {"affinity": _required("podAntiAffinity", _term(_HOST) | _TEAM)},
    "important": {"cpu": 3, "priority": 5},
    "disk": {"volumes": _DISK, "cpu": "100m"},
    "claim": {"volumes": _CLAIM, "cpu": "100m"},
    "waiting claim": {"volumes": _WAITING, "cpu": "100m"},
}


class EventfulCluster:
    """Everything that happens is drawn from the seed."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._clock = VirtualClock()
        registry = in_tree_registry()
        registry.register(NotNoisy)
        self.engine = build_engine(_CONFIG, registry=registry, clock=self._clock, rng=Random(1))
        self.engine.verify_decisions(1)
        self._handlers = EventHandlers(self.engine)
        self._number = 0
        #: Pods that stand on nodes, and pods that wait.
        self._standing: list[Pod] = []
        self._waiting: list[Pod] = []
        self._nodes: dict[str, Any] = {}

    def play(self, turns: int) -> None:
        """Let it happen; WrongDecision when the self-check finds one."""
        self._set_up()
        for _ in range(turns):
            for _ in range(self._random.randrange(3)):
                self._something_happens()
            self._pods_come()
            self._clock.advance(10.0)
            self.engine.queue.flush_backoff()

    # What happens

    def _set_up(self) -> None:
        for name in _NODES:
            self._set_node(name)
        objects = (
            (STORAGE_CLASSES, StorageClass, _class()),
            (PERSISTENT_VOLUMES, PersistentVolume, _volume("shared")),
            (PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim, _claim("shared", "shared")),
            (PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim, _claim("waiting", "")),
        )
        for resource, kind, wire in objects:
            self._handlers.set_object(resource, msgspec.convert(wire, kind))
        for name in ("default", "other"):
            self._set_namespace(name, "y")

    def _something_happens(self) -> None:
        event = self._random.choice(
            [
                self._change_node,
                self._change_node,
                self._remove_node,
                *6 * [self._delete_pod],
                self._relabel_pod,
                self._annotate_pod,
                self._annotate_pod,
                self._start_pod,
                self._start_pod,
                self._nominate,
                self._change_namespace,
                self._change_volume,
                self._change_csi_node,
            ]
        )
        event()

    def _set_node(self, name: str) -> None:
        draw = self._random
        made = node(
            name,
            cpu=draw.choice([2, 4, 8]),
            pods=draw.choice([4, 20, 20]),
            zone=f"z{draw.randrange(3)}",
            labels={"pool": draw.choice("ab")},
            taints=draw.choice([*4 * [()], ("t=x:NoSchedule",), ("s=x:PreferNoSchedule",)]),
            unschedulable=draw.random() < 0.1,
            images={"web:latest": 300 << 20} if draw.random() < 0.5 else None,
        )
        if name in self._nodes:
            self._handlers.update_node(self._nodes[name], made)
        else:
            self._handlers.add_node(made)
        self._nodes[name] = made

    def _change_node(self) -> None:
        self._set_node(self._random.choice(_NODES))

    def _remove_node(self) -> None:
        name = self._random.choice(_NODES)
        if name in self._nodes and len(self._nodes) > 6:
            self._handlers.delete_node(self._nodes.pop(name))

    def _delete_pod(self) -> None:
        if self._standing:
            place = self._random.randrange(len(self._standing))
            self._handlers.delete_pod(self._standing.pop(place))

    def _update_pod(self, **changes: Any) -> None:
        if self._standing:
            place = self._random.randrange(len(self._standing))
            old = self._standing[place]
            self._number += 1
            new = self._standing[place] = changed(
                old, resource_version=str(self._number), **changes
            )
            self._handlers.update_pod(old, new)

    def _relabel_pod(self) -> None:
        self._update_pod(labels={"app": self._random.choice(["a", "b", "lone"])})

    def _annotate_pod(self) -> None:
        self._update_pod(annotations=self._random.choice([{"noisy": "yes"}, None, None]))

    def _start_pod(self) -> None:
        self._update_pod(start_time=f"2023-01-01T00:{self._random.randrange(60):02}:00Z")

    def _nominate(self) -> None:
        """Another component promises a waiting pod a node."""
        if self._waiting:
            place = self._random.randrange(len(self._waiting))
            old = self._waiting[place]
            name = self._random.choice(["", *_NODES])
            new = self._waiting[place] = changed(old, nominated_node_name=name)
            self._handlers.update_pod(old, new)

    def _set_namespace(self, name: str, team: str) -> None:
        meta = ObjectMeta(name=name, labels={"team": team})
        self._handlers.set_object(NAMESPACES, Namespace(metadata=meta))

    def _change_namespace(self) -> None:
        self._set_namespace(self._random.choice(["default", "other"]), self._random.choice("xy"))

    def _change_volume(self) -> None:
        """A volume is made somewhere else, and the claim that it was for waits again."""
        self._number += 1
        volume = _volume("local", host=self._random.choice(_NODES))
        claim = _claim("waiting", "")
        for wire in (volume, claim):
            wire["metadata"]["resourceVersion"] = str(self._number)
        self._handlers.set_object(PERSISTENT_VOLUMES, msgspec.convert(volume, PersistentVolume))
        self._handlers.set_object(
            PERSISTENT_VOLUME_CLAIMS, msgspec.convert(claim, PersistentVolumeClaim)
        )

    def _change_csi_node(self) -> None:
        limit = {"name": "csi.example", "nodeID": "x", "allocatable": {"count": 0}}
        wire = {
            "metadata": {"name": self._random.choice(_NODES)},
            "spec": {"drivers": [limit] if self._random.random() < 0.7 else []},
        }
        self._handlers.set_object(CSI_NODES, msgspec.convert(wire, CSINode))

    # Pods

    def _pods_come(self) -> None:
        template = self._random.choice(list(TEMPLATES.values()))
        namespace = "default" if "volumes" in template else self._random.choice(_SPACES)
        for _ in range(self._random.randint(1, 5)):
            if self._random.random() < 0.3:
                self._something_happens()
            self._number += 1
            made = pod(f"p{self._number}", namespace=namespace, **template)
            self._waiting.append(made)
            self._handlers.add_pod(made)
            self._attempt()

    def _attempt(self) -> None:
        outcome = self.engine.attempt()
        if found := self.engine.mismatches():
            raise WrongDecision(found)
        if isinstance(outcome, Placement):
            self.engine.permitted(outcome)
            self.engine.bound(outcome)
            self._waiting = [each for each in self._waiting if each.uid != outcome.pod.uid]
            self._handlers.update_pod(outcome.queued.pod, outcome.pod)
            self._standing.append(outcome.pod)
        elif outcome is not None and outcome.eviction is not None:
            self._evict(outcome.pod, outcome.eviction.victims)
        if len(self._waiting) > 4:
            # Mostly it would not fit the next time either.
            self._handlers.delete_pod(self._waiting.pop(0))
        self._clock.advance(2.0)

    def _evict(self, winner: Pod, victims: tuple[Pod, ...]) -> None:
        """The victims go at once, or their eviction comes to nothing; the winner keeps trying."""
        uids = {victim.uid for victim in victims} if self._random.random() < 0.5 else set()
        for victim in [each for each in self._standing if each.uid in uids]:
            self._standing.remove(victim)
            self._handlers.delete_pod(victim)
        for handle in self.engine.handles.values():
            handle.preempting.end(winner)


_SPACES = ["default", "default", "other"]


def _class() -> dict[str, Any]:
    return {
        "metadata": {"name": "local"},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def _volume(name: str, host: str = "") -> dict[str, Any]:
    spec: dict[str, Any] = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "csi": {"driver": "csi.example", "volumeHandle": name},
    }
    if host:
        match = [{"key": _HOST, "operator": "In", "values": [host]}]
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": match}]}}
    else:
        spec["claimRef"] = {"namespace": "default", "name": "shared", "uid": "shared"}
    status = {"phase": "Available" if host else "Bound"}
    return {"metadata": {"name": name, "uid": name}, "spec": spec, "status": status}


def _claim(name: str, volume: str) -> dict[str, Any]:
    bound = {"pv.kubernetes.io/bind-completed": "yes"} if volume else {}
    return {
        "metadata": {"name": name, "namespace": "default", "uid": name, "annotations": bound},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "volumeName": volume,
            "resources": {"requests": {"storage": "1Gi"}},
        },
        "status": {"phase": "Bound" if volume else "Pending"},
    }
