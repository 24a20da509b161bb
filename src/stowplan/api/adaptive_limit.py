"""The number of concurrent requests in a lane, adapted to what the server accepts.

`transport` holds a slot for every short request and reports how the request ended. The limit is
halved when the server refuses a request, fails or does not answer, once for all requests under way
at that time. It grows by one for each full round of answers. It starts low, so that the first
request does not compete with as many TLS handshakes as there may be connections; until the first
refusal it grows by one with every answer. Invariant: every acquired slot is released, also by a
task that is cancelled while it acquires one.
"""

from __future__ import annotations

import asyncio
from collections import deque

_LEAST = 4


class AdaptiveLimit:
    """An async context manager that holds one slot; waiting tasks get slots in order."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._limit = float(min(_LEAST, most))
        #: The server has not refused anything yet.
        self._is_new = True
        self._running = 0
        #: Outstanding results of requests that were under way when the limit was halved.
        self._forgiven = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def limit(self) -> int:
        return int(self._limit)

    async def __aenter__(self) -> None:
        if self._running < self.limit and not self._waiting:
            self._running += 1
            return
        slot = asyncio.get_running_loop().create_future()
        self._waiting.append(slot)
        try:
            await slot
        except asyncio.CancelledError:
            if slot.cancelled():
                # `_admit` may have removed it already.
                if slot in self._waiting:
                    self._waiting.remove(slot)
            else:
                self._release()
            raise

    async def __aexit__(self, *_: object) -> None:
        self._release()

    def answered(self) -> None:
        self._forgiven = max(self._forgiven - 1, 0)
        if self._limit < self._most:
            step = 1.0 if self._is_new else 1 / self._limit
            self._limit = min(self._limit + step, float(self._most))
            self._admit()

    def refused(self) -> None:
        """Report a request that was throttled, failed on the server or got no answer."""
        self._is_new = False
        if self._forgiven:
            self._forgiven -= 1
            return
        self._forgiven = max(self._running - 1, 0)
        self._limit = max(self._limit / 2, float(min(_LEAST, self._most)))

    def _release(self) -> None:
        self._running -= 1
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self._running < self.limit:
            slot = self._waiting.popleft()
            if not slot.done():
                self._running += 1
                slot.set_result(None)
