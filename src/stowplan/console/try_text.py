"""Objects in the text of the page Try: YAML or JSON, several documents, lists, and exports.

Errors are one line that begins with the place in the text.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from stowplan.apiserver.kinds import KINDS, Kind
from stowplan.judge.documents import documents, yaml_as_json
from stowplan.judge.lines import decode
from stowplan.judge.refusal import QuestionRefused
from stowplan.judge.snapshots import items_of

Json: TypeAlias = dict[str, Any]

_KINDS: Final = {(kind.api_version, kind.kind): kind for kind in KINDS if kind.stored}


async def read_text(text: str) -> list[tuple[str, Json]]:
    """The objects with their places. In a thread: a megabyte of YAML takes seconds."""
    return await asyncio.to_thread(lambda: list(_objects(text)))


def _objects(text: str) -> Iterator[tuple[str, Json]]:
    """The objects of several documents, of lists and of exports, each with its place."""
    found = False
    for each in documents(text.encode("utf-8", "replace").splitlines(keepends=True)):
        found = True
        place = f"line {each.number}"
        source = yaml_as_json(each.text, each.number) if each.is_yaml else each.text
        try:
            document = decode(source)
            if not isinstance(document, dict):
                raise QuestionRefused("expected an object with apiVersion and kind")
            items = items_of(document)
            if items is None:
                yield place, _checked(document)
            for item in items or ():
                value = item.value
                if isinstance(value, dict):
                    value = {"apiVersion": item.api_version, "kind": item.kind, **value}
                place = f"line {each.number}: {item.place}"
                yield place, _checked(value)
        except QuestionRefused as problem:
            raise problem.at(place) from None
    if not found:
        raise QuestionRefused("there is no object in it")


def _checked(obj: Any) -> Json:
    if not isinstance(obj, dict):
        raise QuestionRefused("expected an object with apiVersion and kind")
    for name in ("apiVersion", "kind"):
        if not isinstance(obj.get(name), str) or not obj[name]:
            raise QuestionRefused(f"{name}: Required value")
    if not isinstance(obj.get("metadata"), dict):
        raise QuestionRefused("metadata: Required value")
    kind_of(obj)
    return obj


def kind_of(obj: Json) -> Kind:
    kind = _KINDS.get((obj["apiVersion"], obj["kind"]))
    if kind is None:
        raise QuestionRefused(
            f'no matches for kind "{obj["kind"]}" in version "{obj["apiVersion"]}"'
        )
    return kind
