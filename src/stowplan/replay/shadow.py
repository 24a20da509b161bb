"""Compares a configuration with any live scheduler, binding by binding. Read-only.

A binding is evaluated a second after it was seen (`ordering`). The event loop runs between two
evaluations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from stowplan.api.client import ApiClient
from stowplan.api.resources import Resource
from stowplan.clock import Clock, SystemClock
from stowplan.judge.configuration import Configuration
from stowplan.recording.entries import READ_KINDS, EntryType
from stowplan.recording.watching import Watching
from stowplan.replay.following import Comparison, Follower
from stowplan.replay.ordering import Change, Ordering, change_of

_TURN_S: Final = 0.2


class Shadow:
    """Follows a live cluster until `run` is cancelled."""

    def __init__(
        self,
        client: ApiClient,
        configuration: Configuration,
        *,
        on_comparison: Callable[[Comparison], None],
        on_begin: Callable[[], None] = lambda: None,
        on_change: Callable[[EntryType, Resource[Any], Any], None] | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`on_begin` is called after the first lists: from then on bindings are compared.
        `on_change` is called with every change at once, about a second before its comparison.
        """
        self._clock = clock or SystemClock()
        self._on_comparison = on_comparison
        self._on_begin = on_begin
        self._on_change = on_change
        self._origin = self._clock.monotonic()
        self._ordering = Ordering()
        self.follower = Follower(configuration)
        self.watching = Watching(
            client,
            [kind for kind in READ_KINDS if not configuration.ignores(kind)],
            on_change=self._changed,
            on_gap=self._gap,
            clock=self._clock,
        )

    async def run(self) -> None:
        """Follow the cluster. Raises ApiError if nodes or pods cannot be read."""
        async with self.watching:
            self._ordering.put(Change(self._now(), EntryType.SYNCED, 0))
            self._on_begin()
            while True:
                await self.watching.wait(_TURN_S)
                for comparison in self.follower.follow(self._ordering, self._now()):
                    self._on_comparison(comparison)
                    await self.watching.wait(0.0)

    def _now(self) -> float:
        """Seconds since the shadow began."""
        return round(self._clock.monotonic() - self._origin, 3)

    def _changed(self, what: EntryType, kind: Resource[Any], obj: Any) -> None:
        self._ordering.put(change_of(self._now(), what, kind, obj))
        if self._on_change is not None:
            self._on_change(what, kind, obj)

    def _gap(self, kind: Resource[Any]) -> None:
        note = f"{kind.plural} were listed again: changes before this moment may be missing"
        self._ordering.put(Change(self._now(), EntryType.GAP, 0, note=note))
