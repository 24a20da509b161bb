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
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from stowplan.clock import VirtualClock
from stowplan.errors import StowplanError

T = TypeVar("T")

#: Seconds of real time between polls, so that Ctrl-C works while nothing is scheduled.
_LOOK_OUTSIDE_S = 0.05
_TURNS_BETWEEN_LOOKS = 32


class Deadlock(StowplanError):
    """All tasks wait for each other, and no timer is left."""


class _Selector(selectors.BaseSelector):
    """A selector that advances virtual time instead of waiting for files."""

    def __init__(self, wait: Callable[[float | None], bool]) -> None:
        self._real = selectors.DefaultSelector()
        self._wait = wait
        self._turn = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self._turn += 1
        # A system call, which costs as much as most turns of the loop.
        looks = timeout is None or self._turn % _TURNS_BETWEEN_LOOKS == 0
        ready = self._real.select(0) if looks else []
        if ready or (timeout is not None and timeout <= 0) or self._wait(timeout):
            return ready
        return self._real.select(_LOOK_OUTSIDE_S)

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.modify(fileobj, events, data)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        found = self._real.get_map()
        assert found is not None
        return found

    def close(self) -> None:
        self._real.close()


class TimeLoop(asyncio.SelectorEventLoop):
    """The event loop of virtual time; the module's docstring explains it."""

    def __init__(self, clock: VirtualClock | None = None) -> None:
        self.clock = clock or VirtualClock()
        #: Woken when nothing is left to do at the present moment.
        self._resting: list[asyncio.Future[None]] = []
        #: Woken, the same way, after time has passed.
        self._passing: list[asyncio.Future[None]] = []
        super().__init__(_Selector(self._let_time_pass))

    def time(self) -> float:
        return self.clock.monotonic()

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

    def _let_time_pass(self, timeout: float | None) -> bool:
        """Advance the clock while nothing is ready; True if the loop must look again."""
        if self._resting:
            self._wake(self._resting)
            return True
        if timeout is None:
            if self._passing:
                error = Deadlock("every task waits for another one, and no timer is set")
                self._wake(self._passing, error)
                return True
            return False
        # Timers compare with time(), so the clock moves to the time of the first one.
        self.clock.advance(timeout)
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
