"""Exponential backoff with jitter, for reconnecting and retrying."""

from __future__ import annotations

import random


class Backoff:
    """Waits double up to a limit; jitter keeps many clients from coming back in step."""

    def __init__(
        self, initial_s: float, limit_s: float, *, rng: random.Random | None = None
    ) -> None:
        self._initial_s = initial_s
        self._limit_s = limit_s
        self._next_s = initial_s
        self._rng = rng or random.Random()

    def next_s(self) -> float:
        """How long to wait now: between half and all of the current step."""
        step = self._next_s
        self._next_s = min(step * 2, self._limit_s)
        return step * self._rng.uniform(0.5, 1.0)

    def reset(self) -> None:
        self._next_s = self._initial_s
