"""Which fields an object has, as managedFields writes them (FieldsV1).

A field is a path: a tuple of elements such as `("f:spec", "f:containers", 'k:{"name":"a"}',
"f:image")`, so that sets of fields are Python sets. Whether a list or map is one field or many is
up to `merge_schema`. Used by `apply.py` only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from stowplan.apiserver.json_patch import json_equal
from stowplan.apiserver.merge_schema import KEY_DEFAULTS, PLAIN, Field, Schema, fields_of
from stowplan.loader.json_text import load_json

Json = dict[str, Any]
Path = tuple[str, ...]

# What identifies an object or belongs to the server has no owner.
_UNOWNED: frozenset[Path] = frozenset(
    {("f:apiVersion",), ("f:kind",), ("f:metadata",)}
    | {
        ("f:metadata", f"f:{name}")
        for name in (
            "name",
            "namespace",
            "creationTimestamp",
            "selfLink",
            "uid",
            "generation",
            "managedFields",
            "resourceVersion",
        )
    }
)


class DuplicateOrKeyless(ValueError):
    """A keyed list has a duplicate element, or one without a key."""


def leaves(obj: Json, schema: Schema) -> dict[Path, Any]:
    """Every field of an object that can have an owner, and its value.

    An element of a keyed list is a field too (its value here is None), with an owner of its own.
    """
    found: dict[Path, Any] = {}
    _walk_map(obj, schema, (), found)
    return {path: value for path, value in found.items() if path not in _UNOWNED}


def _walk_map(value: Json, schema: Schema, path: Path, found: dict[Path, Any]) -> None:
    for key, item in value.items():
        _walk(item, schema.get(key, PLAIN), (*path, f"f:{key}"), found)


def _walk(value: Any, field: Field, path: Path, found: dict[Path, Any]) -> None:
    if isinstance(value, dict) and value and not field.atomic:
        _walk_map(value, fields_of(field), path, found)
    elif isinstance(value, list) and field.keys:
        for index, item in enumerate(value):
            element = (*path, element_of(item, field, path, index))
            if element in found:
                raise DuplicateOrKeyless(
                    f"{path_text(path)}: duplicate entries for key {_text(element[-1])}"
                )
            found[element] = None
            if field.elements_atomic:
                found[element] = item
            else:
                _walk_map(item, fields_of(field), element, found)
    elif isinstance(value, list) and field.is_set:
        for item in value:
            found[(*path, value_of(item))] = None
    else:
        found[path] = value


def branches(obj: Any, schema: Schema, path: Path = ()) -> set[Path]:
    """The maps and lists of an object that are not one field but many."""
    found: set[Path] = set()
    for key, value in obj.items():
        field, place = schema.get(key, PLAIN), (*path, f"f:{key}")
        if isinstance(value, dict) and not field.atomic:
            found |= {place, *branches(value, fields_of(field), place)}
        elif isinstance(value, list) and (field.keys or field.is_set):
            found.add(place)
            if field.keys and not field.elements_atomic:
                for index, item in enumerate(value):
                    element = (*place, element_of(item, field, place, index))
                    found |= branches(item, fields_of(field), element)
    return found


def element_of(item: Any, field: Field, path: Path, index: int = 0) -> str:
    """The path element `k:{...}` of an element of a list by key."""
    keys: Json = {}
    for key in sorted(field.keys):
        value = item.get(key, KEY_DEFAULTS.get(key)) if isinstance(item, dict) else None
        if value is None:
            raise DuplicateOrKeyless(
                f"{path_text(path)}: element {index}: associative list with keys has an element "
                f'that omits key field "{key}" (and doesn\'t have default value)'
            )
        keys[key] = value
    return f"k:{_compact(keys)}"


def value_of(item: Any) -> str:
    """The path element `v:...` of an element of a set."""
    return f"v:{_compact(item)}"


def changed(before: dict[Path, Any], after: dict[Path, Any]) -> set[Path]:
    """Fields of `after` that are new or have another value."""
    return {
        path
        for path, value in after.items()
        if path not in before or not json_equal(before[path], value)
    }


def to_fields_v1(paths: Iterable[Path]) -> Json:
    """The nested form; a field that also has fields below it says so with `.`."""
    tree: Json = {}
    for path in paths:
        node = tree
        for element in path:
            node = node.setdefault(element, {})
        node["."] = {}
    return _without_lone_dots(tree)


def _without_lone_dots(tree: Json) -> Json:
    if tree.keys() == {"."}:
        return {}
    return {element: _without_lone_dots(tree[element]) for element in sorted(tree)}


def from_fields_v1(tree: Json) -> set[Path]:
    """The paths in a nested form."""
    found: set[Path] = set()
    for element, below in tree.items():
        if element == ".":
            found.add(())
        elif not below:
            found.add((element,))
        else:
            found.update((element, *path) for path in from_fields_v1(below))
    return found


def path_text(path: Path) -> str:
    """`.spec.containers[name="a"].image`, as messages name a field."""
    return "".join(map(_text, path))


def _text(element: str) -> str:
    kind, _, rest = element.partition(":")
    match kind:
        case "f":
            return f".{rest}"
        case "k":
            keys = load_json(rest)
            return f"[{','.join(f'{key}={_compact(keys[key])}' for key in sorted(keys))}]"
        case _:
            return f"[={rest}]"


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=True)
