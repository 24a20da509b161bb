"""The cluster of one episode: a trace played on the scheduler's engine, in virtual time.

There is no API server: what informers would deliver goes straight to the live scheduler's event
handlers, and a placement is bound at once. As in a trace played on a whole cluster
(`scenarios.trace_play`), pods that are preempted, drained or lost with their node come again under
a new name, with their whole duration. What must stay true: time moves only while no pod is ready to
be tried, and the same trace and answers give the same episode.
"""

from __future__ import annotations

import heapq
from collections import deque
from random import Random

import msgspec

from stowplan.api.objects import Pod
from stowplan.clock import VirtualClock, rfc3339
from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.table import NodeTable
from stowplan.config.types import KubeSchedulerConfiguration
from stowplan.errors import ConfigError, StowplanError
from stowplan.framework.plugin import Eviction
from stowplan.framework.registry import Registry
from stowplan.scheduler.assembly import build_profiles
from stowplan.scheduler.outcome import Failure, Placement
from stowplan.sim.gym.asking import AskingEngine, Question
from stowplan.sim.gym.population import Living, Population
from stowplan.sim.traces.manifests import STANDING_NAMESPACES, namespace
from stowplan.sim.traces.model import Event, Trace

#: Shorter waits count as none: sums of floats are not exact.
_MOMENT_S = 1e-6


class Simulation:
    """A trace played in virtual time: call `next_question` and `answer` in turn, to the end."""

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
        self._people = Population(self.engine, self.clock, max_nodes=max_nodes)
        self.engine.lookup = self._people.lookup
        for handle in self.engine.handles.values():
            handle.activate = self.engine.queue.activate
            handle.preempting.lookup = self._people.lookup
        #: Victims of preemption, and the attempts that they must leave for.
        self._leaving: deque[tuple[Failure, Pod]] = deque()
        #: Keys of pods that were found to fit nowhere since the last change.
        self._vain: set[str] = set()
        #: Waiting time, summed over all pods.
        self.waited_s = 0.0
        self.placed = 0
        for name in sorted(STANDING_NAMESPACES):
            self._people.create(namespace(name), None)
        for manifest in trace.objects():
            self._people.create(manifest, None)
        self._events = trace.events()
        self._coming: Event | None = next(self._events, None)

    @property
    def table(self) -> NodeTable:
        return self.engine.cache.table

    @property
    def waiting(self) -> int:
        """Pods that wait for a node."""
        return len(self._people.waiting)

    @property
    def lost(self) -> int:
        """Number of pods so far that lost their node and came again."""
        return self._people.lost

    @property
    def finished(self) -> int:
        """Number of pods so far that finished."""
        return self._people.finished

    def age_of(self, pod: Pod) -> float:
        return self.clock.monotonic() - self._people.living[pod.key].since

    # The agent's turn

    def next_question(self) -> Question | None:
        """Advance until a pod can be placed; None if that never happens again."""
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
        """Bind the pod to a feasible row's node, or to none (None); True if it was bound."""
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
        living = self._people.living[placement.pod.key]
        # Of several victims preemption spares those that have run for longest.
        status = msgspec.structs.replace(
            placement.pod.status, phase="Running", start_time=rfc3339(self.clock.time())
        )
        before, living.pod = living.pod, msgspec.structs.replace(placement.pod, status=status)
        self._people.handlers.update_pod(before, living.pod)
        self._people.waiting.pop(living.pod.key, None)
        self.placed += 1
        self._people.begin_to_run(living)

    def _failed(self, failure: Failure) -> None:
        """Record the nomination, and evict the victims if there are any."""
        key = failure.pod.key
        living = self._people.living.get(key)
        if failure.is_pending and living is not None and failure.nominated_node is not None:
            self._nominate(living, failure.nominated_node)
        if failure.eviction is not None:
            self._evict(failure, failure.eviction)

    def _nominate(self, living: Living, node: str) -> None:
        before = living.pod
        if before.status.nominated_node_name != node:
            status = msgspec.structs.replace(before.status, nominated_node_name=node)
            living.pod = msgspec.structs.replace(before, status=status)
            self._people.handlers.update_pod(before, living.pod)

    def _evict(self, failure: Failure, eviction: Eviction) -> None:
        for other in list(self.engine.queue.nominator.for_node(eviction.node)):
            if other.priority < failure.pod.priority and other.status.nominated_node_name:
                self._nominate(self._people.living[other.key], "")
        self._leaving += [(failure, victim) for victim in eviction.victims]

    def _leave(self, failure: Failure, victim: Pod) -> None:
        """Remove a victim; after the last one the preemptor is tried again."""
        preempting = self.engine.handles[failure.profile].preempting
        is_last = not self._leaving or self._leaving[0][0] is not failure
        if is_last:
            preempting.only_left(failure.pod, victim)
        living = self._people.living.get(victim.key)
        if living is not None and living.pod.uid == victim.uid:
            self._people.lose([victim.key])
        if is_last:
            preempting.end(failure.pod)
            self.engine.queue.activate([failure.pod])

    # Time

    def _let_time_pass(self) -> bool:
        """Advance the clock to the next event; False if nothing can change any more."""
        moments = [] if self._coming is None else [self._coming.at]
        if self._people.waiting and self._people.ends:
            moments.append(self._people.ends[0][0])
        queue = self.engine.queue
        if moments or self._is_retry_due():
            wakeup = queue.next_wakeup()
            if wakeup is not None:
                moments.append(max(wakeup, self.clock.monotonic() + _MOMENT_S))
        if not moments:
            return False
        pause_s = max(min(moments) - self.clock.monotonic(), 0.0)
        self.waited_s += pause_s * len(self._people.waiting)
        self.clock.advance(pause_s)
        queue.flush_backoff()
        queue.flush_unschedulable()
        return True

    def _is_retry_due(self) -> bool:
        """True if a retry of a pod in backoff might succeed."""
        if not self.engine.queue.counts.backoff:
            return False
        pending = self.engine.queue.pending()
        backing_off = (*pending.backoff, *pending.error_backoff)
        return any(queued.key not in self._vain for queued in backing_off)

    def _happen_next(self) -> bool:
        """Apply the next change that is due, in the order of time; False if there is none.

        One change at a time, because the scheduler is faster than pods terminate. Events of the
        trace at the same moment happen together, as in a played trace. At equal times a pod's end
        comes before an arrival, so that the new pod finds the room.
        """
        now = self.clock.monotonic() + _MOMENT_S
        end = self._people.ends[0][0] if self._people.ends else now
        coming = self._coming.at if self._coming is not None else now
        if self._leaving:
            self._leave(*self._leaving.popleft())
        elif self._people.homeless:
            while self._people.homeless:
                self._people.come_again(self._people.homeless.popleft())
        elif end < now and end <= coming:
            _, _, key, uid = heapq.heappop(self._people.ends)
            self._people.finish(key, uid)
        elif coming < now:
            while self._coming is not None and self._coming.at < now:
                self._people.happen(self._coming)
                self._coming = next(self._events, None)
        else:
            return False
        self._vain.clear()
        return True


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
