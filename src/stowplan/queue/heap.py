"""A heap of queued pods with removal by key, and the keys that order it.

`heapq` compares sort keys in C, so an order is a function from a pod to a key; a QueueSort plugin
that only offers `less` is wrapped by `key_from_less`. Removal is lazy: an entry that is no longer
the one on record for its pod is skipped when it surfaces, and the list is rebuilt when more than
half of it is such. Keys are taken when a pod is added, so `refresh` must follow a change of it.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from heapq import heapify, heappop, heappush
from typing import Any, TypeAlias

from stowplan.plugin_failures import PluginFailures
from stowplan.queue.pod import QueuedPod

SortKey: TypeAlias = Callable[[QueuedPod], Any]
Less: TypeAlias = Callable[[QueuedPod, QueuedPod], bool]

_BROKEN_ORDER = "The QueueSort plugin raised; ordered by priority and age"

_Entry: TypeAlias = tuple[Any, int, QueuedPod]  # the sequence is unique: pods are never compared


def priority_then_age(queued: QueuedPod) -> tuple[int, float]:
    """PrioritySort: higher priority first, then the longest wait since the last attempt."""
    return (-queued.pod.priority, queued.timestamp)


class _LessKey:
    """A sort key for a QueueSort plugin's `less`.

    Holds a copy of the pod, because keys must not change while they are in a heap.
    """

    __slots__ = ("_failures", "_less", "_queued")

    def __init__(self, queued: QueuedPod, less: Less, failures: PluginFailures) -> None:
        self._queued = copy(queued)
        self._less = less
        self._failures = failures

    def __lt__(self, other: _LessKey) -> bool:
        try:
            return bool(self._less(self._queued, other._queued))
        except Exception as problem:
            self._failures.report(_BROKEN_ORDER, problem, pod=self._queued.key)
            return priority_then_age(self._queued) < priority_then_age(other._queued)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _LessKey) and not (self < other or other < self)

    __hash__ = None  # type: ignore[assignment]  # equal means "neither is first", no identity


def queue_order(key: SortKey | None, less: Less | None, failures: PluginFailures) -> SortKey:
    """QueueSort's `key`, or its `less` (slower) if it has no key; by default priority and age."""
    if key is not None:
        return safe_key(key, failures)
    return priority_then_age if less is None else key_from_less(less, failures)


def key_from_less(less: Less, failures: PluginFailures) -> SortKey:
    return lambda queued: _LessKey(queued, less, failures)


def safe_key(key: SortKey, failures: PluginFailures) -> SortKey:
    """A pod for which a plugin's key raises comes last, in the usual order: it must not be lost."""

    def safe(queued: QueuedPod) -> tuple[int, Any]:
        try:
            return (0, key(queued))
        except Exception as problem:
            failures.report(_BROKEN_ORDER, problem, pod=queued.key)
            return (1, priority_then_age(queued))

    return safe


class PodHeap:
    """Pods by `namespace/name`; O(log n) to add, pop and refresh, O(1) to find and remove."""

    def __init__(self, sort_key: SortKey) -> None:
        self._sort_key = sort_key
        self._heap: list[_Entry] = []
        #: The entry on record for each pod. Others read it only.
        self.entries: dict[str, _Entry] = {}

    def __len__(self) -> int:
        return len(self.entries)

    def in_order(self) -> list[QueuedPod]:
        return [entry[2] for entry in sorted(self.entries.values())]

    def values(self) -> list[QueuedPod]:
        """The pods in no order."""
        return [entry[2] for entry in self.entries.values()]

    def get(self, key: str) -> QueuedPod | None:
        entry = self.entries.get(key)
        return None if entry is None else entry[2]

    def add(self, queued: QueuedPod) -> None:
        """Add a pod, in place of one of the same name."""
        entry = (self._sort_key(queued), queued.sequence, queued)
        self.entries[queued.key] = entry
        heappush(self._heap, entry)
        if len(self._heap) > 2 * len(self.entries) + 16:
            self._heap = list(self.entries.values())
            heapify(self._heap)

    def refresh(self, queued: QueuedPod) -> None:
        """Restore the order after a pod changed."""
        if self.entries[queued.key][0] != self._sort_key(queued):
            self.add(queued)

    def remove(self, key: str) -> QueuedPod | None:
        entry = self.entries.pop(key, None)
        return None if entry is None else entry[2]

    def peek(self) -> QueuedPod | None:
        while self._heap:
            queued = self._heap[0][2]
            if self.entries.get(queued.key) is self._heap[0]:
                return queued
            heappop(self._heap)
        return None

    def pop(self) -> QueuedPod | None:
        queued = self.peek()
        if queued is not None:
            heappop(self._heap)
            del self.entries[queued.key]
        return queued
