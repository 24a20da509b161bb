"""Paths into a configuration: `profiles[0].plugins.score.enabled[ImageLocality].weight`.

`[0]` selects an entry of a list by number, `[ImageLocality]` by name. Missing mappings and missing
named entries are created.
"""

from __future__ import annotations

import re
from copy import deepcopy
from typing import Any, Final

_PART: Final = re.compile(r"(?:^|\.)([A-Za-z][A-Za-z0-9]*)|\[([^\[\]]+)\]")
#: The field that names entries of a list, where it is not `name`.
_NAME_FIELDS: Final = {"profiles": "schedulerName"}


def parts_of(place: str) -> list[str | int]:
    """The parts of a path: fields, and list entries as a number or `=NAME`. Raises ValueError."""
    parts: list[str | int] = []
    at = 0
    for match in _PART.finditer(place):
        if match.start() != at:
            break
        at = match.end()
        name, entry = match.groups()
        parts.append(name or (int(entry) if entry.isdigit() else f"={entry}"))
    if at != len(place) or not place[:1].isalpha():
        raise ValueError(
            f"`{place}` is no path such as profiles[0].plugins.score.enabled[ImageLocality].weight"
        )
    return parts


def with_value(tree: dict[str, Any], place: str, value: Any) -> dict[str, Any]:
    """A copy of the tree with the value at a path. Raises ValueError if the path does not fit."""
    copied = deepcopy(tree)
    parts = parts_of(place)
    holder: Any = copied
    for number, part in enumerate(parts[:-1]):
        key = _key(holder, parts, number, place)
        empty: Any = {} if _is_field(parts[number + 1]) else []
        if isinstance(holder, dict):
            holder = holder.setdefault(key, empty)
        else:
            holder = holder[key]
        if type(holder) is not type(empty):
            what = "a mapping" if empty == {} else "a list"
            raise ValueError(f"`{place}`: what stands at {part} is not {what}")
    holder[_key(holder, parts, len(parts) - 1, place)] = deepcopy(value)
    return copied


def _is_field(part: str | int) -> bool:
    return isinstance(part, str) and not part.startswith("=")


def _key(holder: Any, parts: list[str | int], number: int, place: str) -> Any:
    part = parts[number]
    if isinstance(part, str) and part.startswith("="):
        field = _NAME_FIELDS.get(str(parts[number - 1]), "name")
        return _entry(holder, field, part[1:])
    if isinstance(part, int) and part >= len(holder):
        entries = "1 entry" if len(holder) == 1 else f"{len(holder)} entries"
        raise ValueError(f"`{place}`: {parts[number - 1]} has {entries}, and no [{part}]")
    return part


def _entry(entries: list[Any], field: str, name: str) -> int:
    for index, entry in enumerate(entries):
        if isinstance(entry, dict) and entry.get(field) == name:
            return index
    entries.append({field: name})
    return len(entries) - 1
