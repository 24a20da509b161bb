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
        # The process's own source, where none is given: to seed another takes as long as a request.
        self._uniform = random.uniform if rng is None else rng.uniform

    def next_s(self) -> float:
        """How long to wait now: between half and all of the current step."""
        step = self._next_s
        self._next_s = min(step * 2, self._limit_s)
        return step * self._uniform(0.5, 1.0)

    def reset(self) -> None:
        self._next_s = self._initial_s
