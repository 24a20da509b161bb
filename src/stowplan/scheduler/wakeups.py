"""What plugins wait on in the middle of a binding cycle, and how an orderly end wakes them all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class LoopWakeup:
    """A `framework.handle.Wakeup` on the event loop."""

    def __init__(self, owner: Wakeups) -> None:
        self._owner = owner
        self._rung = asyncio.Event()

    def ring(self) -> None:
        self._rung.set()

    async def wait(self, timeout_s: float) -> bool:
        return await self._owner.wait(self._rung, timeout_s)


class Wakeups:
    """All wakeups of one scheduler."""

    def __init__(self, on_wait: Callable[[], None]) -> None:
        """`on_wait` is called whenever one of them begins to wait."""
        self._on_wait = on_wait
        self._waiting: set[asyncio.Event] = set()
        self._is_closed = False

    @property
    def waiting(self) -> int:
        """How many binding cycles do nothing but wait."""
        return len(self._waiting)

    def new(self) -> LoopWakeup:
        return LoopWakeup(self)

    def close(self) -> None:
        """End every wait, also those that have not begun."""
        self._is_closed = True
        for event in self._waiting:
            event.set()

    async def wait(self, rung: asyncio.Event, timeout_s: float) -> bool:
        if not self._is_closed:
            self._waiting.add(rung)
            self._on_wait()
            try:
                async with asyncio.timeout(timeout_s):
                    await rung.wait()
            except TimeoutError:
                pass
            finally:
                self._waiting.discard(rung)
                rung.clear()
        return not self._is_closed
