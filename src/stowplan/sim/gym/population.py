"""The nodes and pods of an episode's cluster, from the events of a trace.

Each change is passed to the live scheduler's event handlers, as an informer would. Pods that lose
their node (drained, lost with their node, preempted) are `homeless` until the simulation calls
`come_again`: each returns under a new name and runs for its whole duration.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass

import msgspec

from stowplan.api.objects import Node, Pod
from stowplan.clock import Clock, rfc3339
from stowplan.errors import ConfigError
from stowplan.scheduler.engine import Engine
from stowplan.scheduler.event_handlers import EventHandlers
from stowplan.sim.gym.objects import KnownNode, PodReader, read_other
from stowplan.sim.traces.clean_ups import CleanUps
from stowplan.sim.traces.model import Arrival, Disruption, Event, Json, Removal, Revision
from stowplan.sim.traces.pod_changes import changeable, revised
from stowplan.workloads.kinds import find_resource


@dataclass(slots=True)
class Living:
    """A pod that is in the cluster."""

    pod: Pod
    manifest: Json
    run_s: float | None
    since: float
    #: How often it was lost and came again.
    lives: int = 0

    @property
    def first_key(self) -> str:
        """The pod's key in the trace, also after it has come again."""
        return _key(self.manifest["metadata"])


def _key(metadata: Json) -> str:
    return f"{metadata.get('namespace') or 'default'}/{metadata['name']}"


class Population:
    """Nodes and pods; `waiting` are the keys of pods that wait for a node."""

    def __init__(self, engine: Engine, clock: Clock, *, max_nodes: int) -> None:
        self._engine = engine
        self._clock = clock
        self._max_nodes = max_nodes
        self._reader = PodReader()
        self._nodes: dict[str, KnownNode] = {}
        #: Keys of pods that have come again, by their key in the trace.
        self._renamed: dict[str, str] = {}
        #: Pods that go when they have finished: here, all that finish go.
        self._clean_ups = CleanUps()
        self._made = 0
        self.handlers = EventHandlers(engine)
        self.living: dict[str, Living] = {}
        self.waiting: dict[str, None] = {}
        #: Pods that lost their node and have not come again yet.
        self.homeless: deque[Living] = deque()
        #: When a pod ends, in which order, its key and UID.
        self.ends: list[tuple[float, int, str, str]] = []
        #: Numbers of pods so far that lost their node, and that finished.
        self.lost = self.finished = 0

    def happen(self, event: Event) -> None:
        match event:
            case Arrival():
                self.create(event.manifest, event.run_s)
            case Revision():
                self._revise(event.manifest)
            case Removal():
                self._remove(event)
            case Disruption():
                self._disrupt(event)

    # Objects

    def create(self, manifest: Json, run_s: float | None) -> None:
        match manifest["kind"]:
            case "Pod":
                self._make_way(_key(manifest["metadata"]))
                self._add_pod(manifest, manifest["metadata"]["name"], run_s)
            case "Node":
                node = KnownNode.read(manifest)
                if node.described.name in self._nodes:
                    self._set_node(node)
                else:
                    self._add_node(node)
            case "PriorityClass":
                self._reader.add_priority_class(manifest)
            case _:
                self._set_other(manifest)

    def _set_other(self, manifest: Json) -> None:
        resource = find_resource(manifest["apiVersion"], manifest["kind"])
        if resource is not None and resource in self._engine.looked_up():
            self.handlers.set_object(resource, read_other(resource, manifest))

    def _revise(self, manifest: Json) -> None:
        if manifest["kind"] != "Pod":
            self.create(manifest, None)
            return
        first_key, changes = _key(manifest["metadata"]), changeable(manifest)
        known = self._known(first_key)
        if known is not None:
            known.manifest = revised(known.manifest, changes)
        _, living = self._present(first_key)
        if living is None:
            return
        old = living.pod
        meta = old.metadata
        read = self._reader.read(
            living.manifest, name=meta.name, uid=meta.uid, created=meta.creation_timestamp or ""
        )
        living.pod = msgspec.structs.replace(
            old,
            metadata=msgspec.structs.replace(meta, labels=read.metadata.labels),
            spec=msgspec.structs.replace(read.spec, node_name=old.spec.node_name),
        )
        self.handlers.update_pod(old, living.pod)

    def _remove(self, event: Removal) -> None:
        if event.kind == "Pod":
            first_key = f"{event.namespace or 'default'}/{event.name}"
            known = self._known(first_key)
            if event.is_clean_up and known is not None:
                self._clean_ups.add(first_key, known.manifest)
            else:
                self._remove_pod(first_key)
        elif event.kind == "Node":
            self._lose_all(event.name)
            node = self._nodes.pop(event.name, None)
            if node is not None:
                self.handlers.delete_node(node.now())
        else:
            for first_key in self._clean_ups.users_of(event):
                if self._present(first_key)[0] in self.waiting:
                    self._remove_pod(first_key)
            resource = find_resource(event.api_version, event.kind)
            if resource is None or resource not in self._engine.looked_up():
                return
            shelf = self._engine.cache.catalog[resource]
            there = shelf.get(event.name, event.namespace if resource.namespaced else "")
            if there is not None:
                self.handlers.delete_object(resource, there)

    def _make_way(self, key: str) -> None:
        """Remove a pod that was cleaned up: another one of its name arrives."""
        if key in self._clean_ups:
            self._remove_pod(key)

    def _remove_pod(self, first_key: str) -> None:
        self._clean_ups.discard(first_key)
        if self.homeless:
            self.homeless = deque(each for each in self.homeless if each.first_key != first_key)
        key, living = self._present(first_key)
        if living is not None:
            self._take_away(key)

    def _present(self, first_key: str) -> tuple[str, Living | None]:
        """The key of a pod now, and the pod itself if it is in the cluster."""
        key = self._renamed.get(first_key, first_key)
        living = self.living.get(key)
        if living is not None and living.first_key != first_key:
            living = None  # the replacement of another pod has its name
        return key, living

    def _known(self, first_key: str) -> Living | None:
        """A pod that is in the cluster, or will come again."""
        _, living = self._present(first_key)
        homeless = (each for each in self.homeless if each.first_key == first_key)
        return living or next(homeless, None)

    def _disrupt(self, event: Disruption) -> None:
        known = self._nodes.get(event.node)
        if known is None:
            return
        match event.kind:
            case "fail" | "recover":
                self._set_node(known.lost(is_so=event.kind == "fail"))
            case "cordon" | "uncordon" | "drain":
                self._set_node(known.cordoned(is_so=event.kind != "uncordon"))
        if event.kind in ("fail", "drain"):
            self._lose_all(event.node)

    # Nodes

    def _add_node(self, known: KnownNode) -> None:
        node: Node = known.now()
        self._nodes[node.name] = known
        self.handlers.add_node(node)
        if self._engine.cache.table.row_of[node.name] >= self._max_nodes:
            raise ConfigError(
                f"node {node.name} is one too many: the environment was made for"
                f" {self._max_nodes} nodes; set max_nodes=",
                where="max_nodes",
            )

    def _set_node(self, known: KnownNode) -> None:
        name = known.described.name
        before, self._nodes[name] = self._nodes[name], known
        self.handlers.update_node(before.now(), known.now())

    # Pods

    def _add_pod(self, manifest: Json, name: str, run_s: float | None, lives: int = 0) -> None:
        self._made += 1
        created = rfc3339(self._clock.time())
        pod = self._reader.read(manifest, name=name, uid=f"uid-{self._made}", created=created)
        if pod.is_finished or pod.key in self.living:
            return
        if lives and pod.spec.node_name:
            # The node was chosen for its first life only.
            spec = msgspec.structs.replace(pod.spec, node_name="")
            pod = msgspec.structs.replace(pod, spec=spec)
        living = Living(pod, manifest, run_s, self._clock.monotonic(), lives)
        self.living[pod.key] = living
        if pod.spec.node_name:
            self.begin_to_run(living)
        elif self._engine.serves(pod):
            self.waiting[pod.key] = None
        self.handlers.add_pod(pod)

    def begin_to_run(self, living: Living) -> None:
        if living.run_s is not None:
            self._made += 1
            end = self._clock.monotonic() + living.run_s
            heapq.heappush(self.ends, (end, self._made, living.pod.key, living.pod.uid))

    def finish(self, key: str, uid: str) -> None:
        """Finish a pod, unless it is gone already."""
        living = self.living.get(key)
        if living is not None and living.pod.uid == uid:
            self._take_away(key)
            self._clean_ups.discard(living.first_key)
            self.finished += 1

    def _lose_all(self, node: str) -> None:
        row = self._engine.cache.table.row_of.get(node)
        if row is not None:
            # In the order in which an API server lists them.
            self.lose(sorted(info.pod.key for info in self._engine.cache.table.pods[row].values()))

    def lose(self, keys: list[str]) -> None:
        """Remove pods from their node; they come again under new names."""
        for key in keys:
            living = self._take_away(key)
            if living is not None:
                self.lost += 1
                self.homeless.append(living)

    def come_again(self, lost: Living) -> None:
        lives, namespace = lost.lives, lost.pod.metadata.namespace
        while True:
            lives += 1
            name = f"{lost.manifest['metadata']['name']}-r{lives}"
            key = f"{namespace}/{name}"
            if key not in self.living:  # the trace has pods of such names, too
                break
        self._add_pod(lost.manifest, name, lost.run_s, lives)
        self._renamed[lost.first_key] = key

    def _take_away(self, key: str) -> Living | None:
        living = self.living.pop(key, None)
        if living is not None:
            self.waiting.pop(key, None)
            self._renamed.pop(living.first_key, None)
            self.handlers.delete_pod(living.pod)
        return living

    def lookup(self, key: str) -> Pod | None:
        living = self.living.get(key)
        return None if living is None else living.pod
