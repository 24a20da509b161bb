"""A least-recently-used cache with a budget in bytes.

Everything that is derived and cached (counters, sums by domain, compiled specs, columns) lives in
one of these. A value is evicted when the budget is spent, or when it has not been used for a long
time, so that memory returns to its old size after the pods that caused it are gone.

A profile's columns and whole shapes share a `SecondUseLru`, which admits a value only when its key
is seen a second time: of pods that come once nothing stays.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Any, Generic, TypeVar

import msgspec

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

#: A value is evicted after this many ticks without a use, unless the owner says otherwise.
IDLE_TICKS = 4_096
#: The same for `SecondUseLru`, in lookups: those of some five thousand pods. A shape that comes
#: more seldom gains nothing by being cached, and each holds several columns.
IDLE_LOOKUPS = 40_000
#: How many keys are remembered as "seen once".
SEEN_LIMIT = 4_096
#: Keys up to this size are not counted.
_SMALL_KEY = 1024
#: A value with a key above this size, that of a pod of unusual size, is evicted much sooner.
_LARGE_KEY = 64 << 10
_IDLE_LOOKUPS_LARGE = 2_048
#: Small structs in memory take so many times the length of their JSON, about.
_BYTES_A_CHARACTER = 5
_encode = msgspec.json.Encoder().encode


class _Entry(Generic[V]):
    __slots__ = ("idle_ticks", "size", "tick", "used", "value")

    def __init__(self, value: V, size: int, used: int, tick: int, idle_ticks: int) -> None:
        self.value = value
        self.size = size
        self.used = used
        self.tick = tick
        self.idle_ticks = idle_ticks


class BytesLru(Generic[K, V]):
    """Values by key. The budget is kept by evicting an eighth of it at a time."""

    def __init__(
        self, limit_bytes: int, idle_ticks: int | None = None, *, ticks_by_use: bool = False
    ) -> None:
        """With `ticks_by_use`, every lookup is a tick, and not only what `advance` adds."""
        self._limit_bytes = limit_bytes
        self._ticks_by_use = int(ticks_by_use)
        self._idle_ticks = idle_ticks or IDLE_TICKS
        self._entries: dict[K, _Entry[V]] = {}
        #: Orders the entries by their last use.
        self._uses = 0
        #: The time by which idle entries are found.
        self._ticks = 0
        self._next_check = self._idle_ticks // 8
        #: The sizes of all values, as their owner stated them.
        self.nbytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[V]:
        return (entry.value for entry in self._entries.values())

    def get(self, key: K) -> V | None:
        """Return the value of a key and mark it as used."""
        self._uses += 1
        self._ticks += self._ticks_by_use
        if self._ticks >= self._next_check:
            self._evict_idle()
        entry = self._entries.get(key)
        if entry is None:
            return None
        entry.used, entry.tick = self._uses, self._ticks
        return entry.value

    def put(self, key: K, value: V, size: int, idle_ticks: int | None = None) -> None:
        """Keep a value. The one that was used last always stays."""
        self.drop(key)
        self._uses += 1
        idle_ticks = idle_ticks or self._idle_ticks
        self._entries[key] = _Entry(value, size, self._uses, self._ticks, idle_ticks)
        self.nbytes += size
        self._make_room()

    def resize(self, key: K, size: int) -> None:
        """State a new size for a value, and evict others if there is no room for it."""
        entry = self._entries[key]
        self.nbytes += size - entry.size
        entry.size = size
        self._make_room()

    def drop(self, key: K) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self.nbytes -= entry.size

    def clear(self) -> None:
        self._entries.clear()
        self.nbytes = 0

    def advance(self, ticks: int) -> None:
        """Let time pass; the owner of pods' data calls this for every pod event."""
        self._ticks += ticks
        if self._ticks >= self._next_check:
            self._evict_idle()

    def _make_room(self) -> None:
        if self.nbytes <= self._limit_bytes:
            return
        *others, _ = sorted(self._entries, key=lambda key: self._entries[key].used)
        for key in others:
            if self.nbytes <= self._limit_bytes * 7 // 8:
                return
            self.drop(key)

    def _evict_idle(self) -> None:
        self._next_check = self._ticks + self._idle_ticks // 8
        for key, entry in list(self._entries.items()):
            if self._ticks - entry.tick >= entry.idle_ticks:
                self.drop(key)


class SecondUseLru(BytesLru[Hashable, Any]):
    """A cache that admits a key when it is seen a second time; every lookup is a tick.

    Large keys count: a key may spell out a pod's whole affinity.
    """

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(limit_bytes, IDLE_LOOKUPS, ticks_by_use=True)
        #: Whether anything is ever cached.
        self.is_used = limit_bytes > 0
        #: Hashes only: thousands of keys that come once would take much memory. Two keys with one
        #: hash are harmless, as a value is then admitted too early.
        self._seen: set[int] = set()

    def admits(self, key: Hashable) -> bool:
        """Whether to `put` a value for this key: it has one, or is seen again."""
        hashed = hash(key)
        if key in self._entries or hashed in self._seen:
            return True
        if len(self._seen) >= SEEN_LIMIT:
            self._seen.clear()
        self._seen.add(hashed)
        return False

    def put(self, key: Hashable, value: Any, size: int, idle_ticks: int | None = None) -> None:
        key_bytes = bytes_of(key)
        if key_bytes > _LARGE_KEY:
            idle_ticks = _IDLE_LOOKUPS_LARGE
        super().put(key, value, size + max(key_bytes - _SMALL_KEY, 0), idle_ticks)


def bytes_of(key: object) -> int:
    """What a key takes in memory, about."""
    if isinstance(key, str | bytes):
        return 50 + len(key)
    parts: Iterable[object] = ()
    if isinstance(key, msgspec.Struct):
        # In one call: a struct may be the whole affinity of a pod, a megabyte of JSON.
        return 50 + _BYTES_A_CHARACTER * len(_encode(key))
    if isinstance(key, tuple | frozenset):
        parts = key
    elif isinstance(key, dict):
        parts = (*key.keys(), *key.values())
    return 50 + sum(map(bytes_of, parts))
