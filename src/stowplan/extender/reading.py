"""Decode the bodies of requests to the extender; whatever is wrong with one is a `BadBody`.

Called by `service`. A body with 5,000 whole nodes is tens of megabytes, most of which no algorithm
reads: nodes and pod stay bytes until they are accessed. Go matches the keys of JSON in any case;
that costs time only if the exact names are not found. Invariant: no body, however odd, raises
anything but `BadBody`, here or later when an algorithm accesses it.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable
from typing import Any, Final, TypeAlias, TypeVar

import msgspec
from msgspec import Raw

from stowplan.api.extender_codec import by_lower_name, is_null
from stowplan.api.extender_protocol import (
    ExtenderArgs,
    ExtenderBindingArgs,
    ExtenderPreemptionArgs,
    MetaPod,
    MetaVictims,
    Object,
    Victims,
)
from stowplan.extender.known_names import Body, Known, KnownNames
from stowplan.loader.json_text import json_decoder

T = TypeVar("T")
_utf_8: Final = codecs.getincrementaldecoder("utf-8")
_PIECE: Final = 1 << 20
_known: Final = KnownNames()
_Encoded: TypeAlias = Body | Raw


class BadBody(ValueError):
    """The request's body is not what it should be; the text says where."""


class _Metadata(msgspec.Struct):
    name: str | None = None
    namespace: str | None = None


class _Head(msgspec.Struct):
    """Of a pod or node only what tells which one it is."""

    metadata: _Metadata | None = None


class _NodeHeads(msgspec.Struct):
    items: list[_Head] | None


class _ExactArgs(msgspec.Struct):
    """Of whole nodes only the names: prioritize needs no more, and they are most of the bytes."""

    Pod: Raw
    Nodes: _NodeHeads | None = None
    NodeNames: list[str] | None = None


class _OnlyPod(msgspec.Struct, forbid_unknown_fields=True):
    Pod: Raw


class _Pieces(msgspec.Struct):
    items: list[Raw] | None


class _ExactNodes(msgspec.Struct):
    Nodes: _Pieces


_decode_exact: Final = json_decoder(_ExactArgs)
_decode_only_pod: Final = json_decoder(_OnlyPod)
_decode_nodes: Final = json_decoder(_ExactNodes)
_decode_fields: Final = json_decoder(dict[str, Raw])
_decode_head: Final = json_decoder(_Head)
_decode_object: Final = json_decoder(dict[str, Any])
_decode_text: Final = json_decoder(str)
_decode_texts: Final = json_decoder(list[str])
_decode_number: Final = json_decoder(int)
_decode_pieces: Final = json_decoder(list[Raw])


class ReceivedArgs(ExtenderArgs):
    """ExtenderArgs whose parts are decoded when they are first looked at."""

    #: The names that were asked about, whatever an algorithm does to `NodeNames`.
    asked: tuple[str, ...]
    #: The bytes of each node; none where only names were sent.
    raw_nodes: list[Raw]

    def __init__(
        self,
        pod: Raw,
        *,
        names: list[str] | None,
        heads: list[_Head] | None,
        split: Callable[[], list[Raw]],
        encoded_names: memoryview | None = None,
    ) -> None:
        """`heads` of the nodes (None where none were sent), and what gives their bytes.

        `encoded_names` is `names` as JSON, if that is known.
        """
        # No call of the dataclass's own __init__: an attribute that is not there is asked of
        # __getattr__, once.
        self._pod = pod
        self._heads = heads
        self._split = split
        self.has_nodes = heads is not None
        self.sent_names = names
        self.encoded_names = encoded_names
        head = _decode("Pod", _decode_head, pod).metadata or _Metadata()
        self.pod_name: str = head.name or ""
        self.pod_namespace: str = head.namespace or ""

    def __getattr__(self, name: str) -> Any:
        value: Any
        if name == "Pod":
            value = _decode("Pod", _decode_object, self._pod)
        elif name == "NodeNames":
            value = self.sent_names
            if value is None:
                value = [_name(head, place) for place, head in enumerate(self._heads or ())]
            self.asked = tuple(value)
        elif name == "Nodes":
            value = None
            if self.has_nodes:
                value = [_whole(raw, place) for place, raw in enumerate(self.raw_nodes)]
        elif name == "raw_nodes":
            value = self._split() if self.has_nodes else []
        elif name == "asked":
            # Reading NodeNames sets `asked`, unless an algorithm has replaced NodeNames before.
            return self.__dict__.setdefault("asked", tuple(self.NodeNames))
        else:
            raise AttributeError(name)
        setattr(self, name, value)
        return value


def _name(head: _Head, place: int) -> str:
    if head.metadata is None or not head.metadata.name:
        raise BadBody(f"Nodes.items[{place}].metadata.name is missing")
    return head.metadata.name


def _whole(raw: Raw, place: int) -> Object:
    return _decode(f"Nodes.items[{place}]", _decode_object, raw)


def read_args(body: Body) -> ReceivedArgs:
    """The body of filter and prioritize."""
    known = _known.find(body)
    if known is not None:
        again = _read_args_again(body, known)
        if again is not None:
            return again
    _check_text(body)
    try:
        exact = _decode_exact(body)
    except (msgspec.MsgspecError, RecursionError):
        return _read_args_in_any_case(body)
    names, nodes = exact.NodeNames, exact.Nodes
    if names is None and nodes is None:
        return _read_args_in_any_case(body)
    if nodes is None and names is not None:
        known = _known.remember(body, memoryview(exact.Pod), names)
        encoded = None if known is None else known.encoded
        return ReceivedArgs(exact.Pod, names=names, heads=None, split=list, encoded_names=encoded)
    heads = None if nodes is None else nodes.items or []
    return ReceivedArgs(exact.Pod, names=names, heads=heads, split=lambda: _split(body))


def _read_args_again(body: Body, known: Known) -> ReceivedArgs | None:
    """With names that are known; None if it is not that simple."""
    rest = body[: -len(known.tail)] + b"}"
    _check_text(rest)
    try:
        pod = _decode_only_pod(rest).Pod
    except (msgspec.MsgspecError, RecursionError):
        return None
    return ReceivedArgs(
        pod, names=list(known.names), heads=None, split=list, encoded_names=known.encoded
    )


def _split(body: Body) -> list[Raw]:
    """The nodes of a body that was read before."""
    return _decode("", _decode_nodes, body).Nodes.items or []


def _read_args_in_any_case(body: Body) -> ReceivedArgs:
    fields = _fields("", body)
    if "pod" not in fields:
        raise BadBody("Pod is missing")
    names: list[str] | None = None
    heads: list[_Head] | None = None
    raw_nodes: list[Raw] = []
    if "nodenames" in fields:
        names = _decode("NodeNames", _decode_texts, fields["nodenames"])
    if "nodes" in fields:
        raw_nodes = _read_nodes(fields["nodes"])
        heads = [
            _decode(f"Nodes.items[{place}]", _decode_head, raw)
            for place, raw in enumerate(raw_nodes)
        ]
    if names is None and heads is None:
        raise BadBody("Nodes and NodeNames are both missing")
    return ReceivedArgs(fields["pod"], names=names, heads=heads, split=lambda: raw_nodes)


def _read_nodes(encoded: Raw) -> list[Raw]:
    """A NodeList; or only its items, as the WCA scheduler's documents have it."""
    if bytes(memoryview(encoded)[:1]) == b"[":
        return _decode("Nodes", _decode_pieces, encoded)
    items = _fields("Nodes", encoded).get("items")
    return [] if items is None else _decode("Nodes.items", _decode_pieces, items)


def read_preemption_args(body: Body) -> ExtenderPreemptionArgs:
    """The body of preempt."""
    _check_text(body)
    fields = _fields("", body)
    if "pod" not in fields:
        raise BadBody("Pod is missing")
    pod = _decode("Pod", _decode_object, fields["pod"])
    whole: dict[str, Victims] | None = None
    by_uid: dict[str, MetaVictims] = {}
    if "nodenametovictims" in fields:
        whole = _read_victims("NodeNameToVictims", fields["nodenametovictims"], _read_whole)
        by_uid = {node: _by_uid(node, victims) for node, victims in whole.items()}
    if "nodenametometavictims" in fields:
        name = "NodeNameToMetaVictims"
        by_uid = _read_victims(name, fields["nodenametometavictims"], _read_meta)
    elif whole is None:
        raise BadBody("NodeNameToVictims and NodeNameToMetaVictims are both missing")
    return ExtenderPreemptionArgs(pod, whole, by_uid)


def _read_victims(
    name: str, encoded: Raw, read: Callable[[str, list[Raw], int], T]
) -> dict[str, T]:
    found = {}
    for node, victims in _decode(name, _decode_fields, encoded).items():
        where = f"{name}[{node!r}]"
        fields = {} if is_null(victims) else _fields(where, victims)
        pods = _decode(f"{where}.Pods", _decode_pieces, fields.get("pods", Raw(b"[]")))
        count = fields.get("numpdbviolations", Raw(b"0"))
        found[node] = read(where, pods, _decode(where, _decode_number, count))
    return found


def _read_whole(where: str, pods: list[Raw], violations: int) -> Victims:
    return Victims([_decode(f"{where}.Pods", _decode_object, pod) for pod in pods], violations)


def _read_meta(where: str, pods: list[Raw], violations: int) -> MetaVictims:
    uids = [_text(f"{where}.Pods", _fields(f"{where}.Pods", pod), "UID") for pod in pods]
    return MetaVictims([MetaPod(uid) for uid in uids], violations)


def _by_uid(node: str, victims: Victims) -> MetaVictims:
    pods = []
    for pod in victims.Pods:
        metadata = pod.get("metadata")
        uid = metadata.get("uid") if isinstance(metadata, dict) else None
        if not isinstance(uid, str):
            raise BadBody(f"NodeNameToVictims[{node!r}].Pods: a pod without metadata.uid")
        pods.append(MetaPod(uid))
    return MetaVictims(pods, victims.NumPDBViolations)


def read_binding_args(body: Body) -> ExtenderBindingArgs:
    """The body of bind."""
    _check_text(body)
    fields = _fields("", body)
    names = ("PodName", "PodNamespace", "PodUID", "Node")
    return ExtenderBindingArgs(*(_text("", fields, name) for name in names))


def _check_text(body: Body) -> None:
    """What is sent back unread must be text all the same."""
    if body.isascii():
        return
    decoder = _utf_8()
    try:
        with memoryview(body) as whole:
            for start in range(0, len(whole), _PIECE):
                decoder.decode(whole[start : start + _PIECE])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise BadBody(f"it is not UTF-8: {error.reason}") from None


def _text(where: str, fields: dict[str, Raw], name: str) -> str:
    path = f"{where}.{name}" if where else name
    if name.lower() not in fields:
        raise BadBody(f"{path} is missing")
    return _decode(path, _decode_text, fields[name.lower()])


def _fields(where: str, encoded: _Encoded) -> dict[str, Raw]:
    """The fields of an object by their names in lower case; those that are null are not there."""
    return by_lower_name(_decode(where, _decode_fields, encoded))


def _decode(where: str, decode: Callable[[Any], T], encoded: _Encoded) -> T:
    try:
        return decode(encoded)
    except RecursionError:
        raise BadBody(_at(where, "nested too deeply")) from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadBody(_at(where, str(error))) from None


def _at(where: str, problem: str) -> str:
    return f"{where}: {problem}" if where else problem
