"""What the API server would say to an object, by the embedded one's own code."""

from __future__ import annotations

from typing import Any, TypeAlias

from stowplan.apiserver import defaulting, validation
from stowplan.apiserver.conforming import Mismatch, conform
from stowplan.apiserver.kinds import EVENTS, EVENTS_V1, Kind
from stowplan.apiserver.statuses import Failure
from stowplan.judge.refusal import Refused, listed

Json: TypeAlias = dict[str, Any]

#: So many problems of one object are told; whoever has more knows enough.
_MOST = 10


def conformed(kind: Kind, obj: Json) -> Json:
    """The object as Go's structs read it: no nulls, nothing of a wrong type."""
    try:
        return conform(kind, obj)[0]
    except Mismatch as problem:
        raise Refused(f"{problem.path}: {problem}" if problem.path else str(problem)) from None


def as_stored(kind: Kind, obj: Json) -> Json:
    """With the server's defaults."""
    stored = conformed(kind, obj)
    metadata = stored["metadata"]
    if kind.namespaced:
        metadata.setdefault("namespace", "default")
    if kind not in (EVENTS, EVENTS_V1):
        defaulting.on_create(kind, stored, 0.0)
    return stored


def checked(kind: Kind, obj: Json) -> Json:
    """The object with the server's defaults, if the server would take it."""
    stored = as_stored(kind, obj)
    if kind in (EVENTS, EVENTS_V1):
        return stored
    metadata = stored["metadata"]
    nameless = not metadata.get("name") and bool(metadata.get("generateName"))
    if nameless:
        metadata["name"] = metadata["generateName"] + "0"
    try:
        validation.check_create(kind, stored, asked_as=kind)
    except Failure as failure:
        causes = (failure.details or {})["causes"]
        problems = [f"{cause['field']}: {cause['message']}" for cause in causes]
        raise Refused(listed(problems[:_MOST])) from None
    if nameless:
        del metadata["name"]
    return stored
