"""Validate objects with the embedded API server's own code, in two degrees.

- An impossible value (an invalid quantity, an unknown operator, an invalid label) makes an object
  malformed, because its meaning is undefined.
- A missing field that no plugin reads, a duplicate or a contradiction (a Service without ports, two
  equal taints, a pod-level request below the containers' sum) leaves the meaning clear. It is a
  complaint, and an error only where the caller is strict.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from stowplan.apiserver import defaulting, validation
from stowplan.apiserver.conforming import Mismatch, conform
from stowplan.apiserver.kinds import EVENTS, Kind
from stowplan.apiserver.statuses import Failure
from stowplan.judge.refusal import QuestionRefused, listed

Json: TypeAlias = dict[str, Any]

#: How many problems of one object are reported.
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
        raise QuestionRefused(
            f"{problem.path}: {problem}" if problem.path else str(problem)
        ) from None


def complete(kind: Kind, obj: Json) -> None:
    """Fill in what the server fills in by itself, into an object that conforms.

    An object that has a UID has been through that already: some of it, such as merging
    `matchLabelKeys` into selectors, is done only once.
    """
    if kind.namespaced:
        obj["metadata"].setdefault("namespace", "default")
    if obj["metadata"].get("uid"):
        defaulting.on_update(kind, obj, 0.0)
    elif kind.kind != EVENTS.kind:
        defaulting.on_create(kind, obj, 0.0)


#: Required fields that no plugin reads.
_NEVER_READ = (
    "csi",
    "image",
    "nodeAffinity",
    "nodeID",
    "ports",
    "resources[storage]",
    "serviceName",
    "template",
    "volumeAttributesClassName",
    "volumeClaimTemplate",
    "volumeHandle",
)
#: What objects are to be made of, which no plugin reads either.
_TEMPLATES = ("spec.template.", "volumeClaimTemplate.")
#: The API server's texts for amounts that contradict others.
_DISAGREEING = (
    "must be an integer",
    "must be equal to",
    "must be greater than or equal to aggregate",
    "must be greater than zero",
    "must be less than or equal to",
)


def check(kind: Kind, obj: Json, *, strict: bool = False) -> list[str]:
    """Refuse a completed object that is malformed; what else the server would refuse it for is
    returned, or refused as well if `strict`.
    """
    if kind.kind == EVENTS.kind:
        return []
    metadata = obj["metadata"]
    nameless = not metadata.get("name") and bool(metadata.get("generateName"))
    if nameless:
        metadata["name"] = metadata["generateName"] + "0"
    try:
        validation.check_create(kind, obj, asked_as=kind)
    except Failure as failure:
        causes = (failure.details or {})["causes"]
        refused = [_told(cause) for cause in causes if strict or not _is_complaint(cause)]
        if refused:
            raise QuestionRefused(listed(refused[:_MOST])) from None
        return [_told(cause) for cause in causes]
    finally:
        if nameless:
            del metadata["name"]
    return []


def _told(cause: Json) -> str:
    return f"{_real_path(cause['field'])}: {cause['message']}"


def _is_complaint(cause: Json) -> bool:
    """Whether the object's meaning is clear all the same."""
    field, message = cause["field"], cause["message"]
    if any(part in field for part in _TEMPLATES):
        return True
    match cause["reason"]:
        case "FieldValueForbidden":
            return True
        case "FieldValueDuplicate":
            return not field.endswith(".name")
        case "FieldValueRequired":
            # A volume without a source, a term of a label that is only now and then required.
            return field.endswith(_NEVER_READ) or field == "spec" or "must be set for" in message
        case "FieldValueInvalid":
            return any(words in message for words in _DISAGREEING)
    return False


def _real_path(field: str) -> str:
    for slip, meant in _SLIPS:
        field = field.replace(slip, meant)
    return field
