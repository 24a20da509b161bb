"""The cluster of one episode: a trace played on the scheduler's engine, in virtual time.

There is no API server: what informers would deliver goes straight to the live scheduler's event
handlers, and a placement is bound at once. As where traces are played on a whole cluster
(`scenarios.trace_play`), pods that are preempted, drained away or lost with their node come again
under a new name, with their whole duration before them. What must stay true: time moves only while
no pod is ready to be tried, and the same trace and answers give the same episode.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass
from random import Random

import msgspec

from stowplan.api.objects import Node, Pod
from stowplan.clock import VirtualClock, rfc3339
from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.table import NodeTable
from stowplan.config.types import KubeSchedulerConfiguration
from stowplan.errors import ConfigError, StowplanError
from stowplan.framework.plugin import Eviction
from stowplan.framework.registry import Registry
from stowplan.gym.asking import AskingEngine, Question
from stowplan.gym.objects import KnownNode, PodReader, read_other
from stowplan.scheduler.assembly import build_profiles
from stowplan.scheduler.engine import Failure, Placement
from stowplan.scheduler.event_handlers import EventHandlers
from stowplan.traces.manifests import STANDING_NAMESPACES, namespace
from stowplan.traces.model import Arrival, Disruption, Event, Json, Removal, Revision, Trace
from stowplan.workloads.kinds import find_resource

#: Less than that is now: sums of floats are not exact.
_MOMENT_S = 1e-6


@dataclass(slots=True)
class _Living:
    """A pod that is in the cluster."""

    pod: Pod
    manifest: Json
    run_s: float | None
    since: float
    #: How often it was lost and came again.
    lives: int = 0

    @property
    def first_key(self) -> str:
        """What the trace calls it, also after it has come again."""
        return _key(self.manifest["metadata"])


def _key(metadata: Json) -> str:
    return f"{metadata.get('namespace') or 'default'}/{metadata['name']}"


class World:
    """`next_question` and `answer` in turn, until there is no question left."""

    def __init__(
        self,
        trace: Trace,
        config: KubeSchedulerConfiguration,
        registry: Registry,
        *,
        max_nodes: int,
        seed: int,
    ) -> None:
        self.clock = VirtualClock(0.0)
        self.engine = _build_engine(config, registry, self.clock, seed)
        self.engine.lookup = self._lookup
        for handle in self.engine.handles.values():
            handle.activate = self.engine.queue.activate
            handle.preempting.lookup = self._lookup
        self._handlers = EventHandlers(self.engine)
        self._max_nodes = max_nodes
        self._reader = PodReader()
        self._nodes: dict[str, KnownNode] = {}
        self._living: dict[str, _Living] = {}
        #: Keys of pods that have come again, by what the trace calls them.
        self._renamed: dict[str, str] = {}
        #: Victims of preemption, and the attempts that they must leave for.
        self._leaving: deque[tuple[Failure, Pod]] = deque()
        #: Pods that are gone, and not yet there again.
        self._lost: deque[_Living] = deque()
        #: When a pod ends, in which order, its key and UID.
        self._ends: list[tuple[float, int, str, str]] = []
        self._made = 0
        #: Keys of pods that wait for a node.
        self._waiting: dict[str, None] = {}
        #: Keys of pods that were found to fit nowhere since anything has changed.
        self._vain: set[str] = set()
        #: Added up over all pods.
        self.waited_s = 0.0
        self.placed = self.lost = self.finished = 0
        for name in sorted(STANDING_NAMESPACES):
            self._create(namespace(name), None)
        for manifest in trace.objects():
            self._create(manifest, None)
        self._events = trace.events()
        self._coming: Event | None = next(self._events, None)

    @property
    def table(self) -> NodeTable:
        return self.engine.cache.table

    @property
    def waiting(self) -> int:
        """Pods that wait for a node."""
        return len(self._waiting)

    def age_of(self, pod: Pod) -> float:
        return self.clock.monotonic() - self._living[pod.key].since

    # The agent's turn

    def next_question(self) -> Question | None:
        """Let things happen until a pod has its turn that fits somewhere; None: never again."""
        while True:
            found = self.engine.ask()
            if isinstance(found, Question):
                return found
            if isinstance(found, Failure):
                self._vain.add(found.pod.key)
                self._failed(found)
            elif not self._happen_next() and not self._let_time_pass():
                return None

    def answer(self, row: int | None) -> bool:
        """Bind the pod to a feasible row's node; None: to none. Whether it stands there now."""
        self._vain.clear()
        outcome = self.engine.answer(row)
        if isinstance(outcome, Failure):
            self._failed(outcome)
            return False
        self._bind(outcome)
        return True

    def _bind(self, placement: Placement) -> None:
        if placement.waiting is not None:
            plugins = ", ".join(placement.waiting.pending_plugins)
            raise StowplanError(
                f"{plugins} holds pod {placement.pod.key} in Permit; the environment binds at once:"
                " leave such plugins out of the profile"
            )
        self.engine.permitted(placement)
        self.engine.bound(placement)
        living = self._living[placement.pod.key]
        # Of several victims preemption spares those that have run for longest.
        status = msgspec.structs.replace(
            placement.pod.status, phase="Running", start_time=rfc3339(self.clock.time())
        )
        before, living.pod = living.pod, msgspec.structs.replace(placement.pod, status=status)
        self._handlers.update_pod(before, living.pod)
        self._waiting.pop(living.pod.key, None)
        self.placed += 1
        self._begin_to_run(living)

    def _failed(self, failure: Failure) -> None:
        """Write down the nomination, and make room if that was decided."""
        key = failure.pod.key
        living = self._living.get(key)
        if failure.is_pending and living is not None and failure.nominated_node is not None:
            self._nominate(living, failure.nominated_node)
        if failure.eviction is not None:
            self._evict(failure, failure.eviction)

    def _nominate(self, living: _Living, node: str) -> None:
        before = living.pod
        if before.status.nominated_node_name != node:
            status = msgspec.structs.replace(before.status, nominated_node_name=node)
            living.pod = msgspec.structs.replace(before, status=status)
            self._handlers.update_pod(before, living.pod)

    def _evict(self, failure: Failure, eviction: Eviction) -> None:
        for other in list(self.engine.queue.nominator.for_node(eviction.node)):
            if other.priority < failure.pod.priority and other.status.nominated_node_name:
                self._nominate(self._living[other.key], "")
        self._leaving += [(failure, victim) for victim in eviction.victims]

    def _leave(self, failure: Failure, victim: Pod) -> None:
        """A victim goes; with the last one, the pod that it goes for has its turn again."""
        preempting = self.engine.handles[failure.profile].preempting
        is_last = not self._leaving or self._leaving[0][0] is not failure
        if is_last:
            preempting.only_left(failure.pod, victim)
        if victim.key in self._living:
            self._lose([victim.key])
        if is_last:
            preempting.end(failure.pod)
            self.engine.queue.activate([failure.pod])

    # Time

    def _let_time_pass(self) -> bool:
        """To the next moment at which something happens; False: nothing can change any more."""
        moments = [] if self._coming is None else [self._coming.at]
        if self._waiting and self._ends:
            moments.append(self._ends[0][0])
        queue = self.engine.queue
        if moments or self._is_retry_due():
            wakeup = queue.next_wakeup()
            if wakeup is not None:
                moments.append(max(wakeup, self.clock.monotonic() + _MOMENT_S))
        if not moments:
            return False
        pause_s = max(min(moments) - self.clock.monotonic(), 0.0)
        self.waited_s += pause_s * len(self._waiting)
        self.clock.advance(pause_s)
        queue.flush_backoff()
        queue.flush_unschedulable()
        return True

    def _is_retry_due(self) -> bool:
        """Whether a pod is to be tried again of which it is not known that it would be in vain."""
        if not self.engine.queue.counts.backoff:
            return False
        pending = self.engine.queue.pending()
        backing_off = (*pending.backoff, *pending.error_backoff)
        return any(queued.key not in self._vain for queued in backing_off)

    def _happen_next(self) -> bool:
        """The next thing that is due by now, in the order of time; False: nothing is.

        One at a time, as the scheduler is quicker than whoever creates pods. Who ends makes room
        for who comes.
        """
        now = self.clock.monotonic() + _MOMENT_S
        end = self._ends[0][0] if self._ends else now
        coming = self._coming.at if self._coming is not None else now
        if self._leaving:
            self._leave(*self._leaving.popleft())
        elif self._lost:
            self._come_again(self._lost.popleft())
        elif end < now and end <= coming:
            _, _, key, uid = heapq.heappop(self._ends)
            self._finish(key, uid)
        elif coming < now:
            assert self._coming is not None
            self._happen(self._coming)
            self._coming = next(self._events, None)
        else:
            return False
        self._vain.clear()
        return True

    def _happen(self, event: Event) -> None:
        match event:
            case Arrival():
                self._create(event.manifest, event.run_s)
            case Revision():
                self._revise(event.manifest)
            case Removal():
                self._remove(event)
            case Disruption():
                self._disrupt(event)

    # Objects

    def _create(self, manifest: Json, run_s: float | None) -> None:
        match manifest["kind"]:
            case "Pod":
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
        if resource is not None and resource in self.engine.looked_up():
            self._handlers.set_object(resource, read_other(resource, manifest))

    def _revise(self, manifest: Json) -> None:
        """Of a pod only what may change in a cluster: its labels and annotations, and its end."""
        if manifest["kind"] != "Pod":
            self._create(manifest, None)
            return
        metadata = manifest["metadata"]
        key = _key(metadata)
        living = self._living.get(self._renamed.get(key, key))
        if living is None:
            return
        if (manifest.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            self._finish(living.pod.key, living.pod.uid)
            return
        before = living.pod
        changed = msgspec.structs.replace(
            before.metadata,
            labels=metadata.get("labels"),
            annotations=metadata.get("annotations"),
        )
        living.pod = msgspec.structs.replace(before, metadata=changed)
        self._handlers.update_pod(before, living.pod)

    def _remove(self, event: Removal) -> None:
        if event.kind == "Pod":
            key = f"{event.namespace or 'default'}/{event.name}"
            self._take_away(self._renamed.get(key, key))
        elif event.kind == "Node":
            self._lose_all(event.name)
            known = self._nodes.pop(event.name, None)
            if known is not None:
                self._handlers.delete_node(known.now())
        else:
            resource = find_resource(event.api_version, event.kind)
            if resource is None or resource not in self.engine.looked_up():
                return
            shelf = self.engine.cache.catalog[resource]
            there = shelf.get(event.name, event.namespace if resource.namespaced else "")
            if there is not None:
                self._handlers.delete_object(resource, there)

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
        self._handlers.add_node(node)
        if self.table.row_of[node.name] >= self._max_nodes:
            raise ConfigError(
                f"node {node.name} is one too many: the environment was made for"
                f" {self._max_nodes} nodes; say max_nodes=",
                where="max_nodes",
            )

    def _set_node(self, known: KnownNode) -> None:
        name = known.described.name
        before, self._nodes[name] = self._nodes[name], known
        self._handlers.update_node(before.now(), known.now())

    # Pods

    def _add_pod(self, manifest: Json, name: str, run_s: float | None, lives: int = 0) -> None:
        self._made += 1
        created = rfc3339(self.clock.time())
        pod = self._reader.read(manifest, name=name, uid=f"uid-{self._made}", created=created)
        if pod.is_finished or pod.key in self._living:
            return
        if lives and pod.spec.node_name:
            # Whoever chose its node for its first life does not do so again.
            spec = msgspec.structs.replace(pod.spec, node_name="")
            pod = msgspec.structs.replace(pod, spec=spec)
        living = _Living(pod, manifest, run_s, self.clock.monotonic(), lives)
        self._living[pod.key] = living
        if pod.spec.node_name:
            self._begin_to_run(living)
        elif self.engine.serves(pod):
            self._waiting[pod.key] = None
        self._handlers.add_pod(pod)

    def _begin_to_run(self, living: _Living) -> None:
        if living.run_s is not None:
            self._made += 1
            end = self.clock.monotonic() + living.run_s
            heapq.heappush(self._ends, (end, self._made, living.pod.key, living.pod.uid))

    def _finish(self, key: str, uid: str) -> None:
        """A pod comes to its own end, unless it is gone already."""
        living = self._living.get(key)
        if living is not None and living.pod.uid == uid:
            self._take_away(key)
            self.finished += 1

    def _lose_all(self, node: str) -> None:
        row = self.table.row_of.get(node)
        if row is not None:
            # In the order in which an API server lists them.
            self._lose(sorted(info.pod.key for info in self.table.pods[row].values()))

    def _lose(self, keys: list[str]) -> None:
        """These pods go, and come again as others."""
        for key in keys:
            living = self._take_away(key)
            if living is not None:
                self.lost += 1
                self._lost.append(living)

    def _come_again(self, lost: _Living) -> None:
        lives = lost.lives + 1
        name = f"{lost.manifest['metadata']['name']}-r{lives}"
        self._add_pod(lost.manifest, name, lost.run_s, lives)
        self._renamed[lost.first_key] = f"{lost.pod.metadata.namespace}/{name}"

    def _take_away(self, key: str) -> _Living | None:
        living = self._living.pop(key, None)
        if living is not None:
            self._waiting.pop(key, None)
            self._renamed.pop(living.first_key, None)
            self._handlers.delete_pod(living.pod)
        return living

    def _lookup(self, key: str) -> Pod | None:
        living = self._living.get(key)
        return None if living is None else living.pod


def _build_engine(
    config: KubeSchedulerConfiguration, registry: Registry, clock: VirtualClock, seed: int
) -> AskingEngine:
    cache = ClusterCache()
    profiles, handles = build_profiles(
        config, cache, registry=registry, clock=clock, rng=Random(seed)
    )
    for profile in profiles.values():
        if not profile.scores and profile.tie_break_seed is None:
            # As in kube-scheduler, the search would end with the first node that fits.
            raise ConfigError(
                "no plugin scores, so there is nothing to choose from: leave scores enabled and say"
                " with_scores=False",
                where=f"profile {profile.name}",
            )
    return AskingEngine(
        profiles,
        cache=cache,
        clock=clock,
        handles=handles,
        initial_backoff_s=config.pod_initial_backoff_seconds,
        max_backoff_s=config.pod_max_backoff_seconds,
    )
