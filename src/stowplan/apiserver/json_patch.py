"""RFC 6902 JSON Patch, with the leniencies of the library that kube-apiserver uses.

Those are: negative array indices count from the end, `replace` of a key that an object does not
have adds it, and `test` of an absent key against null passes. `patches.apply_patch` calls this
with a copy it may change; every failure is a `JsonPatchError` with that library's text.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

_INDEX = re.compile(r"[+-]?[0-9]+")


class JsonPatchError(Exception):
    """The patch is well formed but does not apply to the document."""


def apply_json_patch(document: Any, operations: list[dict[str, Any]]) -> Any:
    """The patched document; `document` is changed in place on the way."""
    for operation in operations:
        run = _OPERATIONS.get(str(operation.get("op", "unknown")))
        if run is None:
            raise JsonPatchError(f"Unexpected kind: {operation.get('op', 'unknown')}")
        document = run(document, operation)
    return document


def json_equal(left: Any, right: Any) -> bool:
    """Equality of JSON values: unlike Python's, `1` is neither `true` nor `1.0`."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(json_equal(left[k], right[k]) for k in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(
            json_equal(a, b) for a, b in zip(left, right, strict=True)
        )
    return bool(left == right)


def _path(operation: dict[str, Any], what: str, field: str = "path") -> str:
    path = operation.get(field)
    if isinstance(path, str):
        return path
    missing = "operation missing path field" if field == "path" else "operation, missing from field"
    raise JsonPatchError(f"{what} failed to decode {field}: {missing}: missing value")


def _locate(document: Any, path: str) -> tuple[Any, str] | None:
    """The container that holds the last element of the path, and that element's key."""
    parts = path.split("/")
    if len(parts) < 2:
        return None
    container = document
    for part in parts[1:-1]:
        try:
            container = _get(container, _unescape(part))
        except JsonPatchError:
            return None
        if not isinstance(container, dict | list):
            return None
    return container, _unescape(parts[-1])


def _unescape(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~")


def _index(key: str, size: int) -> int:
    """`key` as a position in an array of `size`; negative positions count from the end."""
    if not _INDEX.fullmatch(key):
        raise JsonPatchError(f'strconv.Atoi: parsing "{key}": invalid syntax')
    index = int(key)
    if index >= size or index < -size:
        raise JsonPatchError(f"Unable to access invalid index: {index}: invalid index referenced")
    return index + size if index < 0 else index


def _get(container: Any, key: str) -> Any:
    if isinstance(container, dict):
        return container.get(key)
    return container[_index(key, len(container))]


def _insert(container: Any, key: str, value: Any) -> None:
    if isinstance(container, dict):
        container[key] = value
    elif key == "-":
        container.append(value)
    elif not _INDEX.fullmatch(key):
        raise JsonPatchError(
            f"value was not a proper array index: '{key}': "
            f'strconv.Atoi: parsing "{key}": invalid syntax'
        )
    else:
        container.insert(_index(key, len(container) + 1), value)


def _delete(container: Any, key: str) -> None:
    if not isinstance(container, dict):
        del container[_index(key, len(container))]
    elif key not in container:
        raise JsonPatchError(f"Unable to remove nonexistent key: {key}: missing value")
    else:
        del container[key]


def _add(document: Any, operation: dict[str, Any]) -> Any:
    path = _path(operation, "add operation")
    place = _locate(document, path)
    if place is None:
        raise JsonPatchError(
            f'add operation does not apply: doc is missing path: "{path}": missing value'
        )
    try:
        _insert(*place, copy.deepcopy(operation.get("value")))
    except JsonPatchError as error:
        raise JsonPatchError(f"error in add for path: '{path}': {error}") from None
    return document


def _remove(document: Any, operation: dict[str, Any]) -> Any:
    path = _path(operation, "remove operation")
    place = _locate(document, path)
    if place is None:
        raise JsonPatchError(
            f'remove operation does not apply: doc is missing path: "{path}": missing value'
        )
    try:
        _delete(*place)
    except JsonPatchError as error:
        raise JsonPatchError(f"error in remove for path: '{path}': {error}") from None
    return document


def _replace(document: Any, operation: dict[str, Any]) -> Any:
    path = _path(operation, "replace operation")
    value = copy.deepcopy(operation.get("value"))
    if path == "":
        if not isinstance(value, dict | list):
            raise JsonPatchError("replace operation value must be object or array")
        return value
    place = _locate(document, path)
    if place is None:
        raise JsonPatchError(
            f"replace operation does not apply: doc is missing path: {path}: missing value"
        )
    container, key = place
    if isinstance(container, dict):
        container[key] = value
        return document
    try:
        container[_index(key, len(container))] = value
    except JsonPatchError:
        raise JsonPatchError(
            f"replace operation does not apply: doc is missing key: {path}: missing value"
        ) from None
    return document


def _move(document: Any, operation: dict[str, Any]) -> Any:
    source = _path(operation, "move operation", "from")
    place = _locate(document, source)
    if place is None:
        raise JsonPatchError(
            f"move operation does not apply: doc is missing from path: {source}: missing value"
        )
    container, key = place
    try:
        value = _get(container, key)
        _delete(container, key)
    except JsonPatchError as error:
        raise JsonPatchError(f"error in move for path: '{key}': {error}") from None
    path = _path(operation, "move operation")
    place = _locate(document, path)
    if place is None:
        raise JsonPatchError(
            f"move operation does not apply: doc is missing destination path: {path}: missing value"
        )
    try:
        _insert(*place, value)
    except JsonPatchError as error:
        raise JsonPatchError(f"error in move for path: '{path}': {error}") from None
    return document


def _copy(document: Any, operation: dict[str, Any]) -> Any:
    source = _path(operation, "copy operation", "from")
    place = _locate(document, source)
    if place is None:
        raise JsonPatchError(
            f"copy operation does not apply: doc is missing from path: {source}: missing value"
        )
    try:
        value = copy.deepcopy(_get(*place))
    except JsonPatchError as error:
        raise JsonPatchError(f"error in copy for from: '{source}': {error}") from None
    path = _path(operation, "copy operation")
    place = _locate(document, path)
    if place is None:
        raise JsonPatchError(
            f"copy operation does not apply: doc is missing destination path: {path}: missing value"
        )
    try:
        _insert(*place, value)
    except JsonPatchError as error:
        raise JsonPatchError(f"error while adding value during copy: {error}") from None
    return document


def _test(document: Any, operation: dict[str, Any]) -> Any:
    path = _path(operation, "test operation")
    found = document
    if path != "":
        place = _locate(document, path)
        if place is None:
            raise JsonPatchError(
                f"test operation does not apply: is missing path: {path}: missing value"
            )
        try:
            found = _get(*place)
        except JsonPatchError as error:
            raise JsonPatchError(f"error in test for path: '{path}': {error}") from None
    if not json_equal(found, operation.get("value")):
        raise JsonPatchError(f"testing value {path} failed: test failed")
    return document


_OPERATIONS: dict[str, Callable[[Any, dict[str, Any]], Any]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}
