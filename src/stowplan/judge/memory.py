"""What objects were read as, by their text: the same nodes and pods come in line after line.

Bounded by the size of the texts; the least recently used is evicted first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class Memory(Generic[T]):
    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._bytes = 0
        self._known: OrderedDict[tuple[bytes, Hashable], T] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def recall(self, text: bytes, how: Hashable, read: Callable[[], T]) -> T:
        """What `text` was read as in this way, or what `read` makes of it now."""
        key = (text, how)
        known = self._known.get(key)
        if known is not None:
            self._known.move_to_end(key)
            return known
        made = self._known[key] = read()
        self._bytes += len(text)
        while self._bytes > self._limit_bytes:
            (forgotten, _), _ = self._known.popitem(last=False)
            self._bytes -= len(forgotten)
        return made
