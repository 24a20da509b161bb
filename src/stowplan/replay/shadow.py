"""A configuration beside any scheduler: what it would have decided at each binding. Read-only.

Bindings are judged a second after they were seen (`ordering`), one at a time: between two of them
the event loop goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from stowplan.api.client import ApiClient
from stowplan.api.resources import Resource
from stowplan.clock import Clock, SystemClock
from stowplan.judge.configuration import Configuration
from stowplan.judge.objects import thing_of
from stowplan.recording.entries import EntryType
from stowplan.recording.watching import Watching
from stowplan.replay.following import Comparison, Follower
from stowplan.replay.ordering import Change, Ordering

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
        clock: Clock | None = None,
    ) -> None:
        """`on_begin` is called when the cluster is known: from now on bindings are judged."""
        self._clock = clock or SystemClock()
        self._on_comparison = on_comparison
        self._on_begin = on_begin
        self._ordering = Ordering()
        self.follower = Follower(configuration)
        self.watching = Watching(
            client, on_change=self._changed, on_gap=self._gap, clock=self._clock
        )

    async def run(self) -> None:
        """Raises ApiError if nodes or pods cannot be read."""
        async with self.watching:
            self._ordering.put(Change(self._clock.monotonic(), EntryType.SYNCED, 0))
            self._on_begin()
            while True:
                await self.watching.wait(_TURN_S)
                for comparison in self.follower.follow(self._ordering, self._clock.monotonic()):
                    self._on_comparison(comparison)
                    await self.watching.wait(0.0)

    def _changed(self, what: EntryType, kind: Resource[Any], obj: Any) -> None:
        version = obj.metadata.resource_version
        number = int(version) if version.isdecimal() and len(version) < 20 else 0
        change = Change(self._clock.monotonic(), what, number, thing_of(kind, obj))
        self._ordering.put(change)

    def _gap(self, kind: Resource[Any]) -> None:
        note = f"{kind.plural} were listed again: changes before this moment may be missing"
        self._ordering.put(Change(self._clock.monotonic(), EntryType.GAP, 0, note=note))
