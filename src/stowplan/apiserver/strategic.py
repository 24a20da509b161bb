"""Strategic merge patch: a merge patch that knows which lists are keyed and obeys directives.

Behaves as apimachinery's strategicpatch does on the server: `$patch: replace|delete` in maps and
list elements, `$retainKeys`, `$deleteFromPrimitiveList/<field>`, `$setElementOrder/<field>`, null
deletes. `patches.apply_patch` calls `strategic_merge` with copies that it may change. Elements of
a merged list keep the order of the patch, with the elements that only the server has put between
them where the server had them.
"""

from __future__ import annotations

from typing import Any

from stowplan.apiserver.json_patch import json_equal
from stowplan.apiserver.merge_schema import PLAIN, Field, Schema, fields_of
from stowplan.apiserver.statuses import Failure, bad_request, unexplained

Json = dict[str, Any]

_DIRECTIVE = "$patch"
_RETAIN_KEYS = "$retainKeys"
_DELETE_FROM = "$deleteFromPrimitiveList/"
_SET_ORDER = "$setElementOrder/"


def strategic_merge(original: Json, patch: Json, schema: Schema) -> Json:
    """`patch` merged into `original`; both may be changed on the way."""
    if _DIRECTIVE in patch:
        return _whole_map(patch)
    if _RETAIN_KEYS in patch:
        _retain_keys(original, patch)
    for key in [key for key in patch if key.startswith(_SET_ORDER)]:
        _merge_ordered(original, patch, key, schema)
    for key, value in patch.items():
        if key.startswith(_DELETE_FROM):
            name = key.removeprefix(_DELETE_FROM)
            if isinstance(original.get(name), list):
                original[name] = _without(original[name], _list(value, "primitive list"))
        elif value is None:
            original.pop(key, None)
        elif isinstance(value, dict) and isinstance(original.get(key), dict):
            field = schema.get(key, PLAIN)
            if field.patch == "replace":
                original[key] = value
            else:
                original[key] = strategic_merge(original[key], value, fields_of(field))
        elif isinstance(value, list) and isinstance(original.get(key), list):
            original[key] = _merge_list(original[key], value, schema.get(key, PLAIN))
        elif not _is_directive(value):
            original[key] = _clean(value)
        else:
            original.pop(key, None)
    return original


def _whole_map(patch: Json) -> Json:
    """What `$patch` in a map makes of it: the rest of the patch, or nothing."""
    match patch[_DIRECTIVE]:
        case "replace":
            return {key: value for key, value in patch.items() if key != _DIRECTIVE}
        case "delete":
            return {}
        case other:
            raise unexplained(f"unknown patch type: {other} in map: {go_text(patch)}")


def _retain_keys(original: Json, patch: Json) -> None:
    keys = patch.pop(_RETAIN_KEYS)
    written = {
        key
        for key, value in patch.items()
        if value is not None and not key.startswith((_DELETE_FROM, _SET_ORDER))
    }
    if not isinstance(keys, list) or not written.issubset(keys):
        raise bad_request("invalid patch format of retainKeys")
    for key in [key for key in original if key not in keys]:
        del original[key]


def _merge_ordered(original: Json, patch: Json, directive: str, schema: Schema) -> None:
    """One `$setElementOrder/<field>` and the list it speaks of, both taken out of the patch."""
    name = directive.removeprefix(_SET_ORDER)
    field = schema.get(name, PLAIN)
    order = _list(patch.pop(directive), "setElementOrder list")
    present = name in original
    live = _list(original[name], "setElementOrder list") if present else []
    if name in patch:
        changes = _list(patch.pop(name), "setElementOrder list")
        _check_order(changes, order, field.patch_key)
        merged = _merge_list(live, changes, field) if present else _clean(changes)
    elif present:
        merged = live
    else:
        return
    original[name] = _interleave(merged, order, live, field.patch_key)


def _check_order(changes: list[Any], order: list[Any], key: str) -> None:
    """Every element of the patch must be in the order list, in the same relative order.

    Deletions need not be there, and directives only when they come before the last element.
    """
    pending = [item for item in changes if not _is_deletion(item)]
    done = 0
    for place in order:
        while done < len(pending) and _is_directive(pending[done]):
            done += 1
        if done < len(pending) and json_equal(_identity(pending[done], key), _identity(place, key)):
            done += 1
    if order and done < len(pending):
        raise unexplained(
            f"The order in patch list:\n{go_text(changes)}\n"
            f" doesn't match $setElementOrder list:\n{go_text(order)}\n"
        )


def _merge_list(live: list[Any], patch: list[Any], field: Field) -> list[Any]:
    if field.patch != "merge":
        return patch
    if not live and not patch:
        return live
    if any(isinstance(item, list) for item in (*live, *patch)):
        raise Failure(
            422, "the server rejected our request due to an error in our request", details={}
        )
    of_maps = {isinstance(item, dict) for item in (*live, *patch)}
    if len(of_maps) > 1:
        raise unexplained(f"list element types are not identical: {go_text([live, patch])}")
    if not of_maps.pop():
        merged = live + [item for item in patch if item not in live]
        return _interleave(merged, patch, live, "")
    key = field.patch_key
    kept, changes = _apply_element_directives(live, patch, key)
    merged = list(kept)
    for change in changes:
        wanted = _identity(change, key)
        for position, element in enumerate(merged):
            if json_equal(element.get(key), wanted):
                merged[position] = strategic_merge(element, change, fields_of(field))
                break
        else:
            # As it is, its directives included: nothing there is for them to act on, and they
            # fall out as fields that the type does not have.
            merged.append(change)
    return _interleave(merged, changes, kept, key)


def _apply_element_directives(
    live: list[Any], patch: list[Any], key: str
) -> tuple[list[Any], list[Any]]:
    """The live list after `$patch` elements have had their say, and the other patch elements."""
    changes = [item for item in patch if not _is_directive(item)]
    replace = False
    for item in patch:
        match item.get(_DIRECTIVE):
            case None:
                pass
            case "delete":
                gone = _identity(item, key)
                live = [element for element in live if not json_equal(element.get(key), gone)]
            case "replace":
                replace = True
            case "merge":
                raise unexplained("merging lists cannot yet be specified in the patch")
            case other:
                raise unexplained(f"unknown patch type: {other} in map: {go_text(item)}")
    return (changes, []) if replace else (live, changes)


def _interleave(merged: list[Any], order: list[Any], live: list[Any], key: str) -> list[Any]:
    """`merged` in the order asked for; elements outside it stay before those they preceded."""
    wanted = [_identity(item, key) for item in order]
    server = [_identity(item, key) for item in live]
    asked = [item for item in merged if _find(wanted, _identity(item, key)) >= 0]
    asked.sort(key=lambda item: _find(wanted, _identity(item, key)))
    others = [item for item in merged if _find(wanted, _identity(item, key)) < 0]
    result: list[Any] = []
    while asked and others:
        left = _find(server, _identity(others[0], key))
        right = _find(server, _identity(asked[0], key))
        result.append((others if 0 <= left < right else asked).pop(0))
    return result + asked + others


def _find(values: list[Any], wanted: Any) -> int:
    return next((i for i, value in enumerate(values) if json_equal(value, wanted)), -1)


def _identity(item: Any, key: str) -> Any:
    if not key or not isinstance(item, dict):
        return item
    if key not in item:
        raise unexplained(f"map: {go_text(item)} does not contain declared merge key: {key}")
    return item[key]


def _without(live: list[Any], gone: list[Any]) -> list[Any]:
    return [item for item in live if _find(gone, item) < 0]


def _is_directive(value: Any) -> bool:
    return isinstance(value, dict) and _DIRECTIVE in value


def _is_deletion(value: Any) -> bool:
    return isinstance(value, dict) and value.get(_DIRECTIVE) == "delete"


def _clean(value: Any) -> Any:
    """A value that is new on the server: its directives mean nothing and are left out."""
    if isinstance(value, dict):
        return {
            key: _clean(item)
            for key, item in value.items()
            if item is not None
            and not _is_directive(item)
            and not key.startswith((_RETAIN_KEYS, _DELETE_FROM, _SET_ORDER))
        }
    if isinstance(value, list):
        return [_clean(item) for item in value if not _is_directive(item)]
    return value


def _list(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise bad_request(f"invalid patch format of {what}")
    return value


def go_text(value: Any) -> str:
    """A JSON value as Go prints it with %v, which upstream's messages contain."""
    match value:
        case dict():
            return f"map[{' '.join(f'{key}:{go_text(value[key])}' for key in sorted(value))}]"
        case list():
            return f"[{' '.join(go_text(item) for item in value)}]"
        case None:
            return "<nil>"
        case bool():
            return "true" if value else "false"
        case _:
            return str(value)
