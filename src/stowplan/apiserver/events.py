"""Events in their two groups: stored once, as core/v1, and shown as either.

core/v1 and events.k8s.io/v1 name the same fields differently; kube-apiserver converts on the way
in and out, so an event written through one is seen, with the same version, through the other.
"""

from __future__ import annotations

from stowplan.apiserver.conforming import conform
from stowplan.apiserver.history import Json, Record
from stowplan.apiserver.kinds import EVENTS, EVENTS_V1, Kind

# core/v1 name -> events.k8s.io/v1 name
_RENAMED = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_BACK = {new: old for old, new in _RENAMED.items()}


def view(kind: Kind, record: Record) -> Record:
    """The record as that kind shows it: converted once, then remembered with the record."""
    if kind is not EVENTS_V1:
        return record
    if record.twin is None:
        converted, _ = conform(EVENTS_V1, _convert(record.object, _RENAMED, EVENTS_V1))
        record.twin = Record(converted, record.version)
    return record.twin


def to_core(obj: Json) -> Json:
    converted, _ = conform(EVENTS, _convert(obj, _BACK, EVENTS))
    return converted


def _convert(obj: Json, names: dict[str, str], kind: Kind) -> Json:
    converted: Json = {"kind": kind.kind, "apiVersion": kind.api_version}
    for key, value in obj.items():
        if key not in converted:
            converted[names.get(key, key)] = value
    return converted
