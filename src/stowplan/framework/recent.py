"""What was worked out for a key, kept while it is used.

Columns and whole shapes (`columns`, `shapes`) share one `Recent` a profile and so one budget of
bytes. A value is kept when its key is seen a second time, and goes when nobody has asked for it for
long: of pods that come once nothing stays, and a scheduler's memory does not grow with its age.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable
from typing import Any

import msgspec

#: How many keys are remembered as "seen once".
_SEEN_LIMIT = 4_096
#: A value goes when so many others were asked for since: some five thousand pods. A shape that
#: comes more seldom gains nothing by being kept, and each holds several columns.
_IDLE_USES = 20_000
#: Keys up to this size are not counted.
_SMALL_KEY = 1024


class _Kept:
    __slots__ = ("size", "used", "value")

    def __init__(self, value: Any, size: int, used: int) -> None:
        self.value = value
        self.size = size
        self.used = used


class Recent:
    """Values by key; the least recently used make room when there are too many bytes."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._bytes = 0
        self._uses = 0
        self._values: OrderedDict[Hashable, _Kept] = OrderedDict()
        #: Hashes only: a key spells out what plugins read of a pod, which of thousands that come
        #: once is a lot. Two keys with one hash are harmless, a value is kept too early.
        self._seen: set[int] = set()
        #: Whether anything is ever kept.
        self.is_used = limit_bytes > 0

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Hashable) -> Any | None:
        """The value of a key, if it is kept."""
        kept = self._values.get(key)
        if kept is None:
            return None
        self._uses = kept.used = self._uses + 1
        self._values.move_to_end(key)
        return kept.value

    def is_wanted(self, key: Hashable) -> bool:
        """Whether a value for this key would be kept: it had one, or is asked for again."""
        known = hash(key)
        if key in self._values or known in self._seen:
            return True
        if len(self._seen) >= _SEEN_LIMIT:
            self._seen.clear()
        self._seen.add(known)
        return False

    def keep(self, key: Hashable, value: Any, size: int) -> None:
        """Keep a value of so many bytes, in place of an older one."""
        self.drop(key)
        size += max(bytes_of(key) - _SMALL_KEY, 0)
        self._values[key] = _Kept(value, size, self._uses)
        self._bytes += size
        while self._values:
            oldest = next(iter(self._values.values()))
            if self._bytes <= self._limit_bytes and self._uses - oldest.used < _IDLE_USES:
                break
            self._values.popitem(last=False)
            self._bytes -= oldest.size

    def drop(self, key: Hashable) -> None:
        old = self._values.pop(key, None)
        if old is not None:
            self._bytes -= old.size


def bytes_of(key: object) -> int:
    """What a key takes, about: it may spell out a pod's whole affinity."""
    if isinstance(key, str | bytes):
        return 50 + len(key)
    parts: Iterable[object] = ()
    if isinstance(key, tuple | frozenset):
        parts = key
    elif isinstance(key, msgspec.Struct):
        parts = msgspec.structs.astuple(key)
    elif isinstance(key, dict):
        parts = (*key.keys(), *key.values())
    return 50 + sum(map(bytes_of, parts))
