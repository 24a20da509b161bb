"""Carry out preemption: evict the victims that make room for a pod of higher priority.

Each preemption is one task beside the loop. A victim that is not bound yet is rejected in memory;
all others get the condition DisruptionTarget and are deleted. Invariants: before each victim, check
that the preemptor is still pending, so that no pod is evicted for a deleted one. However the task
ends, it releases the preemptor.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

from stowplan.api.client import PatchKind
from stowplan.api.objects import Condition, Pod
from stowplan.api.resources import PODS
from stowplan.api.transport import Lane
from stowplan.api.verbs import Recorder, SchedulerApi
from stowplan.clock import rfc3339
from stowplan.errors import Conflict, NotFound, StowplanError
from stowplan.framework.plugin import Eviction
from stowplan.logs import V2, Plain, get_logger, kv
from stowplan.scheduler.engine import Engine
from stowplan.scheduler.outcome import Failure
from stowplan.scheduler.reporter import condition_patch

log = get_logger(__name__)

_PLUGIN = "DefaultPreemption"
_CONDITION = "DisruptionTarget"


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
            await self._clear_nomination(other)
            for other in nominated
            if other.priority < pod.priority and other.status.nominated_node_name
        ]
        return all(answers)

    async def _clear_nomination(self, pod: Pod) -> bool:
        patch = {"metadata": {"uid": pod.uid}, "status": {"nominatedNodeName": None}}
        return await self._write(pod, patch, "Could not clear a nomination")

    async def _evict(
        self, failure: Failure, eviction: Eviction, victim: Pod, turned_back: set[str]
    ) -> bool:
        """False if the victim could not be made to leave."""
        pod = failure.pod
        current = self._current(pod)
        if current is None or current.is_terminating:
            log.info("Not evicting a victim: its preemptor is gone", extra=kv(pod=pod.key))
            return False
        note = f"Preempted by pod {pod.uid} on node {eviction.node}"
        if self._turn_back(failure.profile, victim):
            turned_back.add(victim.uid)
            note += " (in kube-scheduler memory)."
        else:
            known = self._current(victim)
            if known is None or self._has_left(eviction.node, victim):
                # DIVERGES: a victim that Permit refused meanwhile has freed its place and waits
                # again. kube-scheduler deletes it all the same.
                return True
            try:
                patch = self._condition_patch(known, failure.profile)
                if patch is not None and not await self._write(
                    known, patch, "Could not write the DisruptionTarget condition"
                ):
                    return False
                await self._client.delete(
                    PODS,
                    victim.metadata.name,
                    namespace=victim.metadata.namespace,
                    uid=victim.uid,
                    lane=Lane.STATUS,
                )
            except NotFound:
                return True
            except Conflict:
                # A namesake took its place. As long as the victim is known, it may be something
                # else: the preemptor tries again.
                return self._current(victim) is None
            except StowplanError as problem:
                log.error(
                    "Tried to preempted pod",
                    extra=kv(pod=victim.key, preemptor=pod.key, err=str(problem)),
                )
                return False
        log.log(
            V2,
            "Preemptor Pod preempted victim Pod",
            extra=kv(preemptor=pod.key, victim=victim.key, node=Plain(eviction.node)),
        )
        self._recorder.event(
            victim,
            type="Normal",
            reason="Preempted",
            action="Preempting",
            note=note,
            reporting_controller=failure.profile,
            # DIVERGES: kube-scheduler means to name the preemptor too, and loses it on the way.
            related=pod,
        )
        return True

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

    def _condition_patch(self, victim: Pod, profile: str) -> dict[str, object] | None:
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
                new = Condition(
                    type=new.type,
                    status=new.status,
                    reason=new.reason,
                    message=new.message,
                    last_transition_time=old.last_transition_time,
                    observed_generation=new.observed_generation,
                )
        return {"metadata": {"uid": victim.uid}, "status": condition_patch(victim, new)}

    async def _write(self, pod: Pod, patch: dict[str, object], trouble: str) -> bool:
        try:
            await self._client.patch(
                PODS,
                pod.metadata.name,
                patch,
                namespace=pod.metadata.namespace,
                subresource="status",
                kind=PatchKind.STRATEGIC,
                lane=Lane.STATUS,
            )
        except NotFound:
            return True
        except StowplanError as problem:
            log.warning(trouble, extra=kv(pod=pod.key, err=str(problem)))
            return False
        return True
