"""The lines of a recording, of `stowplan record` or of kube-scheduler-simulator, in one form.

    {"time": "2024-05-01T10:00:00.5+09:00", "event": "Add", "resource": {...}}     the simulator's
    {"at": 3.1, "type": "ADDED", "kind": "Pod", "object": {...}}                   ours

What must stay true: times are seconds since the first line and never go back; a line that cannot be
used is counted in `BrokenRows` and left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from stowplan.api.objects import ObjectMeta
from stowplan.clock import parse_rfc3339
from stowplan.loader.files import read_lines
from stowplan.loader.json_text import UNREADABLE, json_decoder
from stowplan.recording.entries import BY_KIND, Entry, EntryType
from stowplan.recording.probe import is_recording
from stowplan.recording.reading import Problems, read_sessions
from stowplan.replay.ordering import DecodedObject, decoded, unreadable
from stowplan.sim.traces.completed import completed
from stowplan.sim.traces.model import Json
from stowplan.sim.traces.reading import BrokenRows, CannotUnpack, is_text, opened

#: Lines are written in order, but their times are taken a moment before.
_TOLERATED_S = 60.0
_EVENTS = {EntryType.ADDED: "Add", EntryType.MODIFIED: "Update", EntryType.DELETED: "Delete"}
#: Lines of a file in which a line of the simulator's is expected.
_PROBED_LINES = 100
_decode = json_decoder(dict[str, Any])


class _Resource(msgspec.Struct):
    """The object of a line, not decoded."""

    resource: msgspec.Raw


class _Identified(msgspec.Struct):
    """An object of any kind."""

    metadata: ObjectMeta = ObjectMeta()


_decode_resource = json_decoder(_Resource)
_decode_identified = json_decoder(_Identified)


@dataclass(frozen=True, slots=True)
class Line:
    """A change of an object."""

    number: int
    at: float
    #: Add, Update or Delete; End, without a resource: recording was stopped.
    event: str
    resource: Json
    #: Recorded by `stowplan record`, with the kinds that its pods refer to.
    is_whole: bool = False
    #: Part of the snapshot that a recording begins with.
    is_initial: bool = False


def recorded_lines(file: Path, broken: BrokenRows) -> Iterator[Line]:
    """The lines that can be used."""
    return _own(file, broken) if is_recording(file) else _simulators(file, broken)


def is_simulator_recording(file: Path) -> bool:
    """Whether one of the first lines is a line of kube-scheduler-simulator's recordings."""
    if is_recording(file):
        return False
    try:
        with opened(file) as text:
            for raw in islice(read_lines(text, str(file)), _PROBED_LINES):
                try:
                    _parsed(raw)
                except ValueError:
                    continue
                return True
    except CannotUnpack:
        pass
    return False


def _own(file: Path, broken: BrokenRows) -> Iterator[Line]:
    """A session that was appended after a restart goes on where the one before ended."""
    problems = Problems()
    number, latest, is_initial = 0, 0.0, True
    #: The session that listed or changed each object last, by kind, namespace and name.
    there: dict[tuple[str, str, str], int] = {}
    for session_number, session in enumerate(read_sessions(file, problems)):
        for entry in session.entries:
            number += 1
            broken.at = latest = entry.at
            if entry.type is EntryType.GAP:
                broken.gap(latest, entry.note)
            if entry.type is EntryType.SYNCED:
                for key in [key for key, seen in there.items() if seen != session_number]:
                    del there[key]
                    yield Line(number, latest, "Delete", _identity(*key), is_whole=True)
                is_initial = False
            try:
                found = decoded(entry)
            except UNREADABLE as problem:
                broken.add(number, unreadable(entry, problem))
                continue
            if not isinstance(found, DecodedObject):
                continue
            kind = BY_KIND[entry.kind]
            resource = {**found.manifest, "kind": kind.kind, "apiVersion": kind.api_version}
            meta = found.struct.metadata
            key = (kind.kind, meta.namespace, meta.name)
            if entry.type is EntryType.DELETED:
                there.pop(key, None)
            else:
                there[key] = session_number
            event = _EVENTS[entry.type]
            yield Line(number, latest, event, completed(resource), True, is_initial)
    broken.refuse(problems.examples)
    yield Line(number, latest, "End", {}, is_whole=True)


def _identity(kind: str, namespace: str, name: str) -> Json:
    """What identifies an object that is gone."""
    return {
        "kind": kind,
        "apiVersion": BY_KIND[kind].api_version,
        "metadata": {"name": name, "namespace": namespace},
    }


def _simulators(file: Path, broken: BrokenRows) -> Iterator[Line]:
    """The valid lines, with times since the first one that never go back."""
    origin: float | None = None
    latest = 0.0
    with opened(file) as text:
        for number, raw in enumerate(read_lines(text, str(file)), start=1):
            if not raw.strip():
                continue
            try:
                time, event, resource = _parsed(raw)
            except ValueError as problem:
                broken.add(number, str(problem))
                continue
            if origin is None:
                origin = time
            at = round(time - origin, 3)
            if at < latest - _TOLERATED_S:
                broken.add(
                    number, f"its time is {latest - at:.0f} s before that of an earlier line"
                )
                continue
            latest = max(latest, at)
            yield Line(number, latest, event, resource)


def _parsed(raw: str) -> tuple[float, str, Json]:
    if not is_text(raw):
        raise ValueError("is not UTF-8")
    try:
        record = _decode(raw)
    except UNREADABLE as problem:
        raise ValueError(f"is not a JSON object: {problem}") from None
    time, event, resource = (record.get(name) for name in ("time", "event", "resource"))
    if not isinstance(time, str):
        raise ValueError("`time` is missing")
    if event not in ("Add", "Update", "Delete"):
        raise ValueError(f"`event` is {event!r:.60}; expected Add, Update or Delete")
    if not isinstance(resource, dict):
        raise ValueError("`resource` is missing")
    try:
        at = parse_rfc3339(time)
    except (ValueError, OverflowError):
        raise ValueError(
            f"`time`: `{time:.60}` is not a time such as 2026-01-02T03:04:05Z"
        ) from None
    _check_fields(raw, event, resource)
    return at, event, resource


def _check_fields(raw: str, event: str, resource: Json) -> None:
    """Raise ValueError for fields of wrong types: in the metadata, and all of known kinds."""
    kind = resource.get("kind")
    text = _decode_resource(raw).resource
    entry = Entry(0.0, EntryType.ADDED, kind if isinstance(kind, str) else "", text)
    try:
        _decode_identified(text)
        if entry.kind in BY_KIND and event != "Delete":
            decoded(entry)
    except UNREADABLE as problem:
        raise ValueError(unreadable(entry, problem)) from None
