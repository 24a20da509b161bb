"""Pods that no attempt is worth until something happens, found by the plugins that rejected them.

Called by the scheduling queue only. An event concerns few plugins, so pods are indexed by
(profile, plugin): with 10,000 waiting pods an event touches only those it may help. A gated pod is
indexed by its gating plugin alone, since no other plugin's event can free it. A caller that changes
a pod's rejectors or gate must remove the pod before and add it after.
"""

from __future__ import annotations

from collections.abc import Iterable

from stowplan.queue.pod import QueuedPod


class UnschedulablePods:
    """`waiting` is in the order of timestamps, because a pod enters it when its attempt failed."""

    def __init__(self) -> None:
        self.waiting: dict[str, QueuedPod] = {}
        self.gated: dict[str, QueuedPod] = {}
        self._by_rejector: dict[tuple[str, str], dict[str, QueuedPod]] = {}

    def __len__(self) -> int:
        return len(self.waiting) + len(self.gated)

    def get(self, key: str) -> QueuedPod | None:
        return self.waiting.get(key) or self.gated.get(key)

    def put(self, queued: QueuedPod) -> None:
        (self.gated if queued.is_gated else self.waiting)[queued.key] = queued
        for place in self._index_places(queued):
            self._by_rejector.setdefault(place, {})[queued.key] = queued

    def remove(self, key: str) -> QueuedPod | None:
        queued = self.waiting.pop(key, None) or self.gated.pop(key, None)
        if queued is not None:
            for place in self._index_places(queued):
                bucket = self._by_rejector[place]
                del bucket[key]
                if not bucket:
                    del self._by_rejector[place]
        return queued

    def rejected_by(self, rejectors: Iterable[tuple[str, str]]) -> list[QueuedPod]:
        """Pods that one of these (profile, plugin) keeps here, each once."""
        if not self._by_rejector:
            return []
        found: dict[str, QueuedPod] = {}
        for place in rejectors:
            found.update(self._by_rejector.get(place, {}))
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

    @staticmethod
    def _index_places(queued: QueuedPod) -> list[tuple[str, str]]:
        plugins = {queued.gating_plugin} if queued.is_gated else queued.rejectors
        return [(queued.scheduler_name, plugin) for plugin in plugins]
