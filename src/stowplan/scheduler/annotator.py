"""`stowplan run --annotate`: writes the results of attempts into pods, as annotations.

Annotations never delay scheduling: they wait here until the rush of binds is over, the latest
attempt of each pod only, and the oldest are dropped if too many wait. A pod whose annotations
cannot be written is scheduled all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from stowplan.api.client import PatchKind
from stowplan.api.objects import Pod
from stowplan.api.resources import PODS
from stowplan.api.transport import Lane
from stowplan.api.verbs import SchedulerApi
from stowplan.errors import (
    ApiUnavailable,
    Conflict,
    LeadershipLost,
    NotFound,
    ServerError,
    StowplanError,
    Throttled,
)
from stowplan.logs import get_logger, kv
from stowplan.scheduler.decision import Decision
from stowplan.scheduler.engine import Engine
from stowplan.scheduler.outcome import Failure, Placement
from stowplan.scheduler.simulator_results import Results, annotated, bound, decided, failed

log = get_logger(__name__)

#: Pods whose annotations wait; those of one take at most 128 KiB.
MOST_WAITING: Final = 500
_WORKERS: Final = 2
#: The first often meets a pod that the kubelet is just writing to.
_TRIES: Final = 5
_PAUSE_S: Final = 0.1


class Annotator:
    """Collects the results of attempts, and writes them until it is cancelled."""

    def __init__(
        self,
        engine: Engine,
        client: SchedulerApi,
        lookup: Callable[[str], Pod | None],
        is_busy: Callable[[], bool],
    ) -> None:
        self._engine = engine
        self._client = client
        self._lookup = lookup
        self._is_busy = is_busy
        #: By UID, of pods that are decided but neither bound nor queued again.
        self._under_way: dict[str, Results] = {}
        #: By UID, the latest results that are not written; the oldest first.
        self._waiting: dict[str, tuple[Pod, Results]] = {}
        self._ready = asyncio.Event()
        #: Set while nothing waits or is sent.
        self._idle = asyncio.Event()
        self._idle.set()
        self._sending = 0
        self._is_failing = False
        self.written = 0
        self.dropped = 0
        engine.keeps_verdicts = True
        engine.on_decision = self.decided

    @property
    def unwritten(self) -> int:
        """Pods whose annotations wait or are being sent."""
        return len(self._waiting) + self._sending

    # What happens to pods

    def decided(self, decision: Decision) -> None:
        """Copy what plugins said, while the table is as it was decided on."""
        pod = decision.pod
        try:
            results = decided(decision, self._engine.profiles[decision.profile])
        except Exception:
            # A plugin's odd answer must not fail the attempt.
            log.exception("Cannot annotate a decision", extra=kv(pod=pod.key))
            self._under_way.pop(pod.uid, None)
        else:
            self._under_way[pod.uid] = results

    def ended(self, outcome: Placement | Failure) -> None:
        """A pod is bound, or its attempt has failed."""
        results = self._under_way.pop(outcome.pod.uid, None)
        if results is None:
            return
        if isinstance(outcome, Placement):
            bound(results, outcome)
        elif outcome.is_pending:
            failed(results, outcome, self._engine.profiles[outcome.profile])
        else:
            return
        self._put(outcome.pod, results)

    def _put(self, pod: Pod, results: Results) -> None:
        self._waiting.pop(pod.uid, None)
        self._waiting[pod.uid] = pod, results
        self._ready.set()
        self._idle.clear()
        while len(self._waiting) > MOST_WAITING:
            del self._waiting[next(iter(self._waiting))]
            self._drop("too many wait")

    def _drop(self, why: str) -> None:
        self.dropped += 1
        if not self._is_failing:
            self._is_failing = True
            log.warning("Cannot annotate some pods", extra=kv(err=why))

    # Writing

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(_WORKERS):
                group.create_task(self._work(), name=f"annotations-{number}")

    async def drain(self, timeout_s: float) -> None:
        """Wait until everything is written, but not for ever."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), timeout_s)

    async def _work(self) -> None:
        while True:
            if not self._waiting:
                self._ready.clear()
                await self._ready.wait()
            if self._is_busy():
                await asyncio.sleep(_PAUSE_S)
            elif self._waiting:
                pod, results = self._waiting.pop(next(iter(self._waiting)))
                self._sending += 1
                try:
                    await self._write(pod, results)
                except Exception as problem:
                    log.exception("Annotating broke", extra=kv(pod=pod.key))
                    self._drop(str(problem))
                finally:
                    self._sending -= 1
                    if not self._waiting and not self._sending:
                        self._idle.set()

    async def _write(self, pod: Pod, results: Results) -> None:
        for attempt in range(_TRIES):
            if attempt:
                await asyncio.sleep(_PAUSE_S * 2**attempt)
            current = self._lookup(pod.key)
            if current is None or current.uid != pod.uid or pod.uid in self._waiting:
                return  # it is gone, or there is a later attempt
            try:
                await self._patch(current, results)
            except NotFound:
                return
            except (Conflict, ServerError, Throttled, ApiUnavailable) as problem:
                if attempt == _TRIES - 1:
                    self._drop(str(problem))
            except LeadershipLost:
                return
            except StowplanError as problem:
                self._drop(f"{problem}. Fix: see --annotate in docs/explain.md")
                return
            else:
                self.written += 1
                self._is_failing = False
                return

    async def _patch(self, pod: Pod, results: Results) -> None:
        # The API server refuses to patch a namesake, and a version with a history that we do not
        # know: ours would replace it, also if it arrives after that of a later attempt.
        written = annotated(results, pod.metadata.annotations or {})
        metadata = {"uid": pod.uid, "resourceVersion": pod.metadata.resource_version}
        await self._client.patch(
            PODS,
            pod.metadata.name,
            {"metadata": {**metadata, "annotations": written}},
            namespace=pod.metadata.namespace,
            kind=PatchKind.MERGE,
            lane=Lane.EVENTS,
        )
