"""Encode the scheduler's questions to extenders and decode their results, as Go does.

`scheduler.extender_client` sends and receives the bodies. Encoded fields have Go's names; decoded
names match in any case, and a field that is missing or null is empty. The other direction, which
has to name the fault in a body or an algorithm, is `extender.reading` and `extender.writing`.
ValueError: a result is not what it should be.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from stowplan.api.extender_protocol import (
    ExtenderBindingResult,
    ExtenderFilterResult,
    ExtenderPreemptionResult,
    HostPriority,
    MetaPod,
    MetaVictims,
)
from stowplan.api.objects import Int64
from stowplan.loader.json_text import json_decoder, load_json

_encode = msgspec.json.Encoder().encode
_decode_fields = json_decoder(dict[str, msgspec.Raw] | None)
_decode_list = json_decoder(list[dict[str, msgspec.Raw] | None] | None)


# Arguments


def encode_args(
    pod: msgspec.Raw, *, names: Sequence[str] | None, nodes: Iterable[msgspec.Raw]
) -> bytes:
    """ExtenderArgs with names if they are given, else with whole nodes."""
    if names is not None:
        return _encode({"Pod": pod, "Nodes": None, "NodeNames": names})
    whole = {"metadata": {}, "items": list(nodes)}
    return _encode({"Pod": pod, "Nodes": whole, "NodeNames": None})


def encode_meta_victims(
    pod: msgspec.Raw, victims: Mapping[str, tuple[Sequence[str], int]]
) -> bytes:
    """ExtenderPreemptionArgs with the UIDs of victims and the violations of budgets, by node."""
    by_node = {
        node: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": violations}
        for node, (uids, violations) in victims.items()
    }
    return _encode({"Pod": pod, "NodeNameToVictims": None, "NodeNameToMetaVictims": by_node})


def encode_victims(
    pod: msgspec.Raw, victims: Mapping[str, tuple[Sequence[msgspec.Raw], int]]
) -> bytes:
    """ExtenderPreemptionArgs with whole pods."""
    by_node = {
        node: {"Pods": pods, "NumPDBViolations": violations}
        for node, (pods, violations) in victims.items()
    }
    return _encode({"Pod": pod, "NodeNameToVictims": by_node, "NodeNameToMetaVictims": None})


def encode_binding(name: str, namespace: str, uid: str, node: str) -> bytes:
    """ExtenderBindingArgs."""
    return _encode({"PodName": name, "PodNamespace": namespace, "PodUID": uid, "Node": node})


# Results


def decode_filter_result(body: bytes, *, names_were_sent: bool) -> ExtenderFilterResult:
    """With an error, nothing else is decoded. Of whole nodes only the names are."""
    fields = _fields(body)
    error: str = _read(fields, "error", str, "")
    if error:
        return ExtenderFilterResult(Error=error)
    names: list[str] | None = None
    if names_were_sent:
        names = _read(fields, "nodenames", list[str], None)
    if names is None:
        listed: _Items = _read(fields, "nodes", _Items, _Items())
        names = [item.metadata.name for item in listed.items or ()]
    return ExtenderFilterResult(
        NodeNames=names,
        FailedNodes=_read(fields, "failednodes", dict[str, str], {}),
        FailedAndUnresolvableNodes=_read(fields, "failedandunresolvablenodes", dict[str, str], {}),
    )


class _Priority(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    Host: str
    Score: Int64


_decode_exact_priorities = json_decoder(list[_Priority])


def decode_priorities(body: bytes) -> list[HostPriority]:
    """HostPriorityList."""
    try:
        exact = _decode_exact_priorities(body)
    except msgspec.ValidationError:
        return [
            HostPriority(_read(entry, "host", str, ""), _read(entry, "score", Int64, 0))
            for entry in _entries(body)
        ]
    return [HostPriority(each.Host, each.Score) for each in exact]


def decode_preemption_result(body: bytes) -> ExtenderPreemptionResult:
    victims: dict[str, MetaVictims] = {}
    by_node = _decode_fields(_fields(body).get("nodenametometavictims", b"null")) or {}
    for node, encoded in by_node.items():
        fields = _fields(encoded)
        pods = _entries(fields.get("pods", b"null"))
        victims[node] = MetaVictims(
            [MetaPod(_read(pod, "uid", str, "")) for pod in pods],
            _read(fields, "numpdbviolations", Int64, 0),
        )
    return ExtenderPreemptionResult(victims)


def decode_binding_result(body: bytes) -> ExtenderBindingResult:
    return ExtenderBindingResult(_read(_fields(body), "error", str, ""))


def by_lower_name(fields: Mapping[str, msgspec.Raw]) -> dict[str, msgspec.Raw]:
    """Fields by their names in lower case, without those that are null; Go ignores case, too."""
    return {name.lower(): raw for name, raw in fields.items() if not is_null(raw)}


def is_null(encoded: msgspec.Raw) -> bool:
    return bytes(memoryview(encoded)[:5]) == b"null"


def _fields(encoded: bytes | msgspec.Raw) -> dict[str, msgspec.Raw]:
    return by_lower_name(_decode_fields(encoded) or {})


def _entries(encoded: bytes | msgspec.Raw) -> list[dict[str, msgspec.Raw]]:
    return [by_lower_name(entry or {}) for entry in _decode_list(encoded) or ()]


def _read(fields: Mapping[str, msgspec.Raw], name: str, kind: Any, default: Any) -> Any:
    raw = fields.get(name)
    return default if raw is None else load_json(bytes(raw), kind)


class _Metadata(msgspec.Struct):
    name: str = ""


class _Item(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class _Items(msgspec.Struct):
    items: list[_Item] | None = None
