"""Sorts entries of several watches into the order of writes in etcd.

Each kind has its own watch, so entries arrive slightly out of order. Their resourceVersions are
revisions of one etcd, which give the order. An entry is released after a second, when no earlier
one is expected any more. Entries without a comparable version keep the order of arrival.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any, Final, NamedTuple

import msgspec

from stowplan.api.objects import Node, Pod
from stowplan.api.quantity import milli_value, value
from stowplan.api.resources import Resource
from stowplan.cluster.pod_info import held_amounts
from stowplan.judge.objects import Thing, thing_of
from stowplan.loader.json_text import UNREADABLE, json_decoder, reason_of
from stowplan.recording.decisions import Decision
from stowplan.recording.entries import (
    BY_KIND,
    KINDS,
    OBJECT_TYPES,
    READ_KINDS,
    Entry,
    EntryType,
)

#: Maximum delay of an entry.
WINDOW_S: Final = 1.0

#: Maximum length of names in Kubernetes.
_LONGEST_NAME: Final = 253
#: Maximum number of changes that wait: a file can claim that all its changes have one time.
_MOST_WAITING: Final = 100_000

_DECODERS: Final = {each.kind: json_decoder(each.type) for each in KINDS}
_READ: Final = frozenset(each.kind for each in READ_KINDS)
_decode_decision = json_decoder(Decision)
_decode_all_fields = json_decoder(dict[str, Any])


class DecodedObject(NamedTuple):
    """An object of a recording in both forms that readers need."""

    #: Of the type of its kind.
    struct: Any
    #: All of its fields.
    manifest: dict[str, Any]


class Change(msgspec.Struct, frozen=True, gc=False):
    """An entry with its object decoded."""

    at: float
    #: ADDED, MODIFIED, DELETED, SYNCED, DECISION or GAP.
    type: EntryType
    version: int
    thing: Thing | None = None
    note: str = ""
    decision: Decision | None = None


def changes(entries: Iterable[Entry]) -> Iterator[Change]:
    """Decode the objects. An unreadable one becomes a gap; kinds without effect are skipped."""
    for entry in entries:
        try:
            found = decoded(entry)
        except UNREADABLE as problem:
            yield Change(entry.at, EntryType.GAP, 0, note=unreadable(entry, problem))
            continue
        if found is None:
            yield Change(entry.at, entry.type, 0, note=entry.note)
        elif isinstance(found, Decision):
            yield Change(entry.at, entry.type, 0, decision=found)
        elif entry.kind in _READ:
            yield change_of(entry.at, entry.type, BY_KIND[entry.kind], found.struct)


def decoded(entry: Entry) -> DecodedObject | Decision | None:
    """The object or the Decision of an entry; None for entries of other types.

    All readers use it, so the same lines are gaps for all of them. Raises one of UNREADABLE if the
    object is malformed, even in a field that is not read, has no name, or has amounts that are not
    quantities.
    """
    if entry.type is EntryType.DECISION:
        return _decode_decision(entry.object)
    if entry.type not in OBJECT_TYPES:
        return None
    struct = _DECODERS[entry.kind](entry.object)
    found = DecodedObject(struct, _decode_all_fields(entry.object))
    if not struct.metadata.name:
        raise ValueError("the object has no metadata.name")
    _check_length("metadata.name", struct.metadata.name)
    _check_length("metadata.namespace", struct.metadata.namespace)
    if entry.type is EntryType.DELETED:
        return found
    if isinstance(struct, Pod):
        _check_length("spec.nodeName", struct.spec.node_name)
        _check_length("spec.schedulerName", struct.spec.scheduler_name)
        held_amounts(struct)
    elif isinstance(struct, Node):
        for name, amount in (struct.status.allocatable or {}).items():
            (milli_value if name == "cpu" else value)(amount)
    return found


def _check_length(field: str, name: str) -> None:
    """Names are kept and printed, and a line can have 8 MiB."""
    if len(name) > _LONGEST_NAME:
        raise ValueError(f"{field} has more than {_LONGEST_NAME} characters")


def unreadable(entry: Entry, problem: Exception) -> str:
    """The note of the gap that an unreadable object leaves."""
    return f"{entry.kind or entry.type.value}: {reason_of(problem)}"


def change_of(at: float, what: EntryType, kind: Resource[Any], obj: Any) -> Change:
    """A change of an object, with its resourceVersion as a number; 0 if it is not one."""
    version = obj.metadata.resource_version
    number = int(version) if version.isdecimal() and len(version) < 20 else 0
    return Change(at, what, number, thing_of(kind, obj))


class Ordering:
    """A queue of changes: `put` in order of arrival, `take` in order of version."""

    def __init__(self, *, window_s: float = WINDOW_S) -> None:
        self._window_s = window_s
        self._heap: list[tuple[int, int, Change]] = []
        self._numbers = count()
        self._highest = 0

    def put(self, change: Change) -> None:
        # Without a version, a change sorts after all that arrived before it.
        version = change.version or self._highest
        self._highest = max(self._highest, version)
        heapq.heappush(self._heap, (version, next(self._numbers), change))

    def take(self, now: float) -> Iterator[Change]:
        """Remove and yield the changes that are older than the window; `inf` takes all.

        If too many wait, the first ones are taken early.
        """
        while self._heap and (
            len(self._heap) > _MOST_WAITING or self._heap[0][2].at < now - self._window_s
        ):
            yield heapq.heappop(self._heap)[2]

    def coming(self) -> Iterator[Change]:
        """The changes that are still queued, in order."""
        return (change for _, _, change in sorted(self._heap, key=lambda item: item[:2]))
