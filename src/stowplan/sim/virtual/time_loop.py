"""An asyncio event loop whose time is a `VirtualClock`: waiting moves the clock, and nothing else.

Everything that waits by asyncio (sleeps, timeouts, `call_later`) runs unchanged, in the order and
at the moments it would in real time, only at once. Tasks run in the order they became ready, in
one thread, so the same input gives the same run. `at_rest` and `passed` are for the loop's driver.

What must stay true: no task on this loop waits for real I/O. Files and sockets are polled, so that
Ctrl-C and threads can wake the loop, but the loop never blocks on them while a timer is due.
"""

from __future__ import annotations

import asyncio
import selectors
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any, Final, TypeAlias, TypeVar, TypeVarTuple

from stowplan.clock import VirtualClock
from stowplan.errors import StowplanError

T = TypeVar("T")
_Ts = TypeVarTuple("_Ts")

#: When, in which order of those of the same moment, what.
_Timer: TypeAlias = tuple[float, int, asyncio.TimerHandle]
#: Seconds of real time between polls, so that Ctrl-C works while nothing is scheduled.
_LOOK_OUTSIDE_S: Final = 0.05
_TURNS_BETWEEN_LOOKS: Final = 32
_MANY_TIMERS: Final = 100


class Deadlock(StowplanError):
    """All tasks wait for each other, and no timer is left."""


class TimeLoop(asyncio.SelectorEventLoop):
    """The event loop of virtual time; the module's docstring explains it.

    A simulation takes a dozen turns of the loop for each pod, so the ways in (`call_soon`,
    `call_at`) and a turn (`_run_once`) are asyncio's without what needs real files: no poll in each
    turn, and a heap of tuples instead of handles that are compared in Python. Timers of the same
    moment run in the order in which they were set.
    """

    # asyncio's own.
    _ready: deque[asyncio.Handle]
    _closed: bool
    _stopping: bool
    _selector: selectors.BaseSelector

    def __init__(self, clock: VirtualClock | None = None) -> None:
        self.clock = clock or VirtualClock()
        self._timers: list[_Timer] = []
        self._numbers = count()
        self._cancelled_timers = 0
        self._turns = 0
        #: Woken when nothing is left to do at the present moment.
        self._resting: list[asyncio.Future[None]] = []
        #: Woken, the same way, after time has passed.
        self._passing: list[asyncio.Future[None]] = []
        super().__init__()
        self.time = self.clock.monotonic  # type: ignore[method-assign]  # spares a call

    async def at_rest(self) -> None:
        """Wait until no task can run at the present moment."""
        await self._wait_in(self._resting)

    async def passed(self) -> None:
        """Wait until time has moved to the next timer, of whatever task, and all is at rest."""
        await self._wait_in(self._passing)
        await self.at_rest()

    async def _wait_in(self, waiting: list[asyncio.Future[None]]) -> None:
        future = self.create_future()
        waiting.append(future)
        await future

    # What asyncio calls

    def call_soon(
        self, callback: Callable[[*_Ts], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.Handle:
        if self._closed:
            raise RuntimeError("Event loop is closed")
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_later(
        self,
        delay: float,
        callback: Callable[[*_Ts], object],
        *args: *_Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return self._set_timer(self.clock.monotonic() + delay, callback, args, context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*_Ts], object],
        *args: *_Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return self._set_timer(when, callback, args, context)

    def _set_timer(
        self,
        when: float,
        callback: Callable[[*_Ts], object],
        args: tuple[*_Ts],
        context: Context | None,
    ) -> asyncio.TimerHandle:
        if self._closed:
            raise RuntimeError("Event loop is closed")
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        heappush(self._timers, (when, next(self._numbers), handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Forget cancelled timers when they are many: most are set for a time long after."""
        self._cancelled_timers += 1
        if self._cancelled_timers > _MANY_TIMERS and self._cancelled_timers > len(self._timers) / 2:
            self._timers = [timer for timer in self._timers if not timer[2].cancelled()]
            heapify(self._timers)
            self._cancelled_timers = 0

    def _run_once(self) -> None:
        """Run what is ready; if nothing is, let time pass until something is."""
        self._turns += 1
        if not self._turns % _TURNS_BETWEEN_LOOKS:
            self._look_outside(0)
        if self._timers and self._timers[0][0] <= self.clock.monotonic():
            self._take_due_timers()
        ready = self._ready
        if not ready and not self._stopping:
            if self._let_time_pass():
                self._take_due_timers()
            else:
                self._look_outside(_LOOK_OUTSIDE_S)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()

    def _take_due_timers(self) -> None:
        timers, now = self._timers, self.clock.monotonic()
        while timers and timers[0][0] <= now:
            handle = heappop(timers)[2]
            if not handle._cancelled:
                self._ready.append(handle)

    def _look_outside(self, timeout_s: float) -> None:
        """Poll files, so that Ctrl-C and threads can wake the loop."""
        self._process_events(self._selector.select(timeout_s))  # type: ignore[attr-defined]  # asyncio's own

    def _let_time_pass(self) -> bool:
        """Wake what waits for rest, or move the clock to the first timer; False: there is none."""
        if self._resting:
            self._wake(self._resting)
            return True
        timers = self._timers
        while timers and timers[0][2]._cancelled:
            heappop(timers)
        if not timers:
            if self._passing:
                error = Deadlock("every task waits for another one, and no timer is set")
                self._wake(self._passing, error)
                return True
            return False
        self.clock.advance_to(timers[0][0])
        if self._passing:
            self._wake(self._passing)
        return True

    @staticmethod
    def _wake(waiting: list[asyncio.Future[None]], error: Exception | None = None) -> None:
        woken = waiting[:]
        waiting.clear()
        for future in woken:
            if future.done():
                continue
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)


def run_virtually(work: Callable[[TimeLoop], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine to its end on a loop of its own, and clean up as `asyncio.run` does."""
    loop = TimeLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(work(loop))
