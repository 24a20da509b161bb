"""Go's container/heap as upstream's host selection uses it, word for word."""

from __future__ import annotations


class GoHeap:
    """container/heap, of nodes that know only their scores: the highest is on top."""

    def __init__(self, scores: list[int]) -> None:
        self._items = list(enumerate(scores))
        size = len(self._items)
        for i in range(size // 2 - 1, -1, -1):
            self._down(i, size)

    def pop(self) -> int:
        last = len(self._items) - 1
        self._swap(0, last)
        self._down(0, last)
        return self._items.pop()[0]

    def _less(self, i: int, j: int) -> bool:
        return self._items[i][1] > self._items[j][1]

    def _swap(self, i: int, j: int) -> None:
        self._items[i], self._items[j] = self._items[j], self._items[i]

    def _down(self, i: int, size: int) -> None:
        while True:
            left = 2 * i + 1
            if left >= size:
                return
            child = left
            if left + 1 < size and self._less(left + 1, left):
                child = left + 1
            if not self._less(child, i):
                return
            self._swap(i, child)
            i = child
