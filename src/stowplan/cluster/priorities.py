"""How many pods of each priority stand on nodes: whether there is anything to evict for a pod.

Preemption asks for every pod that fits nowhere. Where no pod has a lower priority, which is the
common case, one comparison replaces a look at every pod of every node.
"""

from __future__ import annotations

from heapq import heappop, heappush
from math import inf


class Priorities:
    """Pods by priority, and the lowest priority of all."""

    __slots__ = ("_counts", "_heap")

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        #: Every priority of `_counts`, and some that are gone.
        self._heap: list[int] = []

    def add(self, priority: int) -> None:
        count = self._counts.get(priority, 0)
        if not count:
            heappush(self._heap, priority)
        self._counts[priority] = count + 1

    def remove(self, priority: int) -> None:
        count = self._counts[priority] - 1
        if count:
            self._counts[priority] = count
            return
        del self._counts[priority]
        if len(self._heap) > 2 * len(self._counts) + 16:
            self._heap = sorted(self._counts)

    @property
    def lowest(self) -> float:
        """The lowest priority; infinity if there is no pod."""
        heap = self._heap
        while heap and heap[0] not in self._counts:
            heappop(heap)
        return heap[0] if heap else inf
