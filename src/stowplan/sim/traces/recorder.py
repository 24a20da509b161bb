"""kube-scheduler-simulator's recordings: a line of JSON for each change of a real cluster.

    {"time": "2024-05-01T10:00:00.5+09:00", "event": "Add", "resource": {...}}

Unlike the simulator's replay we keep the recorded times. The file is walked twice: at first to
check it and to learn how long pods ran, then lazily whenever the trace is played. What must stay
true: placements, phases and conditions of the recorded cluster are its own affair; here the
scheduler under test decides, and durations come from the recording.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from stowplan.clock import parse_rfc3339
from stowplan.loader.files import read_lines
from stowplan.loader.json_text import UNREADABLE, json_decoder
from stowplan.sim.traces.amounts import seconds_text
from stowplan.sim.traces.model import (
    RUN_SECONDS,
    Arrival,
    Event,
    Json,
    Removal,
    Revision,
    Trace,
)
from stowplan.sim.traces.reading import BrokenRows, is_text, opened
from stowplan.sim.traces.recorded import NotAnObject, as_new, comes_by_itself, phase_of
from stowplan.workloads.kinds import find_resource

#: Lines are written in order, but their times are taken a moment before.
_TOLERATED_S = 60.0
#: Changes of these are made by the recorded scheduler, kubelets and volume controller.
_NOT_REVISED = ("Pod", "PersistentVolume", "PersistentVolumeClaim")
_FINISHED = ("Succeeded", "Failed")
_decode = json_decoder(dict[str, Any])


@dataclass(slots=True)
class _Life:
    """The times of a recorded pod, in seconds; None: not seen."""

    started: float | None = None
    finished: float | None = None


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    at: float
    event: str
    resource: Json


@dataclass
class _Facts:
    """The results of the first pass over the file."""

    lives: dict[str, _Life] = field(default_factory=dict)
    lines: int = 0
    left_out: int = 0
    pods: int = 0
    nodes: int = 0


def read_recording(file: Path, *, skip_broken: bool = False, reschedule: bool = False) -> Trace:
    """The trace of a recording. `reschedule`: drop the nodes of initially bound pods."""
    broken = BrokenRows(file, skip=skip_broken)
    facts = _Facts()
    for line in _lines(file, broken):
        try:
            _learn(facts, line)
        except NotAnObject as problem:
            broken.add(line.number, f"resource {problem}")
    broken.check(facts.lines, facts.left_out)
    walk = _Walk(file, facts, place=not reschedule)
    return Trace(
        sources=(f"{file} (recording of kube-scheduler-simulator)",),
        make_objects=lambda: iter(()),
        make_events=walk.events,
        pods=facts.pods,
        nodes=facts.nodes,
        reading=broken.reading(facts.lines, facts.left_out),
    )


def _lines(file: Path, broken: BrokenRows) -> Iterator[_Line]:
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
            yield _Line(number, latest, event, resource)


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
        return parse_rfc3339(time), event, resource
    except (ValueError, OverflowError):
        raise ValueError(
            f"`time`: `{time:.60}` is not a time such as 2026-01-02T03:04:05Z"
        ) from None


def _learn(facts: _Facts, line: _Line) -> None:
    made = as_new(line.resource)
    if not _is_known(made):
        facts.left_out += 1
        return
    facts.lines += 1
    if made["kind"] == "Node":
        facts.nodes += line.event == "Add"
    if made["kind"] != "Pod":
        return
    facts.pods += line.event == "Add"
    life = facts.lives.setdefault(_identity(line.resource), _Life())
    phase = phase_of(line.resource)
    if phase == "Running" and life.started is None:
        life.started = line.at
    if phase in _FINISHED and life.finished is None:
        life.finished = line.at


def _is_known(made: Json) -> bool:
    """True if the kind is known; custom resources are recorded too, and skipped."""
    return find_resource(made["apiVersion"], made["kind"]) is not None


def _identity(resource: Json) -> str:
    """A pod's UID; a Delete has none and needs none."""
    metadata = resource["metadata"]
    name = f"{metadata.get('namespace', '')}/{metadata.get('name')}"
    return str(metadata.get("uid") or name)


def _digest(made: Json) -> bytes:
    """A digest to detect changed objects; most updates of nodes are heartbeats."""
    return hashlib.blake2b(msgspec.json.encode(made), digest_size=16).digest()


class _Walk:
    """Events of a recording that has been checked."""

    def __init__(self, file: Path, facts: _Facts, *, place: bool) -> None:
        self._file = file
        self._facts = facts
        self._place = place

    def events(self) -> Iterator[Event]:
        there: dict[tuple[str, str, str], bytes] = {}
        for line in _lines(self._file, BrokenRows(self._file, skip=True)):
            try:
                made = as_new(line.resource, place=self._place)
            except NotAnObject:
                continue  # counted by the first walk
            if comes_by_itself(made) or not _is_known(made):
                continue
            key = (made["kind"], made["metadata"].get("namespace", ""), made["metadata"]["name"])
            if line.event == "Delete":
                if there.pop(key, None) is not None:
                    yield Removal(line.at, made["apiVersion"], *key)
            elif key not in there:
                event = self._arrival(line, made)
                if event is not None:
                    there[key] = _digest(made)
                    yield event
            elif made["kind"] not in _NOT_REVISED and there[key] != (digest := _digest(made)):
                there[key] = digest
                yield Revision(line.at, made)

    def _arrival(self, line: _Line, made: Json) -> Arrival | None:
        if made["kind"] != "Pod":
            return Arrival(line.at, made)
        if phase_of(line.resource) in _FINISHED:
            return None  # over before we looked: it takes no room
        life = self._facts.lives[_identity(line.resource)]
        if life.finished is None:
            return Arrival(line.at, made)
        run_s = round(life.finished - (line.at if life.started is None else life.started), 3)
        annotations = {**(made["metadata"].get("annotations") or {})}
        annotations[RUN_SECONDS] = seconds_text(run_s)
        made["metadata"]["annotations"] = annotations
        return Arrival(line.at, made, run_s)
