"""Requests that plugins send beside the scheduling loop: giving claims back, for example."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from stowplan.errors import StowplanError
from stowplan.logs import get_logger, kv

log = get_logger(__name__)


class Background:
    """Tasks of the scheduler that no attempt waits for."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, make: Callable[[], Awaitable[None]], name: str) -> None:
        task = asyncio.create_task(self._run(make, name), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def drain(self, timeout_s: float) -> None:
        """Wait for the tasks under way, but not for ever."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout_s)

    def abandon(self) -> None:
        """Cancel all tasks, because we must not write any more."""
        for task in self._tasks:
            task.cancel()

    async def _run(self, make: Callable[[], Awaitable[None]], name: str) -> None:
        try:
            await make()
        except StowplanError as problem:
            log.error("A background request failed", extra=kv(task=name, err=str(problem)))
        except Exception:
            log.exception("A background task broke", extra=kv(task=name))
