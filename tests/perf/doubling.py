"""Counts the work of a hostile pod's whole life, for sizes that double.

Work is counted as lines of Python that are executed (a loop counts each time around), memory as
bytes that Python and numpy have allocated. Neither depends on the machine. What C code does within
one line is not counted, unless it allocates: `python -m stowplan.bench.attack` measures time.
"""

from __future__ import annotations

import gc
import json
import sys
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from random import Random
from typing import Any

import msgspec

from stowplan.api.objects import Node, Pod
from stowplan.api.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES
from stowplan.api.storage_objects import PersistentVolume, PersistentVolumeClaim, StorageClass
from stowplan.config.defaults import default_config
from stowplan.lab.bench.hostile import Json, keys, pod_manifest
from stowplan.lab.bench.hostile_sizes import Sizes, claim_names, sized_node, sized_pod
from stowplan.lab.bench.synthetic import as_informed
from stowplan.plugins.registry import in_tree_registry
from stowplan.scheduler.assembly import build_engine
from stowplan.scheduler.event_handlers import EventHandlers
from stowplan.scheduler.outcome import Deferral, Failure, Placement

#: Sizes of the cluster, besides those of pods and nodes.
CLUSTER_SIZES = {
    "nodes": "nodes",
    "pods": "standing pods of one kind",
    "label sets": "standing pods, each with labels of its own",
}
_NODES = 6
_STANDING = 12
#: Pods before anything is counted: columns are kept from their second use on.
_WARM_UP = 4

_decode_node = msgspec.json.Decoder(Node).decode
_decode_pod = msgspec.json.Decoder(Pod).decode
#: No two lives share a name, so that nothing kept for one serves another.
_serials = count(1)


class Steps:
    """Lines of Python, by function."""

    def __init__(self) -> None:
        self.by_function: Counter[Any] = Counter()

    @property
    def total(self) -> int:
        return sum(self.by_function.values())

    @contextmanager
    def counted(self) -> Iterator[None]:
        counts = self.by_function

        def on_line(frame: Any, _event: str, _argument: Any) -> Any:
            counts[frame.f_code] += 1
            return on_line

        before = sys.gettrace()
        sys.settrace(on_line)
        try:
            yield
        finally:
            sys.settrace(before)


class Stage:
    """A small cluster, and one pod's life on it, with lists of the wanted sizes."""

    def __init__(self, sizes: Sizes, *, crowded: bool) -> None:
        """`crowded`: pods of the same sizes stand on every node, so that there is no place."""
        self._sizes = sizes
        self._crowded = crowded
        self.engine = build_engine(default_config(), registry=in_tree_registry(), rng=Random(1))
        self._handlers = EventHandlers(self.engine)
        self._serial = next(_serials)
        self._claim_names: list[str] = []
        late = msgspec.convert(_LATE_CLASS, StorageClass)
        self._handlers.set_object(STORAGE_CLASSES, late)
        nodes = _NODES + sizes.get("nodes", 0)
        self._nodes = [self._node(index) for index in range(nodes)]
        for node in self._nodes:
            self._handlers.add_node(node)
        distinct = sizes.get("label sets", 0)
        for index in range(_STANDING + sizes.get("pods", 0) + distinct):
            app = index if index < distinct else index % 4
            self._handlers.add_pod(_plain("standing", app, node=f"n{index % nodes}"))
        for _ in range(_WARM_UP):
            self._live(_plain("warm"))

    def prepare(self) -> None:
        """Make the objects of the next life; that is no work of the scheduler's."""
        self._serial = next(_serials)
        self._claims()
        places = range(_NODES) if self._crowded else range(1, 2)
        self._twins = [self._pod(f"twin-{index}", node=f"n{index}") for index in places]
        self._pod_itself = self._pod("itself")
        self._other_plain = [_plain("plain") for _ in range(3)]
        self._relabelled = self._pod("twin-1", tier="new", node="n1")
        self._renewed = self._node(2, is_new=True)
        self._serial = next(_serials)
        self._claims()
        self._stranger = self._pod("stranger", node="n3")

    def live(self) -> None:
        """Pods of the same sizes stand and are scheduled, with the same names and with others.

        Plain pods and a node's updates come between.
        """
        handlers, pod = self._handlers, self._pod_itself
        for twin in (*self._twins, self._stranger):
            handlers.add_pod(twin)
        handlers.add_pod(pod)
        placed = self._decide(pod) or pod
        self._live(self._other_plain[0])
        handlers.delete_pod(self._stranger)
        handlers.update_node(self._nodes[2], self._renewed)
        self._live(self._other_plain[1])
        for twin in self._twins:
            if twin.uid == self._relabelled.uid:
                handlers.update_pod(twin, self._relabelled)
            handlers.delete_pod(twin)
        handlers.delete_pod(placed)
        handlers.update_node(self._renewed, self._nodes[2])
        self._live(self._other_plain[2])

    def decide_in_parts(self, work: float) -> tuple[int, int]:
        """Decide on the pod with so much work a try: what it spends, and how often it waits."""
        self._handlers.add_pod(self._pod_itself)
        self.engine.decision_work = work
        spent, deferrals = self.engine.cache.table.work.spent, 0
        while isinstance(outcome := self.engine.advance(), Deferral):
            deferrals += 1
        assert isinstance(outcome, Placement | Failure)
        assert isinstance(outcome, Placement) or outcome.status.is_rejected, outcome.message
        return self.engine.cache.table.work.spent - spent, deferrals

    def forget(self) -> None:
        """Let go of the objects of a life, as informers do when they are deleted."""
        self._delete_claims()
        del self._pod_itself, self._relabelled, self._renewed, self._stranger
        self._twins, self._other_plain = [], []

    def _node(self, index: int, *, is_new: bool = False) -> Node:
        sizes = self._sizes
        if self._crowded:
            # Without the labels that are asked for, and with a taint that nothing tolerates.
            sizes = {name: size for name, size in sizes.items() if name != "node selector"}
        made = sized_node(f"n{index}", f"zone-{index % 3}", sizes, self._serial)
        if self._crowded and sizes.get("hard taints"):
            made["spec"]["taints"].append({"key": "crowded", "effect": "NoSchedule"})
        if is_new:
            made["metadata"]["labels"]["tier"] = "new"
            made["spec"]["taints"].append({"key": "new", "effect": "PreferNoSchedule"})
            made["status"]["allocatable"]["cpu"] = "31"
        return _decode_node(json.dumps(made))

    def _pod(self, name: str, tier: str = "old", node: str = "") -> Pod:
        made = sized_pod(self._sizes, self._serial)
        labels = made["metadata"]["labels"]
        labels["tier"] = tier
        if self._crowded and node and self._sizes.get("anti-affinity terms"):
            labels |= dict.fromkeys(keys(1, self._serial, "aa"), "")
        return _named(made, f"{name}-{self._serial}", node)

    def _live(self, pod: Pod) -> None:
        self._handlers.add_pod(pod)
        placed = self._decide(pod)
        assert placed is not None, "a plain pod found no place"
        self._handlers.delete_pod(placed)

    def _decide(self, pod: Pod) -> Pod | None:
        while True:
            outcome: object = self.engine.attempt()
            if not isinstance(outcome, Placement | Failure) or outcome.pod.uid != pod.uid:
                continue
            if isinstance(outcome, Failure):
                assert outcome.status.is_rejected, outcome.message
                return None
            self.engine.permitted(outcome)
            self.engine.bound(outcome)
            informed = as_informed(outcome.pod)
            self._handlers.update_pod(outcome.queued.pod, informed)
            return informed

    def _claims(self) -> None:
        bound, unbound = claim_names(self._sizes, self._serial)
        for name in (*bound, *unbound):
            # For an open claim, one of as many volumes that every node reaches.
            self._handlers.set_object(PERSISTENT_VOLUMES, _volume(name))
            claim = _claim(name, is_bound=name in bound)
            self._handlers.set_object(PERSISTENT_VOLUME_CLAIMS, claim)
        self._claim_names += (*bound, *unbound)

    def _delete_claims(self) -> None:
        for name in self._claim_names:
            self._handlers.delete_object(PERSISTENT_VOLUMES, _volume(name))
            self._handlers.delete_object(PERSISTENT_VOLUME_CLAIMS, _claim(name))
        self._claim_names.clear()


_LATE_CLASS = {
    "metadata": {"name": "late"},
    "provisioner": "kubernetes.io/no-provisioner",
    "volumeBindingMode": "WaitForFirstConsumer",
}


def _claim(name: str, *, is_bound: bool = True) -> PersistentVolumeClaim:
    made: Json = {
        "metadata": {"name": name, "namespace": "hostile", "uid": name},
        "spec": {
            "storageClassName": "late",
            "accessModes": ["ReadOnlyMany"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    if is_bound:
        made["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
        made["spec"]["volumeName"] = name
    return msgspec.convert(made, PersistentVolumeClaim)


def _volume(name: str) -> PersistentVolume:
    made = {
        "metadata": {"name": name},
        "spec": {
            "storageClassName": "late",
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadOnlyMany"],
            "csi": {"driver": "example.com", "volumeHandle": name},
        },
        "status": {"phase": "Available"},
    }
    return msgspec.convert(made, PersistentVolume)


def _named(manifest: Json, name: str, node: str = "") -> Pod:
    manifest["metadata"] |= {"name": name, "uid": f"uid-{name}"}
    manifest["spec"]["nodeName"] = node
    return _decode_pod(json.dumps(manifest))


def _plain(what: str, app: int = 0, node: str = "") -> Pod:
    serial = next(_serials)
    manifest = pod_manifest(serial, tolerations=[{"operator": "Exists"}])
    manifest["metadata"] |= {"namespace": "plain", "labels": {"app": f"app-{app}"}}
    return _named(manifest, f"{what}-{serial}", node)


def steps(sizes: Sizes, *, crowded: bool = False) -> Steps:
    """Lines of Python that a life takes on a cluster that has not seen the like."""
    stage = Stage(sizes, crowded=crowded)
    stage.prepare()
    counted = Steps()
    gc.disable()
    try:
        with counted.counted():
            stage.live()
    finally:
        gc.enable()
    return counted


@dataclass(frozen=True)
class Memory:
    """Bytes that a life allocates: at its peak, and what of them is left when it is over."""

    peak: int
    kept: int


def memory(sizes: Sizes) -> Memory:
    """The second life on a cluster: what the first one left behind serves it as well."""
    stage = Stage(sizes, crowded=False)
    stage.prepare()
    stage.live()
    stage.forget()
    gc.collect()
    tracemalloc.start()
    try:
        stage.prepare()
        stage.live()
        _, peak = tracemalloc.get_traced_memory()
        stage.forget()
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return Memory(peak, kept)


def excess(few: int, some: int, many: int) -> int:
    """By how much work at sizes n, 2n and 4n grows faster than in proportion; 0 for a + b*n.

    For a + b*n + c*n*n it is 6*c*n*n, whatever a and b are.
    """
    return many - 3 * some + 2 * few
