"""Run slow algorithms outside the event loop, each call in its own thread.

`service` uses it for algorithms that ask for it (`Algorithm.runs_in_thread`) and for those that
return a coroutine. A thread cannot be stopped from outside: after the timeout its request is
answered without it. The threads are daemons, so that none delays the process's end.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeVar

T = TypeVar("T")

#: Calls at a time; one that has timed out still counts until it ends.
_MOST_THREADS: Final = 32


class AlgorithmTimeout(Exception):
    """The algorithm took too long."""


class Threads:
    """Runs calls, at most so many at a time, and waits for each so long at most."""

    def __init__(self, timeout_s: float, *, most: int = _MOST_THREADS) -> None:
        self._timeout_s = timeout_s
        self._free = asyncio.Semaphore(most)

    async def run(self, call: Callable[[], T]) -> T:
        """What `call` returns or raises, from a thread."""
        return await self.limit(self._run(call))

    async def limit(self, coming: Awaitable[T]) -> T:
        """What `coming` gives, or AlgorithmTimeout."""
        limit = asyncio.timeout(self._timeout_s)
        try:
            async with limit:
                return await coming
        except TimeoutError:
            if not limit.expired():
                raise  # the algorithm's own
            raise AlgorithmTimeout(f"no answer within {self._timeout_s:g} s") from None

    async def _run(self, call: Callable[[], T]) -> T:
        await self._free.acquire()
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def work() -> None:
            try:
                result = call()
            except BaseException as error:
                self._tell(loop, partial(_fail, done, error))
            else:
                self._tell(loop, partial(_succeed, done, result))

        threading.Thread(target=work, name="algorithm", daemon=True).start()
        return await done

    def _tell(self, loop: asyncio.AbstractEventLoop, tell: Callable[[], None]) -> None:
        def on_loop() -> None:
            self._free.release()
            tell()

        try:
            loop.call_soon_threadsafe(on_loop)
        except RuntimeError:
            """Drop the result: the loop has ended, and no caller waits any more."""


def _succeed(done: asyncio.Future[T], result: T) -> None:
    if not done.done():
        done.set_result(result)


def _fail(done: asyncio.Future[T], error: BaseException) -> None:
    if not done.done():
        # What ends a thread must not end the loop; and StopIteration cannot be in a future.
        is_ordinary = isinstance(error, Exception) and not isinstance(error, StopIteration)
        done.set_exception(error if is_ordinary else RuntimeError(repr(error)))
