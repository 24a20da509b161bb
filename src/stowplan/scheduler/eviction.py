"""Carry out preemption: evict the victims that make room for a pod of higher priority.

Each preemption is one task beside the loop. A victim that is not bound yet is rejected in memory;
all others get the condition DisruptionTarget and are deleted. Invariants: before each victim, check
that the preemptor is still pending, so that no pod is evicted for a deleted one. Every write names
the UID and the version that it was decided on: one that arrives late, after the pod has changed, is
refused. However the task ends, it releases the preemptor.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from stowplan.api.client import PatchKind
from stowplan.api.objects import Condition, Pod
from stowplan.api.resources import PODS
from stowplan.api.transport import Lane
from stowplan.api.verbs import Recorder, SchedulerApi
from stowplan.clock import rfc3339
from stowplan.errors import (
    ApiUnavailable,
    Conflict,
    NotFound,
    ServerError,
    StowplanError,
    Throttled,
)
from stowplan.framework.plugin import Eviction
from stowplan.logs import V2, Plain, get_logger, kv
from stowplan.scheduler.engine import Engine
from stowplan.scheduler.outcome import Failure
from stowplan.scheduler.reporter import condition_patch, versioned_patch, written_version

log = get_logger(__name__)

_PLUGIN = "DefaultPreemption"
_CONDITION = "DisruptionTarget"
_PASSING: Final = (Conflict, Throttled, ApiUnavailable)
#: The server, or one before it, is not ready. A 500 is an answer: the preemptor decides anew.
_NOT_READY: Final = (502, 503, 504)
#: Before a write is tried again.
_PAUSES_S: Final = (0.05, 0.25, 1.0, 3.0)


class Evictor:
    """Runs evictions."""

    def __init__(
        self,
        engine: Engine,
        client: SchedulerApi,
        recorder: Recorder,
        lookup: Callable[[str], Pod | None],
    ) -> None:
        self._engine = engine
        self._client = client
        self._recorder = recorder
        self._lookup = lookup
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, failure: Failure) -> None:
        """Begin in the background; the engine holds the pod back already."""
        assert failure.eviction is not None
        name = f"preempt for {failure.pod.key}"
        task = asyncio.create_task(self._run(failure, failure.eviction), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @property
    def in_flight(self) -> int:
        return len(self._tasks)

    async def drain(self, timeout_s: float) -> None:
        """Wait for the evictions under way, but not for ever."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout_s)

    def abandon(self) -> None:
        """Cancel all evictions, because we must not write any more."""
        for task in self._tasks:
            task.cancel()

    async def _run(self, failure: Failure, eviction: Eviction) -> None:
        pod = failure.pod
        log.log(
            V2,
            "Start the preemption asynchronously",
            extra=kv(
                preemptor=pod.key,
                node=Plain(eviction.node),
                numVictims=len(eviction.victims),
                numVictimsToDelete=len(eviction.victims),
            ),
        )
        metrics = self._engine.metrics
        preempting = self._engine.handles[failure.profile].preempting
        started = self._engine.clock.monotonic()
        succeeded = False
        turned_back: set[str] = set()
        try:
            succeeded = await self._clear_nominations(pod, eviction.node)
            *others, last = eviction.victims
            done = await asyncio.gather(
                *(self._evict(failure, eviction, each, turned_back) for each in others)
            )
            if all(done):
                preempting.only_left(pod, last)
                succeeded &= await self._evict(failure, eviction, last, turned_back)
            else:
                succeeded = False
        finally:
            preempting.end(pod)
            result = "success" if succeeded else "error"
            metrics.preemptions.at(result).value += 1
            metrics.preemption_duration.at(result).observe(self._engine.clock.monotonic() - started)
            node = eviction.node
            if not succeeded or all(
                self._has_left(node, each, turned_back) for each in eviction.victims
            ):
                # No event will bring the pod back: some victims were not told to leave, or all have
                # left already, while it was held.
                self._engine.queue.activate([pod])
        log.log(
            V2,
            "Async Preemption finished completely",
            extra=kv(preemptor=pod.key, node=Plain(eviction.node), result=result),
        )

    async def _clear_nominations(self, pod: Pod, node: str) -> bool:
        """Less important pods that were promised the same node look elsewhere, sooner."""
        nominated = self._engine.queue.nominator.for_node(node)
        answers = [
            await self._persist(
                pod,
                other,
                "Could not clear a nomination",
                partial(self._clear_nomination, other, node),
            )
            for other in nominated
            if other.priority < pod.priority and other.status.nominated_node_name
        ]
        return all(answers)

    async def _clear_nomination(self, pod: Pod, node: str) -> bool:
        known = self._current(pod)
        if known is not None and known.status.nominated_node_name == node:
            await self._send(known, {"nominatedNodeName": None})
        return True

    async def _evict(
        self, failure: Failure, eviction: Eviction, victim: Pod, turned_back: set[str]
    ) -> bool:
        """False if the victim could not be made to leave."""
        if not self._is_wanted(failure.pod):
            return False
        if self._turn_back(failure.profile, victim):
            turned_back.add(victim.uid)
            self._report(failure, eviction, victim, " (in kube-scheduler memory).")
            return True
        return await self._persist(
            failure.pod,
            victim,
            "Tried to preempted pod",
            partial(self._delete, failure, eviction, victim),
        )

    def _is_wanted(self, preemptor: Pod) -> bool:
        current = self._current(preemptor)
        if current is None or current.is_terminating or current.spec.node_name:
            log.info("Not evicting a victim: its preemptor left", extra=kv(pod=preemptor.key))
            return False
        return True

    async def _delete(self, failure: Failure, eviction: Eviction, victim: Pod) -> bool:
        """Mark and delete the victim as we know it; False if its preemptor waits no more."""
        if not self._is_wanted(failure.pod):
            return False
        known = self._current(victim)
        if known is None or self._has_left(eviction.node, victim):
            # DIVERGES: a victim that Permit refused meanwhile has freed its place and waits
            # again. kube-scheduler deletes it all the same.
            return True
        version = known.metadata.resource_version
        status = self._condition(known, failure.profile)
        if status is not None:
            version = written_version(await self._send(known, status))
        # DIVERGES: kube-scheduler deletes by name alone: however late, and a namesake, too.
        await self._client.delete(
            PODS,
            victim.metadata.name,
            namespace=victim.metadata.namespace,
            uid=victim.uid,
            resource_version=version,
            lane=Lane.STATUS,
        )
        log.log(
            V2,
            "Preemptor Pod preempted victim Pod",
            extra=kv(preemptor=failure.pod.key, victim=victim.key, node=Plain(eviction.node)),
        )
        self._report(failure, eviction, victim)
        return True

    def _report(self, failure: Failure, eviction: Eviction, victim: Pod, how: str = "") -> None:
        self._recorder.event(
            victim,
            type="Normal",
            reason="Preempted",
            action="Preempting",
            note=f"Preempted by pod {failure.pod.uid} on node {eviction.node}{how}",
            reporting_controller=failure.profile,
            # DIVERGES: kube-scheduler means to name the preemptor too, and loses it on the way.
            related=failure.pod,
        )

    async def _persist(
        self, preemptor: Pod, pod: Pod, trouble: str, write: Callable[[], Awaitable[bool]]
    ) -> bool:
        """Repeat a write after errors that may pass; False if it did not succeed.

        Without repeats the preemptor would choose other victims, and a request that was only late
        would evict the first ones, too. Each try looks up the pod again: it may have changed.
        """
        pauses = iter(_PAUSES_S)
        while True:
            try:
                return await write()
            except NotFound:
                return True
            except StowplanError as problem:
                pause_s = next(pauses, None) if _may_pass(problem) else None
                if pause_s is None:
                    extra = kv(pod=pod.key, preemptor=preemptor.key, err=str(problem))
                    log.error(trouble, extra=extra)
                    return False
            await asyncio.sleep(pause_s)

    def _current(self, pod: Pod) -> Pod | None:
        """The newest version of a pod; None if it is gone."""
        known = self._lookup(pod.key)
        return known if known is not None and known.uid == pod.uid else None

    def _has_left(self, node: str, victim: Pod, turned_back: Collection[str] = ()) -> bool:
        """Whether the victim's place is free, and the queue has heard of that."""
        placed = self._engine.cache.pod(victim.uid)
        if placed is None or placed.spec.node_name != node:
            return True
        # One that was turned back may have got a place there again.
        return victim.uid in turned_back and placed is not victim

    def _turn_back(self, profile: str, victim: Pod) -> bool:
        """A pod that is not bound yet goes back to the queue; True if this one could."""
        if not self._engine.cache.is_assumed(victim.uid):
            return False  # another scheduler bound it while Permit held it here
        for handle in self._engine.handles.values():
            waiting = handle.waiting.get(victim.uid)
            if waiting is not None:
                return waiting.preempt(_PLUGIN, "preempted")
        return self._engine.cancel_pre_bind(victim.uid, f"preempted by {_PLUGIN}")

    def _condition(self, victim: Pod, profile: str) -> dict[str, Any] | None:
        """What to write into the victim's status; None if it is there already."""
        text = f"{profile}: preempting to accommodate a higher priority pod"
        new = Condition(
            type=_CONDITION,
            status="True",
            reason="PreemptionByScheduler",
            message=text,
            last_transition_time=rfc3339(self._engine.clock.time()),
            observed_generation=victim.metadata.generation,
        )
        for old in victim.status.conditions or ():
            if old.type == _CONDITION and old.status == new.status:
                if (old.reason, old.message) == (new.reason, new.message):
                    return None
                new = replace(new, last_transition_time=old.last_transition_time)
        return condition_patch(victim, new)

    async def _send(self, pod: Pod, status: dict[str, Any]) -> bytes:
        return await self._client.patch(
            PODS,
            pod.metadata.name,
            versioned_patch(pod, status),
            namespace=pod.metadata.namespace,
            subresource="status",
            kind=PatchKind.STRATEGIC,
            lane=Lane.STATUS,
        )


def _may_pass(problem: StowplanError) -> bool:
    return isinstance(problem, _PASSING) or (
        isinstance(problem, ServerError) and problem.status in _NOT_READY
    )
