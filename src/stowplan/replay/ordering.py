"""Entries of several watches in the order of etcd.

Every kind has a watch of its own, so entries arrive a little out of order. Their resourceVersions
are revisions of one etcd and tell the order. An entry is handed out when none that belongs before
it can still arrive: after a second. Where versions cannot be compared the order of arrival stays.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any, Final

import msgspec

from stowplan.api.resources import Resource
from stowplan.judge.objects import Thing, thing_of
from stowplan.loader.json_text import UNREADABLE, json_decoder
from stowplan.recording.entries import BY_KIND, Entry, EntryType

#: How late an entry may arrive.
WINDOW_S: Final = 1.0

_DECODERS: Final = {kind: json_decoder(each.type) for kind, each in BY_KIND.items()}


class Change(msgspec.Struct, frozen=True, gc=False):
    """An entry with its object read."""

    at: float
    #: ADDED, MODIFIED, DELETED, SYNCED or GAP.
    type: EntryType
    version: int
    thing: Thing | None = None
    note: str = ""


def changes(entries: Iterable[Entry]) -> Iterator[Change]:
    """Read the objects; one that cannot be read is a gap."""
    for entry in entries:
        resource: Resource[Any] | None = BY_KIND.get(entry.kind)
        if resource is None or not bytes(entry.object):
            yield Change(entry.at, entry.type, 0, note=entry.note)
            continue
        try:
            struct = _DECODERS[entry.kind](entry.object)
        except UNREADABLE as problem:
            yield Change(entry.at, EntryType.GAP, 0, note=f"{entry.kind}: {problem}")
            continue
        version = struct.metadata.resource_version
        number = int(version) if version.isdecimal() and len(version) < 20 else 0
        yield Change(entry.at, entry.type, number, thing_of(resource, struct))


class Ordering:
    """Changes go in as they arrive and come out in order; those to come can be looked at."""

    def __init__(self, *, window_s: float = WINDOW_S) -> None:
        self._window_s = window_s
        self._heap: list[tuple[int, int, Change]] = []
        self._numbers = count()
        self._highest = 0

    def put(self, change: Change) -> None:
        # Without a version it stays behind everything that arrived before.
        version = change.version or self._highest
        self._highest = max(self._highest, version)
        heapq.heappush(self._heap, (version, next(self._numbers), change))

    def take(self, now: float) -> Iterator[Change]:
        """Those that nothing can precede any more; `inf` takes all."""
        while self._heap and self._heap[0][2].at < now - self._window_s:
            yield heapq.heappop(self._heap)[2]

    def coming(self) -> Iterator[Change]:
        """What follows within the window, in order."""
        return (change for _, _, change in sorted(self._heap, key=lambda item: item[:2]))
