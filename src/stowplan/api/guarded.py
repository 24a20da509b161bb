"""Writes that are checked by a guard immediately before their bytes are sent.

`scheduler.process` gives the guarded client to everything that changes the cluster by its
decisions: binds, evictions, status patches, the writes of plugins. The guard is the leader's lease.
Invariants: the check runs after every wait (rate limits, concurrency limits, the pause after 429,
connecting) and again for each retry, with nothing between it and the write. A request that passed
the check ends within `timeout_s`, with or without an answer.
"""

from __future__ import annotations

from collections.abc import AsyncIterable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Unpack

from stowplan.api.transport import TIMEOUT_S, Params, RequestOptions, Requests
from stowplan.api.watch import Chunk
from stowplan.http.client import Guard


@dataclass(frozen=True, slots=True)
class WriteGuard:
    """The check of a write, and the time limit of a write that passed it."""

    #: Raises if the write must not be sent.
    check: Guard
    #: The longest that a request may take after the check.
    timeout_s: float


class GuardedRequests:
    """A transport whose requests, except GET, are checked by a guard."""

    def __init__(self, transport: Requests, guard: WriteGuard) -> None:
        self._transport = transport
        self._guard = guard

    async def request(self, method: str, path: str, **options: Unpack[RequestOptions]) -> bytes:
        if method != "GET":
            timeout_s = min(options.get("timeout_s", TIMEOUT_S), self._guard.timeout_s)
            options |= {"guard": self._guard.check, "timeout_s": timeout_s}
        return await self._transport.request(method, path, **options)

    def stream(
        self, path: str, *, params: Params, inactivity_s: float
    ) -> AbstractAsyncContextManager[AsyncIterable[Chunk]]:
        return self._transport.stream(path, params=params, inactivity_s=inactivity_s)

    async def close(self) -> None:
        await self._transport.close()
