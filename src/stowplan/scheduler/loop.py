"""The scheduling loop: pops pods as they become ready, decides, and hands over to binding tasks.

One task decides; each binding cycle runs in its own task. Decisions are synchronous, so the loop
yields to I/O after a time slice, and while too many binds are in progress. Within a decision it
waits only for extenders; cache and queue do not change meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing
from typing import TypeVar

from stowplan.cluster.work import DECISION_WORK
from stowplan.logs import get_logger, kv
from stowplan.scheduler.background import Background
from stowplan.scheduler.binding import Binder
from stowplan.scheduler.decision_log import log_failure
from stowplan.scheduler.engine import Engine
from stowplan.scheduler.eviction import Evictor
from stowplan.scheduler.extender_client import ExtenderClient
from stowplan.scheduler.outcome import Deferral, Failure, Placement
from stowplan.scheduler.reporter import Reporter
from stowplan.scheduler.stillness import Stillness
from stowplan.scheduler.wakeups import Wakeups

log = get_logger(__name__)

T = TypeVar("T")

#: How long decisions may keep the event loop from doing I/O.
_SLICE_S = 0.002
#: Decisions that took longer are followed by a pause of a tenth of their time. One turn of the
#: event loop is not enough there: a health check, a bind or the lease takes several.
_LONG_S = 0.02
_PAUSE = 0.1
#: Binding cycles under way before decisions wait; those that wait for Permit or for volumes, which
#: may take minutes, are not counted, nor those that the API server refuses one by one.
_MAX_BINDS = 512
#: Queues are looked after at least this often, and at most that often.
_TICK_S = 30.0
_MIN_TICK_S = 0.01


class SchedulingLoop:
    """Drives an engine on the event loop."""

    def __init__(
        self,
        engine: Engine,
        binder: Binder,
        reporter: Reporter,
        evictor: Evictor,
        *,
        stillness: Stillness | None = None,
        extenders: ExtenderClient | None = None,
        on_outcome: Callable[[Placement | Failure], None] | None = None,
    ) -> None:
        """`on_outcome` is called for every attempt before its binding begins; it must not raise."""
        self._engine = engine
        self._binder = binder
        self._reporter = reporter
        self._evictor = evictor
        self._stillness = stillness or Stillness()
        self._extenders = extenders
        self._on_outcome = on_outcome
        self._ready = asyncio.Event()
        self._parked = asyncio.Event()
        self._bind_ended = asyncio.Event()
        binder.retries.on_refused = self._bind_ended.set
        self._binds: set[asyncio.Task[None]] = set()
        #: Requests that plugins send beside the loop.
        self.background = Background()
        #: What plugins wait on in the middle of a binding cycle.
        self.wakeups = Wakeups(on_wait=self._bind_ended.set)
        engine.decision_work = DECISION_WORK
        engine.queue.on_ready = self._ready.set
        engine.queue.on_parked = self._parked.set

    @property
    def binds_in_flight(self) -> int:
        return len(self._binds)

    @property
    def busy_binds(self) -> int:
        """Binding cycles that neither wait nor are refused by the API server."""
        held = sum(len(handle.waiting) for handle in self._engine.handles.values())
        return len(self._binds) - held - self.wakeups.waiting - self._binder.retries.refused

    @property
    def evictions_in_flight(self) -> int:
        return self._evictor.in_flight

    async def between_decisions(self, ask: Callable[[], T]) -> T:
        """The result of a function that reads cache and queue, while no decision is under way."""
        asked: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def answer() -> None:
            if asked.done():
                return  # the caller has gone
            try:
                asked.set_result(ask())
            except Exception as problem:
                asked.set_exception(problem)

        self._stillness.do(answer)
        return await asked

    async def run(self) -> None:
        """Schedule until cancelled."""
        self._ready.set()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._look_after_queue(), name="queue-flush")
            await self._schedule()

    async def run_once(self, timeout_s: float) -> bool:
        """Try every pod that is ready now once, and wait for the binds that come of it.

        False if some had to be left.
        """
        waiting = self._engine.queue.counts.active
        tried: set[str] = set()
        while len(tried) < waiting and (outcome := await self._attempt()) is not None:
            if isinstance(outcome, Deferral):
                await asyncio.sleep(0)
                continue
            tried.add(outcome.pod.uid)
            self._take(outcome)
            await self._wait_for_room()
        is_complete = await self._wait_for_binds(timeout_s)
        await self.background.drain(timeout_s)
        return is_complete

    def abandon(self) -> None:
        """Cancel the binds in progress, because we must not write any more."""
        for task in self._binds:
            task.cancel()
        self._evictor.abandon()
        self.background.abandon()

    async def drain(self, timeout_s: float) -> bool:
        """Wait for the binds under way; False if some had to be left."""
        for handle in self._engine.handles.values():
            for waiting in handle.waiting:
                waiting.reject("", "the scheduler is shutting down")
        self.wakeups.close()
        await self._evictor.drain(timeout_s)
        is_complete = await self._wait_for_binds(timeout_s)
        await self.background.drain(timeout_s)
        return is_complete

    async def _schedule(self) -> None:
        queue, clock = self._engine.queue, self._engine.clock
        asks = self._extenders is not None
        pause = 0.0
        slice_start = clock.monotonic()
        while True:
            outcome = await self._attempt() if asks else self._engine.advance()
            if outcome is None:
                self._ready.clear()
                await self._ready.wait()
                slice_start = clock.monotonic()
                continue
            is_deferred = isinstance(outcome, Deferral)
            if not isinstance(outcome, Deferral):
                self._take(outcome)
            took = clock.monotonic() - slice_start
            await self._wait_for_room()
            if took >= _LONG_S and (is_deferred or not asks):  # else extenders took the time
                pause = took * _PAUSE
                await asyncio.sleep(pause)
            elif queue.is_deferred_next:
                # What was decided since the last pause is to be bound before the next long one.
                await asyncio.sleep(pause)
            elif took >= _SLICE_S or is_deferred:
                await asyncio.sleep(0)
            else:
                continue
            slice_start = clock.monotonic()

    async def _attempt(self) -> Placement | Failure | Deferral | None:
        """One attempt; while extenders are asked in the middle of it, the cluster holds still."""
        if self._extenders is None:
            return self._engine.advance()
        steps = self._engine.attempt_steps()
        with self._stillness, closing(steps):
            try:
                request = next(steps)
                while True:
                    trace = self._engine.current_trace
                    request = steps.send(await self._extenders.answer(request, trace))
            except StopIteration as finished:
                outcome: Placement | Failure | Deferral | None = finished.value
                return outcome

    async def _wait_for_room(self) -> None:
        # Counting all binds is cheaper than finding the busy ones among them.
        while len(self._binds) >= _MAX_BINDS and self.busy_binds >= _MAX_BINDS:
            self._bind_ended.clear()
            await self._bind_ended.wait()

    async def _wait_for_binds(self, timeout_s: float) -> bool:
        if not self._binds:
            return True
        _, left = await asyncio.wait(self._binds, timeout=timeout_s)
        for task in left:
            task.cancel()
        return not left

    def _take(self, outcome: Placement | Failure) -> None:
        if self._on_outcome is not None:
            self._on_outcome(outcome)
        if isinstance(outcome, Placement):
            name = f"bind {outcome.queued.key}"
            task = asyncio.get_running_loop().create_task(self._binder.run(outcome), name=name)
            self._binds.add(task)
            task.add_done_callback(self._end)
            return
        if outcome.is_pending:
            log_failure(outcome)
        self._reporter.failed(outcome)
        if outcome.eviction is not None:
            self._evictor.start(outcome)
        if outcome.effect is not None:
            self.background.start(outcome.effect, f"make room for {outcome.pod.key}")

    def _end(self, task: asyncio.Task[None]) -> None:
        self._binds.discard(task)
        self._bind_ended.set()
        if not task.cancelled() and (problem := task.exception()) is not None:
            log.error("Binding task failed", exc_info=problem, extra=kv(task=task.get_name()))

    async def _look_after_queue(self) -> None:
        """Free pods whose backoff is over, and those that waited too long for an event."""
        queue, clock = self._engine.queue, self._engine.clock
        event_loop = asyncio.get_running_loop()
        while True:
            self._parked.clear()
            wakeup = queue.next_wakeup()
            pause = _TICK_S if wakeup is None else wakeup - clock.monotonic()
            if pause > _MIN_TICK_S:
                # Not by the second: where time is virtual there may be years of them.
                timer = event_loop.call_later(min(pause, _TICK_S), self._parked.set)
                await self._parked.wait()
                timer.cancel()
            else:
                await asyncio.sleep(_MIN_TICK_S)
            queue.flush_backoff()
            queue.flush_unschedulable()
