"""An event loop with virtual time on which a seed decides which ready task runs next.

Each simulated process is an `Owner`. Tasks and timers inherit their owner from the task that
creates them. A frozen owner's callbacks are set aside until `thaw`, as in a process that was sent
SIGSTOP: time passes, and its timers and responses wait. Invariant: the same seed and the same input
give the same order.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine
from contextvars import Context, ContextVar
from heapq import heapify
from itertools import count
from random import Random
from typing import Any, TypeVar

from stowplan.sim.virtual.time_loop import TimeLoop

T = TypeVar("T")


class Owner:
    """A simulated process, as far as the loop is concerned."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_frozen = False
        self.parked: list[asyncio.Handle] = []
        self.tasks: list[asyncio.Task[Any]] = []

    def cancel(self) -> None:
        """Cancel all tasks, wherever they are."""
        for task in self.tasks:
            task.cancel()


OWNER: ContextVar[Owner | None] = ContextVar("OWNER", default=None)


def owned_by(owner: Owner) -> Context:
    """A context for the tasks of a process."""
    context = Context()
    context.run(OWNER.set, owner)
    return context


def _owner_of(handle: asyncio.Handle) -> Owner | None:
    context: Context = handle._context  # type: ignore[attr-defined]  # asyncio's own
    return context.get(OWNER)


class _SeededQueue(deque[asyncio.Handle]):
    """asyncio's queue of ready callbacks, which hands them out in a random order."""

    def __init__(self, rng: Random, skipped: asyncio.Handle) -> None:
        super().__init__()
        self._random = rng.random
        self._skipped = skipped

    def popleft(self) -> asyncio.Handle:
        waiting = len(self)
        place = int(self._random() * waiting) if waiting > 1 else 0
        if place:
            self.rotate(-place)
            handle = super().popleft()
            self.rotate(place)
        else:
            handle = super().popleft()
        owner = _owner_of(handle)
        if owner is not None and owner.is_frozen:
            owner.parked.append(handle)
            return self._skipped
        return handle


class _NumberedTask(asyncio.Task[T]):
    """A task that hashes by its number, so that sets of tasks have the same order in every run."""

    def __init__(self, number: int, *args: Any, **options: Any) -> None:
        self._number = number
        super().__init__(*args, **options)

    def __hash__(self) -> int:
        return self._number


class SeededLoop(TimeLoop):
    """The loop of one run."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        skipped = asyncio.Handle(lambda: None, (), self)
        skipped.cancel()
        self._ready = _SeededQueue(Random(seed), skipped)
        self._task_numbers = count()
        self.set_task_factory(lambda _, coro, **options: self._create(coro, **options))

    def _run_ready(self) -> None:
        """Run one: what it makes ready may come before what was ready already."""
        if self._ready:
            handle = self._ready.popleft()
            if not handle.cancelled():
                handle._run()

    def _create(self, coro: Coroutine[Any, Any, T], **options: Any) -> asyncio.Task[T]:
        task = _NumberedTask[T](next(self._task_numbers), coro, loop=self, **options)
        context = options.get("context")
        owner = OWNER.get() if context is None else context.get(OWNER)
        if owner is not None:
            owner.tasks.append(task)
        return task

    def delay_timers(self, owner: Owner, seconds: float) -> None:
        """Stop the clock of a process' timers for so long, as a suspended machine does."""
        self._timers = [
            (when + seconds * (_owner_of(handle) is owner), number, handle)
            for when, number, handle in self._timers
        ]
        heapify(self._timers)

    def thaw(self, owner: Owner) -> None:
        """Let a frozen process go on."""
        owner.is_frozen = False
        parked, owner.parked = owner.parked, []
        self._ready.extend(parked)
