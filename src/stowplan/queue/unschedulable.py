"""Pods that no attempt is worth until something happens, found by the plugins that rejected them.

Called by the scheduling queue only. An event concerns few plugins, so pods are indexed by
(profile, plugin), and by topic where a plugin's events have topics: with 10,000 waiting pods an
event touches only those it may help. A gated pod is indexed by its gating plugin alone, since no
other plugin's event can free it. A pod whose rejectors, gate or object change is `put` again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeAlias

from stowplan.queue.pod import QueuedPod

IndexPlace: TypeAlias = tuple[str, str] | tuple[str, str, Hashable]
"""(profile, plugin), or one topic of its events"""


class UnschedulablePods:
    """`waiting` is in the order of timestamps, because a pod enters it when its attempt failed."""

    def __init__(self, index_places: Callable[[QueuedPod], list[IndexPlace]]) -> None:
        self._index_places = index_places
        self.waiting: dict[str, QueuedPod] = {}
        self.gated: dict[str, QueuedPod] = {}
        self._index: dict[IndexPlace, dict[str, QueuedPod]] = {}
        self._places_of: dict[str, dict[IndexPlace, None]] = {}

    def __len__(self) -> int:
        return len(self.waiting) + len(self.gated)

    def get(self, key: str) -> QueuedPod | None:
        return self.waiting.get(key) or self.gated.get(key)

    def put(self, queued: QueuedPod) -> None:
        (self.gated if queued.is_gated else self.waiting)[queued.key] = queued
        self.index(queued)

    def index(self, queued: QueuedPod) -> None:
        """Find a pod that is here by what it waits for now."""
        self._unindex(queued.key)
        places = self._places_of[queued.key] = dict.fromkeys(self._index_places(queued))
        for place in places:
            self._index.setdefault(place, {})[queued.key] = queued

    def remove(self, key: str) -> QueuedPod | None:
        queued = self.waiting.pop(key, None) or self.gated.pop(key, None)
        if queued is not None:
            self._unindex(key)
        return queued

    def _unindex(self, key: str) -> None:
        for place in self._places_of.pop(key, ()):
            bucket = self._index[place]
            del bucket[key]
            if not bucket:
                del self._index[place]

    def at(self, places: Iterable[IndexPlace]) -> list[QueuedPod]:
        """Pods at one of these places of the index, each once."""
        if not self._index:
            return []
        found: dict[str, QueuedPod] = {}
        for place in places:
            found.update(self._index.get(place, {}))
        return list(found.values())

    def oldest(self) -> QueuedPod | None:
        return next(iter(self.waiting.values()), None)

    def due(self, now: float, max_age_s: float) -> list[QueuedPod]:
        """Waiting pods whose last attempt was that long ago."""
        due: list[QueuedPod] = []
        for queued in self.waiting.values():
            if queued.timestamp + max_age_s > now:
                break
            due.append(queued)
        return due
