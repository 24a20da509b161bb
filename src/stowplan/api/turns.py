"""How many requests of a lane run at a time: a limit that gives in when the server says so.

`transport` takes a turn for every short request and says how it ended. A server that refuses, fails
or does not answer halves the limit, once for all requests that were under way; answers let it grow
again, by one for each full round. It begins with few, so that the first request does not share the
machine with as many handshakes as there may be connections, and every answer lets in one more.
What must stay true: a turn that was taken is given back, also by whoever is cancelled at the very
moment when it comes.
"""

from __future__ import annotations

import asyncio
from collections import deque

_LEAST = 4


class Turns:
    """Use as an async context manager; first come, first served."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._limit = float(min(_LEAST, most))
        #: The server has not refused anything yet.
        self._is_new = True
        self._running = 0
        #: Answers still to come of requests that were under way when the limit was halved.
        self._forgiven = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def limit(self) -> int:
        return int(self._limit)

    async def __aenter__(self) -> None:
        if self._running < self.limit and not self._waiting:
            self._running += 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                # Unless somebody came across it meanwhile, who had no use for it.
                if turn in self._waiting:
                    self._waiting.remove(turn)
            else:
                self._give_back()
            raise

    async def __aexit__(self, *_: object) -> None:
        self._give_back()

    def answered(self) -> None:
        self._forgiven = max(self._forgiven - 1, 0)
        if self._limit < self._most:
            step = 1.0 if self._is_new else 1 / self._limit
            self._limit = min(self._limit + step, float(self._most))
            self._let_in()

    def refused(self) -> None:
        """The server had enough, or has trouble."""
        self._is_new = False
        if self._forgiven:
            self._forgiven -= 1
            return
        self._forgiven = max(self._running - 1, 0)
        self._limit = max(self._limit / 2, float(min(_LEAST, self._most)))

    def _give_back(self) -> None:
        self._running -= 1
        self._let_in()

    def _let_in(self) -> None:
        while self._waiting and self._running < self.limit:
            turn = self._waiting.popleft()
            if not turn.done():
                self._running += 1
                turn.set_result(None)
