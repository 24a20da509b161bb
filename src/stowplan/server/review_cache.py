"""Answers of the API server about clients, kept for seconds, in bounded memory.

`authentication` and `authorization` have one each. Keys are digests, so that no token is kept.
Invariants: at most `MAX_ENTRIES` answers and `MAX_BYTES`; at most one question per key and
`MAX_ASKING` questions at a time, however many clients ask.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final, Generic, NamedTuple, TypeVar

import msgspec

from stowplan.api.client import ApiClient
from stowplan.errors import ApiUnavailable

T = TypeVar("T")

MAX_ENTRIES: Final = 4096
MAX_BYTES: Final = 4 * 1024 * 1024
MAX_ASKING: Final = 32
TIMEOUT_S: Final = 10.0


class Busy(Exception):
    """Too many questions are under way."""


class Answer(NamedTuple, Generic[T]):
    value: T
    #: How long it may be used.
    ttl_s: float
    #: About what it takes in memory.
    size: int


class ReviewCache(Generic[T]):
    """Least recently used answers are evicted first."""

    def __init__(self) -> None:
        self._kept: OrderedDict[bytes, tuple[Answer[T], float]] = OrderedDict()
        self._asking: dict[bytes, asyncio.Task[T]] = {}
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def has(self, key: bytes) -> bool:
        """Whether `get` would answer at once."""
        found = self._kept.get(key)
        return found is not None and found[1] > time.monotonic()

    async def get(self, key: bytes, ask: Callable[[], Awaitable[Answer[T]]]) -> T:
        """The answer that is kept, or that `ask` gets; errors of `ask` are raised, not kept."""
        if self.has(key):
            self._kept.move_to_end(key)
            return self._kept[key][0].value
        if key in self._kept:
            self._evict(key)
        asking = self._asking.get(key)
        if asking is None:
            if len(self._asking) >= MAX_ASKING:
                raise Busy
            asking = asyncio.create_task(self._ask(key, ask), name="review")
            self._asking[key] = asking
            asking.add_done_callback(_retrieve)
        # A client that leaves must not take the answer away from the others.
        return await asyncio.shield(asking)

    async def _ask(self, key: bytes, ask: Callable[[], Awaitable[Answer[T]]]) -> T:
        try:
            answer = await ask()
        finally:
            del self._asking[key]
        if answer.ttl_s > 0 and answer.size <= MAX_BYTES:
            self._kept[key] = answer, time.monotonic() + answer.ttl_s
            self.bytes += answer.size
            while len(self._kept) > MAX_ENTRIES or self.bytes > MAX_BYTES:
                self._evict(next(iter(self._kept)))
        return answer.value

    def _evict(self, key: bytes) -> None:
        self.bytes -= self._kept.pop(key)[0].size


async def post_review(client: ApiClient, path: str, review: object) -> bytes:
    """Ask the API server; ApiUnavailable if the answer does not come in time.

    The limit includes waits for a rate limit, and for an API server that answers 429.
    """
    try:
        async with asyncio.timeout(TIMEOUT_S):
            return await client.request(
                "POST", path, body=msgspec.json.encode(review), timeout_s=TIMEOUT_S
            )
    except TimeoutError:
        raise ApiUnavailable(f"POST {path}: no answer within {TIMEOUT_S:g} s") from None


def _retrieve(asked: asyncio.Task[T]) -> None:
    """Read the error, which asyncio would log if every client has left meanwhile."""
    if not asked.cancelled():
        asked.exception()
