"""The objects of a cluster: read through the API, or from a file.

A file is what kubectl wrote, or an export of kube-scheduler-simulator.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import msgspec

from stowplan.api.client import ApiClient
from stowplan.api.resources import NODES, PODS, Resource
from stowplan.audit.items import AUDITED, EVENTS, Item, decode_item, make_item
from stowplan.errors import ConfigError, Forbidden, NotFound
from stowplan.loader.json_text import json_decoder
from stowplan.loader.malformed import LARGE, Malformed
from stowplan.loader.simulator_export import exported_items, is_export
from stowplan.loader.yaml_text import How, load_yaml_all

_PAGE: Final = 1000
_FIX_RIGHTS: Final = (
    "Fix: get the right to list nodes, and pods of all namespaces, or audit a file "
    "that `kubectl get nodes,pods,... -A -o yaml` wrote with it: --filename FILE"
)
_FIX: Final = "Fix: give it what `kubectl get nodes,pods,... -A -o yaml` prints"


class Objects(NamedTuple):
    """What an audit reads."""

    items: list[Item]
    #: Kinds that could not be read, or that a file does not hold.
    unread: set[str]
    notes: list[str]


async def read_cluster(client: ApiClient, progress: Callable[[str], None]) -> Objects:
    """The objects of a live cluster, with notes on kinds that may not be read."""
    items: list[Item] = []
    unread: set[str] = set()
    notes: list[str] = []

    async def read(resource: Resource[Any]) -> None:
        def take(decoded: Any, raw: msgspec.Raw) -> None:
            items.append(make_item(resource.kind, decoded, raw))
            if len(items) % _PAGE == 0:
                progress(f"{len(items)} objects read")

        chosen = "reason=Scheduled" if resource is EVENTS else ""
        try:
            found = await client.list_all(
                resource, page_size=_PAGE, field_selector=chosen, on_raw=take
            )
        except (Forbidden, NotFound) as problem:
            if resource in (NODES, PODS):
                raise type(problem)(
                    f"{problem}. {_FIX_RIGHTS}", status=problem.status, reason=problem.reason
                ) from None
            unread.add(resource.kind)
            notes.append(f"{resource.plural} not read: {problem}")
            return
        if found.undecodable:
            notes.append(f"{len(found.undecodable)} unreadable {resource.plural} passed over")

    await asyncio.gather(*(read(each) for each in AUDITED.values()))
    return Objects(items, unread, notes)


def read_objects(path: str, text: bytes) -> Objects:
    """The objects of JSON or YAML documents, lists included; others are passed over."""
    items: list[Item] = []
    for document in _documents(path, text):
        try:
            for kind, raw in _flat(document):
                if kind in AUDITED:
                    items.append(decode_item(kind, raw))
        except (ValueError, RecursionError) as problem:
            raise ConfigError(f"{problem}. {_FIX}", where=path) from None
    if not items:
        raise ConfigError(f"holds no nodes and pods. {_FIX}", where=path)
    return Objects(items, AUDITED.keys() - {each.kind for each in items}, [])


class _Kind(msgspec.Struct, frozen=True):
    kind: str = ""
    items: list[msgspec.Raw] | None = None


_decode_kind = json_decoder(_Kind)
_decode_document = json_decoder(dict[str, Any])


def _documents(path: str, text: bytes) -> Iterator[bytes]:
    if text.lstrip()[:1] == b"{":
        try:
            _decode_kind(text)
        except (ValueError, RecursionError):
            pass  # several documents, or YAML that begins with a brace
        else:
            yield text
            return
    try:
        for document in load_yaml_all(text, How(LARGE)):
            yield msgspec.json.encode(document)
    except Malformed as problem:
        raise ConfigError(f"is neither YAML nor JSON: {problem}", where=path) from None


def _flat(raw: bytes | msgspec.Raw, assumed: str = "") -> Iterator[tuple[str, bytes | msgspec.Raw]]:
    """Objects with their kinds; `assumed` is the kind of an object that does not name one."""
    found = _decode_kind(raw)
    kind = found.kind or assumed
    if kind.endswith("List") and found.items is not None:
        for each in found.items:
            yield from _flat(each, kind.removesuffix("List"))
    elif not kind and is_export(document := _decode_document(raw)):
        for item in exported_items(document):
            yield from _flat(msgspec.json.encode(item.value), item.kind)
    else:
        yield kind, raw
