"""A token bucket for one lane of the client: `qps` a second on average, `burst` at once."""

from __future__ import annotations

import asyncio

from stowplan.clock import Clock


class TokenBucket:
    """Callers are served in the order they came; each waits only for its own turn."""

    def __init__(self, qps: float, burst: int, *, clock: Clock) -> None:
        self._interval_s = 1.0 / qps
        self._slack_s = max(burst, 1) * self._interval_s
        self._clock = clock
        self._next_free = float("-inf")

    async def take(self) -> None:
        """Returns when this request may be sent.

        The bucket is kept as the time at which it would be full again: every request moves that
        time on by one interval and waits for what exceeds the burst.
        """
        now = self._clock.monotonic()
        self._next_free = max(self._next_free, now) + self._interval_s
        wait_s = self._next_free - now - self._slack_s
        if wait_s > 0:
            await asyncio.sleep(wait_s)
