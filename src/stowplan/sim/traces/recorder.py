"""Recordings of a real cluster as traces: those of `stowplan record`, and the simulator's.

Unlike kube-scheduler-simulator's replay we keep the recorded times. The file is walked twice: at
first to check it and to learn how long pods ran, then lazily whenever the trace is played. What
must stay true: placements, phases and conditions of the recorded cluster are its own affair; here
the scheduler under test decides, and durations come from the recording. Of changed pods only what
their owners may change is played (`pod_changes`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec

from stowplan.sim.traces.amounts import seconds_text
from stowplan.sim.traces.completed import class_of
from stowplan.sim.traces.manifests import SYSTEM_CLASSES
from stowplan.sim.traces.model import (
    RUN_SECONDS,
    Arrival,
    Event,
    Json,
    Removal,
    Revision,
    Trace,
)
from stowplan.sim.traces.pod_changes import changeable
from stowplan.sim.traces.reading import BrokenRows
from stowplan.sim.traces.recorded import (
    NotAnObject,
    as_new,
    comes_by_itself,
    is_made_for_pod,
    phase_of,
)
from stowplan.sim.traces.recorded_lines import Line, recorded_lines
from stowplan.workloads.kinds import find_resource

#: Changes of these are made by the recorded scheduler and by controllers.
_NOT_REVISED = ("PersistentVolume", "PersistentVolumeClaim", "ResourceClaim")
#: An object of these with another UID is another object. The deletion of the first was not seen.
_REPLACED = ("Pod", *_NOT_REVISED)
_FINISHED = ("Succeeded", "Failed")


@dataclass(slots=True)
class _Life:
    """The times of a recorded pod, in seconds; None: not seen."""

    started: float | None = None
    finished: float | None = None


@dataclass
class _Facts:
    """The results of the first pass over the file."""

    lives: dict[str, _Life] = field(default_factory=dict)
    lines: int = 0
    left_out: int = 0
    pods: int = 0
    nodes: int = 0
    ends_at: float | None = None


def read_recording(
    file: Path,
    *,
    skip_broken: bool = False,
    reschedule: bool = False,
    without: Sequence[str] = (),
) -> Trace:
    """The trace of a recording. `reschedule`: drop the nodes of initially bound pods; `without`:
    kinds to leave out.
    """
    broken = BrokenRows(file, skip=skip_broken)
    facts = _Facts()
    for line in recorded_lines(file, broken):
        if line.event == "End":
            facts.ends_at = line.at
            continue
        try:
            _learn(facts, line)
        except NotAnObject as problem:
            broken.add(line.number, f"resource {problem}")
    broken.check(facts.lines, facts.left_out)
    walk = _Walk(file, facts, place=not reschedule, without=without)
    return Trace(
        sources=(f"{file} (recording)",),
        make_objects=walk.objects,
        make_events=walk.events,
        pods=facts.pods,
        nodes=0 if "Node" in without else facts.nodes,
        reading=broken.reading(facts.lines, facts.left_out),
        ends_at=facts.ends_at,
        skips_refused=skip_broken,
    )


def _learn(facts: _Facts, line: Line) -> None:
    made = as_new(line.resource)
    if not _is_known(made):
        facts.left_out += 1
        return
    facts.lines += 1
    if made["kind"] == "Node":
        facts.nodes += line.event == "Add"
    if made["kind"] != "Pod" or line.event == "Delete":
        return
    identity, phase = _identity(line.resource), phase_of(line.resource)
    life = facts.lives.get(identity)
    if life is None:
        life = facts.lives[identity] = _Life()
        facts.pods += phase not in _FINISHED
    if phase == "Running" and life.started is None:
        life.started = line.at
    # A pod that is deleted while it runs has a final phase, too.
    is_deleted = line.resource["metadata"].get("deletionTimestamp") is not None
    if phase in _FINISHED and life.finished is None and not is_deleted:
        life.finished = line.at


def _is_of_cluster(line: Line, event: Arrival) -> bool:
    return line.is_initial and event.manifest["kind"] != "Pod"


def _is_known(made: Json) -> bool:
    """True if the kind is known; custom resources are recorded too, and skipped."""
    return find_resource(made["apiVersion"], made["kind"]) is not None


def _identity(resource: Json) -> str:
    """An object's UID; a Delete has none and needs none."""
    metadata = resource["metadata"]
    name = f"{metadata.get('namespace', '')}/{metadata.get('name')}"
    return str(metadata.get("uid") or name)


def _digest(made: Json) -> bytes:
    """A digest to detect changed objects; most updates of nodes are heartbeats."""
    return hashlib.blake2b(msgspec.json.encode(made), digest_size=16).digest()


class _Known(NamedTuple):
    """An object that is there."""

    identity: str
    digest: bytes


class _Walk:
    """The cluster and the events of a recording that has been checked.

    The cluster is the initial snapshot without its pods: these arrive when nodes are ready.
    """

    def __init__(self, file: Path, facts: _Facts, *, place: bool, without: Sequence[str]) -> None:
        self._file = file
        self._facts = facts
        self._place = place
        self._without = without

    def objects(self) -> Iterator[Json]:
        for line, event in self._changes():
            if not line.is_initial:
                return
            if isinstance(event, Arrival) and _is_of_cluster(line, event):
                yield event.manifest

    def events(self) -> Iterator[Event]:
        for line, event in self._changes():
            if not (isinstance(event, Arrival) and _is_of_cluster(line, event)):
                yield event

    def _changes(self) -> Iterator[tuple[Line, Event]]:
        there: dict[tuple[str, str, str], _Known] = {}
        #: Names of PriorityClasses that are there.
        classes: set[str] = set(SYSTEM_CLASSES.values())
        for line in recorded_lines(self._file, BrokenRows(self._file, skip=True)):
            if line.event == "End":
                return
            try:
                made = as_new(line.resource, place=self._place, is_whole=line.is_whole)
            except NotAnObject:
                continue  # counted by the first walk
            if comes_by_itself(made) or is_made_for_pod(line.resource):
                continue
            if not _is_known(made) or made["kind"] in self._without:
                continue
            kind, metadata = made["kind"], made["metadata"]
            key = (kind, metadata.get("namespace", ""), metadata["name"])
            known = there.get(key)
            identity = _identity(line.resource)
            is_gone = line.event == "Delete"
            if known is not None and kind in _REPLACED and known.identity != identity:
                is_gone = True
            if is_gone:
                if known is not None:
                    del there[key]
                    life = self._facts.lives.get(known.identity)
                    has_finished = life is not None and life.finished is not None
                    yield line, Removal(line.at, made["apiVersion"], *key, has_finished)
                known = None
            if line.event == "Delete":
                continue
            changes = changeable(made) if kind == "Pod" else made
            if known is None:
                event = self._arrival(line, made)
                if event is not None:
                    own = (
                        class_of(line.resource["spec"]) if kind == "Pod" and line.is_whole else None
                    )
                    if own is not None and own["metadata"]["name"] not in classes:
                        classes.add(own["metadata"]["name"])
                        yield line, Arrival(line.at, own)
                    there[key] = _Known(identity, _digest(changes))
                    yield line, event
            elif kind not in _NOT_REVISED and known.digest != (digest := _digest(changes)):
                there[key] = _Known(identity, digest)
                yield line, Revision(line.at, changes)

    def _arrival(self, line: Line, made: Json) -> Arrival | None:
        if made["kind"] != "Pod":
            return Arrival(line.at, made)
        if phase_of(line.resource) in _FINISHED:
            return None  # over before we looked: it takes no room
        # A file that is still written may have grown since the first pass.
        life = self._facts.lives.get(_identity(line.resource), _Life())
        if life.finished is None:
            return Arrival(line.at, made)
        run_s = round(life.finished - (line.at if life.started is None else life.started), 3)
        annotations = {**(made["metadata"].get("annotations") or {})}
        annotations[RUN_SECONDS] = seconds_text(run_s)
        made["metadata"]["annotations"] = annotations
        return Arrival(line.at, made, run_s)
