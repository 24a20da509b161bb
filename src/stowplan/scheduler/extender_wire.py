"""Bodies to and from extenders: kube-scheduler's extender/v1, as Go writes and reads it.

Pure; `extender_client` sends and receives. Go's names go out and names in any case come in; what an
answer leaves out, or says is null, is empty. ValueError: an answer is not what it should be.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, TypeVar

import msgspec

from stowplan.scheduler.extender_requests import FilterAnswer, PreemptAnswer

T = TypeVar("T")

_MAX_NODE_SCORE = 100
_MAX_EXTENDER_SCORE = 10

_Int64 = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
_encode = msgspec.json.Encoder().encode
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw] | None)
_list = msgspec.json.Decoder(list[dict[str, msgspec.Raw] | None] | None)


# Out


def about_nodes(
    pod: msgspec.Raw, *, names: Sequence[str] | None, nodes: Iterable[msgspec.Raw]
) -> bytes:
    """ExtenderArgs: with names if there are any, else with whole nodes."""
    if names is not None:
        return _encode({"Pod": pod, "Nodes": None, "NodeNames": names})
    whole = {"metadata": {}, "items": list(nodes)}
    return _encode({"Pod": pod, "Nodes": whole, "NodeNames": None})


def about_victims(pod: msgspec.Raw, victims: Mapping[str, tuple[Sequence[str], int]]) -> bytes:
    """ExtenderPreemptionArgs with the UIDs of who would have to go."""
    by_node = {
        node: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": violations}
        for node, (uids, violations) in victims.items()
    }
    return _encode({"Pod": pod, "NodeNameToVictims": None, "NodeNameToMetaVictims": by_node})


def about_whole_victims(
    pod: msgspec.Raw, victims: Mapping[str, tuple[Sequence[msgspec.Raw], int]]
) -> bytes:
    """The same with the pods themselves."""
    by_node = {
        node: {"Pods": pods, "NumPDBViolations": violations}
        for node, (pods, violations) in victims.items()
    }
    return _encode({"Pod": pod, "NodeNameToVictims": by_node, "NodeNameToMetaVictims": None})


def about_binding(name: str, namespace: str, uid: str, node: str) -> bytes:
    """ExtenderBindingArgs."""
    return _encode({"PodName": name, "PodNamespace": namespace, "PodUID": uid, "Node": node})


# In


def read_filter_answer(body: bytes, *, names_count: bool) -> FilterAnswer | str:
    """ExtenderFilterResult; a text is the error that it tells. `names_count`: names were sent."""
    fields = _lowered(body)
    error: str | None = _read(fields, "error", str | None)
    if error:
        return error
    names = _read(fields, "nodenames", list[str] | None) if names_count else None
    if names is None:
        names = _names(fields.get("nodes"))
    return FilterAnswer(
        names,
        _texts(fields, "failednodes"),
        _texts(fields, "failedandunresolvablenodes"),
    )


def read_scores(body: bytes, weight: int) -> dict[str, int]:
    """HostPriorityList as what is to be added to node scores."""
    scores: dict[str, int] = {}
    for entry in _list.decode(body) or ():
        fields = {name.lower(): raw for name, raw in (entry or {}).items()}
        host = _read(fields, "host", str | None) or ""
        score = _read(fields, "score", _Int64 | None) or 0
        scores[host] = scores.get(host, 0) + score * weight * (
            _MAX_NODE_SCORE // _MAX_EXTENDER_SCORE
        )
    return scores


def read_victims(body: bytes) -> PreemptAnswer:
    """ExtenderPreemptionResult."""
    by_node = _lowered(_lowered(body).get("nodenametometavictims", b"null"), keep_case=True)
    victims: dict[str, tuple[Sequence[str], int]] = {}
    for node, raw in by_node.items():
        fields = _lowered(raw)
        pods = _list.decode(fields.get("pods", b"null")) or ()
        uids = [
            _read({name.lower(): value for name, value in (pod or {}).items()}, "uid", str | None)
            or ""
            for pod in pods
        ]
        victims[node] = uids, _read(fields, "numpdbviolations", _Int64 | None) or 0
    return PreemptAnswer(victims)


def read_binding_error(body: bytes) -> str:
    """ExtenderBindingResult's error; empty if the pod is bound."""
    return _read(_lowered(body), "error", str | None) or ""


def _lowered(body: bytes | msgspec.Raw, *, keep_case: bool = False) -> dict[str, msgspec.Raw]:
    """Fields by their names, in lower case: Go minds no case either."""
    fields = _fields.decode(body) or {}
    return fields if keep_case else {name.lower(): raw for name, raw in fields.items()}


def _read(fields: Mapping[str, msgspec.Raw], name: str, kind: Any) -> Any:
    raw = fields.get(name)
    return None if raw is None else msgspec.json.decode(raw, type=kind)


def _texts(fields: Mapping[str, msgspec.Raw], name: str) -> dict[str, str]:
    texts: dict[str, str] | None = _read(fields, name, dict[str, str] | None)
    return texts or {}


class _Metadata(msgspec.Struct):
    name: str = ""


class _Item(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class _Items(msgspec.Struct):
    items: list[_Item] | None = None


def _names(nodes: msgspec.Raw | None) -> list[str]:
    """Of whole nodes only their names are of interest: we know the rest."""
    listed = None if nodes is None else msgspec.json.decode(nodes, type=_Items | None)
    return [item.metadata.name for item in (listed.items if listed is not None else None) or ()]
