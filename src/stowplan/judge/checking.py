"""What the API server would say to an object, by the embedded one's own code."""

from __future__ import annotations

from typing import Any, TypeAlias

from stowplan.apiserver import defaulting, validation
from stowplan.apiserver.conforming import Mismatch, conform
from stowplan.apiserver.kinds import EVENTS, Kind
from stowplan.apiserver.statuses import Failure
from stowplan.judge.refusal import Refused, listed

Json: TypeAlias = dict[str, Any]

#: So many problems of one object are told; whoever has more knows enough.
_MOST = 10
#: Where the API server names a field that does not exist, and the one that it means.
_SLIPS = (
    ("metadata.taints", "spec.taints"),
    (".overhead.limits", ".overhead"),
    (".persistentDisk.", ".gcePersistentDisk."),
)


def conformed(kind: Kind, obj: Json) -> tuple[Json, list[str]]:
    """The object as Go's structs read it (no nulls, nothing of a wrong type), and the paths of
    fields that do not exist, which the server drops with a warning.
    """
    try:
        return conform(kind, obj)
    except Mismatch as problem:
        raise Refused(f"{problem.path}: {problem}" if problem.path else str(problem)) from None


def complete(kind: Kind, obj: Json) -> None:
    """Fill in what the server fills in by itself, into an object that conforms.

    An object that has a UID has been through that already: some of it, such as merging
    `matchLabelKeys` into selectors, is done only once.
    """
    if kind.namespaced:
        obj["metadata"].setdefault("namespace", "default")
    if obj["metadata"].get("uid"):
        defaulting.on_update(kind, obj)
    elif kind.kind != EVENTS.kind:
        defaulting.on_create(kind, obj, 0.0)


def check(kind: Kind, obj: Json) -> None:
    """Refuse a completed object that the server would refuse."""
    if kind.kind == EVENTS.kind:
        return
    metadata = obj["metadata"]
    nameless = not metadata.get("name") and bool(metadata.get("generateName"))
    if nameless:
        metadata["name"] = metadata["generateName"] + "0"
    try:
        validation.check_create(kind, obj, asked_as=kind)
    except Failure as failure:
        causes = (failure.details or {})["causes"]
        problems = [f"{_real_path(cause['field'])}: {cause['message']}" for cause in causes]
        raise Refused(listed(problems[:_MOST])) from None
    if nameless:
        del metadata["name"]


def _real_path(field: str) -> str:
    for slip, meant in _SLIPS:
        field = field.replace(slip, meant)
    return field
