"""Report the outcome of attempts to the cluster: events and the PodScheduled condition.

Reporting never delays scheduling: events go to the recorder's queue, status patches to a queue here
that keeps only the latest patch of each pod, and both have their own connections.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from stowplan.api.client import PatchKind
from stowplan.api.objects import Condition, Pod
from stowplan.api.resources import PODS
from stowplan.api.transport import Lane
from stowplan.api.verbs import Recorder, SchedulerApi
from stowplan.api.watch import decode_partial
from stowplan.clock import Clock, rfc3339
from stowplan.errors import (
    ApiError,
    ApiUnavailable,
    Conflict,
    LeadershipLost,
    NotFound,
    ServerError,
    StowplanError,
    Throttled,
)
from stowplan.loader.json_text import UNREADABLE
from stowplan.logs import V3, get_logger, kv
from stowplan.scheduler.outcome import Failure, Placement

log = get_logger(__name__)

_WORKERS = 8
_TRIES = 4
#: How long the watch may take to deliver a change, before each repeat of a write.
_BEHIND_S = (0.05, 0.25)


class Reporter:
    """Writes events and pod conditions."""

    def __init__(
        self,
        client: SchedulerApi,
        recorder: Recorder,
        clock: Clock,
        lookup: Callable[[str], Pod | None],
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._clock = clock
        self._lookup = lookup
        #: The newest failure of each pod until it is written; gone when the pod is bound.
        self._patches: dict[str, Failure] = {}
        self._ready: asyncio.Queue[str] = asyncio.Queue()
        #: Pods that a worker has, or will have.
        self._in_hand: set[str] = set()
        #: By UID, patches on their way; set when they are answered.
        self._sending: dict[str, asyncio.Event] = {}
        #: Of pods being bound, by UID: the expected node, and the version that has it, "" if not
        #: known. Our cached pod may not have them yet.
        self._expected: dict[str, tuple[str, str]] = {}
        #: Called with every pod that we bound.
        self.on_bound: Callable[[Pod], None] = lambda _: None
        #: Called with every failure of a pod that is still pending.
        self.on_failed: Callable[[Failure], None] | None = None
        #: Called with every placement that we bound, and with every failure.
        self.on_ended: Callable[[Placement | Failure], None] | None = None
        #: False if a plugin writes its own event about a bind.
        self.writes_scheduled = True

    @property
    def unwritten(self) -> int:
        """Pods whose condition is still to be written."""
        return len(self._in_hand)

    async def fall_silent(self, pod: Pod) -> None:
        """Before a pod is bound: an older word that came after it would call it unschedulable."""
        self._patches.pop(pod.uid, None)
        sending = self._sending.get(pod.uid)
        if sending is not None:
            await sending.wait()

    def bound(self, placement: Placement) -> None:
        pod = placement.pod
        self._patches.pop(pod.uid, None)
        self._expected.pop(pod.uid, None)
        self.on_bound(pod)
        if self.on_ended is not None:
            self.on_ended(placement)
        if self.writes_scheduled:
            self._recorder.event(pod, **scheduled(pod, placement.node))

    async def expected(self, placement: Placement) -> None:
        """Say where a pod is going that is not bound at once; not worth failing for."""
        pod = placement.pod
        if pod.status.nominated_node_name == placement.node:
            return
        try:
            self._expected[pod.uid] = placement.node, ""
            answer = await self._nominate(pod, placement.node)
            self._expected[pod.uid] = placement.node, written_version(answer)
        except StowplanError as problem:
            log.warning(
                "Could not write the pod's nominatedNodeName",
                extra=kv(pod=pod.key, err=str(problem)),
            )

    async def _nominate(self, pod: Pod, node: str) -> bytes:
        """Refused if it arrives late, when the pod has changed: it may wait elsewhere by then."""
        status = {"nominatedNodeName": node}
        for pause_s in _BEHIND_S:
            try:
                return await self._send(pod, versioned_patch(self._current(pod), status))
            except Conflict:
                await asyncio.sleep(pause_s)  # our last patch of it may not have come back yet
        return await self._send(pod, versioned_patch(self._current(pod), status))

    def _current(self, pod: Pod) -> Pod:
        """The newest version known of a pod, or of itself if that is another."""
        known = self._lookup(pod.key)
        return known if known is not None and known.uid == pod.uid else pod

    def unanswered(self, placement: Placement, message: str) -> None:
        """Say why a pod is not bound that keeps its place: an event alone, for it may be yet."""
        self._recorder.event(
            placement.pod,
            type="Warning",
            reason="FailedScheduling",
            action="Scheduling",
            note=message,
            reporting_controller=placement.profile.name,
        )

    def failed(self, failure: Failure) -> None:
        if self.on_ended is not None:
            self.on_ended(failure)
        if not failure.message:
            return
        if not failure.is_pending and not failure.pod.is_terminating:
            return
        self._recorder.event(
            failure.pod,
            type="Warning",
            reason="FailedScheduling",
            action="Scheduling",
            note=failure.message,
            reporting_controller=failure.profile,
        )
        if failure.is_pending:
            if self.on_failed is not None:
                self.on_failed(failure)
            self.condition(failure)

    def condition(self, failure: Failure) -> None:
        """Have the PodScheduled condition written; an older word about the pod is forgotten."""
        if log.isEnabledFor(V3):
            log.log(
                V3,
                "Updating pod condition and nominated node name",
                extra=kv(
                    pod=failure.pod.key,
                    conditionType="PodScheduled",
                    conditionStatus="False",
                    conditionReason=failure.reason,
                    nominatedNodeName=failure.nominated_node or "",
                    nominatingMode=int(failure.nominated_node is not None),
                ),
            )
        uid = failure.pod.uid
        if uid not in self._in_hand:
            # Mostly a pod fails again for the same reasons.
            if uid not in self._expected and self._needed_patch(failure) is None:
                return
            self._in_hand.add(uid)
            self._ready.put_nowait(uid)
        self._patches[uid] = failure

    async def drain(self, timeout_s: float) -> None:
        """Wait until every patch that was asked for is written, but not for ever."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._ready.join(), timeout_s)

    async def run(self) -> None:
        """Write patches until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(_WORKERS):
                group.create_task(self._work(), name=f"status-{number}")

    async def _work(self) -> None:
        while True:
            uid = await self._ready.get()
            # One worker a pod: what fails meanwhile is written after it, never beside it.
            while (failure := self._patches.get(uid)) is not None:
                try:
                    await self._write(failure)
                except Exception:
                    log.exception("Status patch broke", extra=kv(pod=failure.pod.key))
                if self._patches.get(uid) is failure:
                    del self._patches[uid]
            self._in_hand.discard(uid)
            self._ready.task_done()

    async def _write(self, failure: Failure) -> None:
        for attempt in range(_TRIES):
            if attempt:
                await asyncio.sleep(0.25 * 2 ** (attempt - 1))
            if self._patches.get(failure.pod.uid) is not failure:
                return
            self._sending[failure.pod.uid] = answered = asyncio.Event()
            try:
                await self._patch(failure)
            except NotFound:
                return
            except (Conflict, ServerError, Throttled, ApiUnavailable) as problem:
                if attempt == _TRIES - 1:
                    log.warning(
                        "Could not write the PodScheduled condition; the next attempt will",
                        extra=kv(pod=failure.pod.key, err=str(problem)),
                    )
            except (ApiError, LeadershipLost) as problem:
                log.warning(
                    "Could not write the PodScheduled condition",
                    extra=kv(pod=failure.pod.key, err=str(problem)),
                )
                return
            else:
                return
            finally:
                del self._sending[failure.pod.uid]
                answered.set()

    async def _patch(self, failure: Failure) -> None:
        """Write the condition, unless the pod has moved on or says so already."""
        patch = self._needed_patch(failure, self._expected.pop(failure.pod.uid, None))
        if patch is not None:
            # Refused if it arrives late, when the pod has changed: it may be bound by then.
            await self._send(failure.pod, patch)

    def _needed_patch(
        self, failure: Failure, expected: tuple[str, str] | None = None
    ) -> dict[str, Any] | None:
        current = self._lookup(failure.pod.key)
        if current is None or current.uid != failure.pod.uid or current.spec.node_name:
            return None
        if expected is not None:
            node, version = expected[0], expected[1] or current.metadata.resource_version
            status = msgspec.structs.replace(current.status, nominated_node_name=node)
            meta = msgspec.structs.replace(current.metadata, resource_version=version)
            current = msgspec.structs.replace(current, metadata=meta, status=status)
        return status_patch(
            current,
            reason=failure.reason,
            message=failure.message,
            nominated_node=failure.nominated_node,
            now=self._clock.time(),
        )

    async def _send(self, pod: Pod, patch: dict[str, Any]) -> bytes:
        return await self._client.patch(
            PODS,
            pod.metadata.name,
            patch,
            namespace=pod.metadata.namespace,
            subresource="status",
            kind=PatchKind.STRATEGIC,
            lane=Lane.STATUS,
        )


def scheduled(pod: Pod, node: str) -> dict[str, Any]:
    """What the event about a bind says, as arguments of `Recorder.event`."""
    return {
        "type": "Normal",
        "reason": "Scheduled",
        "action": "Binding",
        "note": f"Successfully assigned {pod.key} to {node}",
        "reporting_controller": pod.spec.scheduler_name,
        "once": True,
    }


def status_patch(
    pod: Pod, *, reason: str, message: str, nominated_node: str | None, now: float
) -> dict[str, Any] | None:
    """Strategic merge patch for a failed attempt; None when the pod says so already."""
    status: dict[str, Any] = {}
    old = next((c for c in pod.status.conditions or () if c.type == "PodScheduled"), None)
    if old is not None and old.status == "False" and old.last_transition_time:
        changed_at = old.last_transition_time
    else:
        changed_at = rfc3339(now)
    new = Condition(
        type="PodScheduled",
        status="False",
        reason=reason,
        message=message,
        last_transition_time=changed_at,
        observed_generation=pod.metadata.generation,
    )
    if old != new:
        status |= condition_patch(pod, new)
    if nominated_node is not None and nominated_node != pod.status.nominated_node_name:
        status["nominatedNodeName"] = nominated_node or None
    return versioned_patch(pod, status) if status else None


def condition_patch(pod: Pod, new: Condition) -> dict[str, Any]:
    """What a strategic merge patch of the status says to add or replace a condition."""
    condition = {
        "type": new.type,
        "status": new.status,
        "reason": new.reason,
        "message": new.message,
        "lastProbeTime": None,
        "lastTransitionTime": new.last_transition_time,
        "observedGeneration": new.observed_generation,
    }
    status: dict[str, Any] = {"conditions": [condition]}
    kinds = dict.fromkeys([*(old.type for old in pod.status.conditions or ()), new.type])
    if len(kinds) > 1:
        # Without an order the API server would put the new one before those that are there.
        status["$setElementOrder/conditions"] = [{"type": kind} for kind in kinds]
    return status


def written_version(answer: bytes) -> str:
    """The version that a write has made; "" if the answer does not say."""
    try:
        return decode_partial(answer).metadata.resource_version
    except UNREADABLE:
        return ""


def versioned_patch(pod: Pod, status: dict[str, Any]) -> dict[str, Any]:
    """A patch of the status, which the API server refuses for a namesake and for a newer version.

    DIVERGES: kube-scheduler's patch has neither UID nor version. One that arrives late marks a
    bound pod.
    """
    metadata = {"uid": pod.uid}
    if pod.metadata.resource_version:
        metadata["resourceVersion"] = pod.metadata.resource_version
    return {"metadata": metadata, "status": status}
