"""How fast the machine itself is: the CPU time of a piece of work that never changes.

`run` takes samples while it measures. A virtual machine shares its processors with others that it
cannot see, and in some minutes the same work takes half as long again. Figures of such a minute are
lower for every contestant. What must stay true: a sample costs next to nothing.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from typing import Final

_EVERY_S: Final = 0.5
_STEPS: Final = 15_000


def fixed_work_s() -> float:
    """CPU seconds that it takes just now, about a thousandth of one."""
    began = time.thread_time()
    total = 0
    for number in range(_STEPS):
        total += number * number & 7
    return time.thread_time() - began


class Pace:
    """Samples from `begin` to `end`."""

    def __init__(self) -> None:
        self._samples: list[float] = []
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        self._samples.append(fixed_work_s())
        self._task = asyncio.create_task(self._sample(), name="pace")

    def end(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    @property
    def median_s(self) -> float | None:
        return statistics.median(self._samples) if self._samples else None

    async def _sample(self) -> None:
        while True:
            await asyncio.sleep(_EVERY_S)
            self._samples.append(fixed_work_s())
