"""Random clusters and pods from a seed, the same in every process.

Nodes that are cordoned, tainted, full or empty, with labels of the plugin's own vocabulary; pods
that run on them, some on deleted nodes; pending pods. All objects are valid for the API server:
behaviour for invalid objects is not checked.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from msgspec.structs import replace

from stowplan.api.objects import Node, Pod, PodStatus
from stowplan.cluster.cache import ClusterCache
from stowplan.testing.builders import node as make_node
from stowplan.testing.builders import pod as make_pod
from stowplan.testing.plugin_checks.vocabulary import Words

_ZONES = (None, "zone-a", "zone-b")
_EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")
_TAINTS = ("dedicated", "gpu", "node.kubernetes.io/unschedulable")
_GPU = "example.com/gpu"
_GONE = "gone"
_IMAGES = {"web:1": 1 << 28, "db:2": 1 << 30}
#: How many pods of a case are updated.
_UPDATED = 4
_STARTED = "2026-01-01T00:00:00Z"


@dataclass
class Case:
    """One cluster and the pods that ask about it."""

    seed: int
    nodes: list[Node]
    standing: list[Pod]
    askers: list[Pod]
    #: What may happen to the cluster, in order: a node set, a node's name removed, a pod added,
    #: a pod's UID removed.
    changes: list[tuple[str, Any]] = field(default_factory=list)
    #: Newer versions of pods that are still there after the changes: each differs from the version
    #: before in its annotations alone or in its status alone, as when a kubelet writes.
    updates: list[Pod] = field(default_factory=list)

    def fill(self, cache: ClusterCache, *, reversed_nodes: bool = False) -> None:
        nodes = list(reversed(self.nodes)) if reversed_nodes else self.nodes
        for node in nodes:
            cache.set_node(node)
        for pod in self.standing:
            cache.add_pod(pod)


def make_case(seed: int, words: Words) -> Case:
    """The cluster of a seed, in a plugin's vocabulary."""
    dice = _Dice(seed, words)
    names = [f"{dice.of(('node', 'worker-'))}{index}" for index in range(dice.rng.randint(1, 8))]
    nodes = [dice.node(name) for name in names]
    standing = [dice.pod(f"standing-{index}", dice.of(names)) for index in range(dice.upto(8))]
    if dice.chance(0.2):
        standing.append(dice.pod("on-a-ghost", _GONE))
    askers = [dice.pod(f"{dice.of(('pod', 'web-'))}{index}") for index in range(3)]
    changes = dice.changes(names, standing)
    # What random changes seldom do: a node becomes all that a pod may wish for.
    changes += [("set", _ideal(dice.of(nodes), pod)) for pod in askers]
    return Case(seed, nodes, standing, askers, changes, dice.updates(standing, changes))


def _ideal(node: Node, pod: Pod) -> Node:
    """The node with the pod's labels, room for everything, and open to everybody."""
    meta = node.metadata
    wished = {**(pod.metadata.labels or {}), **(pod.spec.node_selector or {})}
    room = {"cpu": "64", "memory": "256Gi", "pods": "500", _GPU: "16"}
    return replace(
        node,
        metadata=replace(
            meta,
            labels={**(meta.labels or {}), **wished},
            annotations={**(meta.annotations or {}), **(pod.metadata.annotations or {})},
        ),
        spec=replace(node.spec, unschedulable=False, taints=None),
        status=replace(node.status, allocatable=room, capacity=room),
    )


class _Dice:
    def __init__(self, seed: int, words: Words) -> None:
        self.rng = Random(seed)
        self.words = words
        self._seed = seed
        self._serial = 0

    def of(self, things: Any) -> Any:
        return self.rng.choice(things)

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def upto(self, most: int) -> int:
        return self.rng.randint(0, most)

    def labels(self) -> dict[str, str]:
        """Half of the values are what the plugin's code says after the key."""
        made: dict[str, str] = {}
        for _ in range(self.upto(4)):
            # The first words are the plugin's own; those of its module come later.
            key = self.of(self.words.all[:4] if self.chance(0.5) else self.words.all)
            following = self.words.after.get(key, ())
            likely = following and self.chance(0.6)
            made[key] = self.of(following) if likely else self.of(self.words.all)
        return made

    def _uid(self) -> str:
        self._serial += 1
        return f"uid-{self._seed}-{self._serial}"

    def node(self, name: str) -> Node:
        taints = [
            {"key": self.of(_TAINTS), "value": self.of(("", "x")), "effect": self.of(_EFFECTS)}
            for _ in range(self.upto(2) if self.chance(0.4) else 0)
        ]
        resources = {_GPU: self.upto(8)} if self.chance(0.4) else {}
        return make_node(
            name,
            uid=self._uid(),
            cpu=f"{self.of((0, 500, 2000, 8000, 32000))}m",
            memory=self.of((0, 1 << 28, 1 << 32, 1 << 38)),
            pods=self.of((0, 2, 110)),
            resources={"ephemeral-storage": 1 << 36, **resources},
            zone=self.of(_ZONES),
            labels=self.labels(),
            annotations=self.labels() if self.chance(0.5) else None,
            taints=taints,
            unschedulable=self.chance(0.15),
            # An image is equally large wherever it is.
            images={image: size for image, size in _IMAGES.items() if self.chance(0.5)},
        )

    def pod(self, name: str, node: str = "") -> Pod:
        more: dict[str, Any] = {}
        if self.chance(0.3):
            more["node_selector"] = self.labels()
        if self.chance(0.3):
            more["affinity"] = self._affinity()
        if self.chance(0.3):
            more["topology_spread_constraints"] = [self._spread()]
        ports = [{"hostPort": self.of((80, 443)), "protocol": "TCP"}] if self.chance(0.2) else []
        requests = {
            "cpu": f"{self.of((0, 100, 1000, 4000))}m",
            "memory": str(self.of((0, 1 << 26, 1 << 30))),
            **({_GPU: str(1 + self.upto(2))} if self.chance(0.2) else {}),
        }
        container = {
            "name": "main",
            "image": self.of(tuple(_IMAGES)),
            "resources": {"requests": requests} if self.chance(0.8) else {},
            "ports": ports,
        }
        tolerations = [
            {"key": self.of(_TAINTS), "operator": "Exists", "effect": self.of(("", *_EFFECTS))}
            for _ in range(self.upto(2) if self.chance(0.4) else 0)
        ]
        return make_pod(
            name,
            uid=self._uid(),
            namespace=self.of(("default", "default", "other")),
            node=node,
            labels=self.labels(),
            annotations=self.labels() if self.chance(0.4) else None,
            priority=self.of((None, 0, 100)),
            tolerations=tolerations,
            containers=[container],
            host_network=self.chance(0.2),
            **more,
        )

    def _selector(self) -> dict[str, Any]:
        labels = self.labels()
        return {"matchLabels": dict(list(labels.items())[:1])}

    def _term(self) -> dict[str, Any]:
        key = self.of(("topology.kubernetes.io/zone", "kubernetes.io/hostname"))
        return {"topologyKey": key, "labelSelector": self._selector()}

    def _spread(self) -> dict[str, Any]:
        when = self.of(("DoNotSchedule", "ScheduleAnyway"))
        return {"maxSkew": 1 + self.upto(1), "whenUnsatisfiable": when, **self._term()}

    def _affinity(self) -> dict[str, Any]:
        required = "requiredDuringSchedulingIgnoredDuringExecution"
        preferred = "preferredDuringSchedulingIgnoredDuringExecution"
        key, value = self.of(self.words.all), self.of(self.words.all)
        term = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
        kinds: list[dict[str, Any]] = [
            {"nodeAffinity": {required: {"nodeSelectorTerms": [term]}}},
            {"nodeAffinity": {preferred: [{"weight": 5, "preference": term}]}},
            {"podAffinity": {preferred: [{"weight": 7, "podAffinityTerm": self._term()}]}},
            {"podAntiAffinity": {required: [self._term()]}},
        ]
        chosen: dict[str, Any] = self.of(kinds)
        return chosen

    def changes(self, names: list[str], standing: list[Pod]) -> list[tuple[str, Any]]:
        made: list[tuple[str, Any]] = []
        going = [pod.uid for pod in standing]
        for index in range(8):
            match self.of(("set", "set", "add", "add", "remove", "delete")):
                case "set":
                    made.append(("set", self.node(self.of([*names, f"new{index}"]))))
                case "add":
                    pod = self.pod(f"added-{index}", self.of(names))
                    going.append(pod.uid)
                    made.append(("add", pod))
                case "remove" if len(names) > 1:
                    made.append(("remove", names[-1]))
                case "delete" if going:
                    made.append(("delete", going.pop(self.rng.randrange(len(going)))))
        return made

    def updates(self, standing: list[Pod], changes: list[tuple[str, Any]]) -> list[Pod]:
        there = {pod.uid: pod for pod in standing}
        for action, what in changes:
            if action == "add":
                there[what.uid] = what
            elif action == "delete":
                del there[what]
        made: list[Pod] = []
        for pod in list(there.values())[:_UPDATED]:
            metadata = replace(pod.metadata, annotations=self.labels() | self.labels())
            annotated = replace(pod, metadata=metadata)
            status = PodStatus(phase="Running", start_time=_STARTED)
            made += [annotated, replace(annotated, status=status)]
        return made


def apply(change: tuple[str, Any], cache: ClusterCache) -> None:
    """Let one of a case's changes happen."""
    action, what = change
    if action == "set":
        cache.set_node(what)
    elif action == "remove":
        cache.remove_node(what)
    elif action == "add":
        cache.add_pod(what)
    else:
        cache.remove_pod(what)


def variants(pod: Pod, other: Pod) -> list[tuple[str, Pod]]:
    """The pod with one thing as another pod has it, and what that is."""
    meta, spec = pod.metadata, pod.spec
    made = [
        (
            f"metadata.{wire}",
            replace(pod, metadata=replace(meta, **{name: getattr(other.metadata, name)})),
        )
        for name, wire in (
            ("labels", "labels"),
            ("annotations", "annotations"),
            ("name", "name"),
            ("uid", "uid"),
            ("namespace", "namespace"),
        )
    ]
    made += [
        (f"spec.{wire}", replace(pod, spec=replace(spec, **{name: getattr(other.spec, name)})))
        for name, wire in (
            ("containers", "containers"),
            ("tolerations", "tolerations"),
            ("node_selector", "nodeSelector"),
            ("affinity", "affinity"),
            ("topology_spread_constraints", "topologySpreadConstraints"),
            ("priority", "priority"),
            ("host_network", "hostNetwork"),
        )
    ]
    return made
