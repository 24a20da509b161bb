"""Objects of any source, decoded: from the API, from files and from etcd alike.

Besides the object an item has what its managedFields say: when it was last written, since when the
labels, taints and cordon of a node stand unchanged, and whether a pod was created with a nodeName.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import msgspec

from stowplan.api.objects import ObjectMeta, ObjectReference, Pod, Wire
from stowplan.api.resources import (
    CSI_NODES,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    STORAGE_CLASSES,
    Resource,
)
from stowplan.loader.json_text import json_decoder


class Event(Wire, frozen=True):
    """An event of either API; `regarding` is the newer one's name of `involved_object`."""

    metadata: ObjectMeta = ObjectMeta()
    reason: str = ""
    involved_object: ObjectReference = ObjectReference()
    regarding: ObjectReference = ObjectReference()

    @property
    def uid(self) -> str:
        return self.involved_object.uid or self.regarding.uid


EVENTS: Final = Resource("", "v1", "events", "Event", True, Event)

#: Everything that an audit reads, by kind.
AUDITED: Final[Mapping[str, Resource[Any]]] = {
    each.kind: each
    for each in (
        NODES,
        PODS,
        NAMESPACES,
        PERSISTENT_VOLUME_CLAIMS,
        PERSISTENT_VOLUMES,
        STORAGE_CLASSES,
        CSI_NODES,
        RESOURCE_CLAIMS,
        RESOURCE_SLICES,
        EVENTS,
    )
}

#: Fields of a node, as managedFields name them, whose time of writing matters.
_NODE_FIELDS: Final = ("f:labels", "f:taints", "f:unschedulable")


@dataclass(frozen=True)
class Item:
    """One object, or its removal (`object` is None)."""

    kind: str
    namespace: str
    name: str
    object: Any
    #: Of the API server's clock, in seconds; 0 if unknown.
    written_at: float = 0.0
    #: Of a pod: created with a nodeName, so that no scheduler chose it.
    is_direct: bool = False
    #: Of a node: when the managers of a field wrote last.
    field_times: Mapping[str, float] = field(default_factory=dict)


class _ManagedField(Wire, frozen=True):
    time: str | None = None
    fields_v1: msgspec.Raw = msgspec.field(default=msgspec.Raw(), name="fieldsV1")


class _Meta(Wire, frozen=True):
    managed_fields: tuple[_ManagedField, ...] | None = None


class _Written(Wire, frozen=True):
    metadata: _Meta = _Meta()


_decode_written = json_decoder(_Written)
_decoders: Final = {kind: json_decoder(each.type) for kind, each in AUDITED.items()}


def decode_item(kind: str, raw: bytes | msgspec.Raw) -> Item:
    """Decode the JSON of an object; ValueError if it is not of its kind."""
    return make_item(kind, _decoders[kind](raw), raw)


def make_item(kind: str, decoded: Any, raw: bytes | msgspec.Raw) -> Item:
    meta: ObjectMeta = decoded.metadata
    times = [seconds(meta.creation_timestamp)]
    is_direct = False
    field_times: dict[str, float] = {}
    if kind in ("Pod", "Node", "ResourceClaim"):
        for each in _managed_fields(raw):
            times.append(seconds(each.time))
            fields = bytes(each.fields_v1)
            if kind == "Pod":
                is_direct = is_direct or b'"f:nodeName"' in fields
            if kind != "Node":
                continue
            for name in _NODE_FIELDS:
                if f'"{name}"'.encode() in fields:
                    field_times[name] = max(field_times.get(name, 0.0), times[-1])
    if isinstance(decoded, Pod):
        times.append(bound_at(decoded))
    return Item(kind, meta.namespace, meta.name, decoded, max(times), is_direct, field_times)


def _managed_fields(raw: bytes | msgspec.Raw) -> tuple[_ManagedField, ...]:
    """What is known of the writers of an object; nothing if it is junk."""
    try:
        return _decode_written(raw).metadata.managed_fields or ()
    except msgspec.MsgspecError:
        return ()


def bound_at(pod: Pod) -> float:
    """When the API server bound the pod, to the second; 0 if unknown."""
    for each in pod.status.conditions or ():
        if each.type == "PodScheduled" and each.status == "True":
            return seconds(each.last_transition_time)
    return 0.0


def seconds(text: str | None) -> float:
    """RFC 3339 as seconds since 1970; 0 if there is none, or junk."""
    if not text:
        return 0.0
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        return 0.0
