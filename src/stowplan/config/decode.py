"""Convert a raw tree (dicts, lists, scalars) to structs, and report every error, not only one.

msgspec stops at the first error, but three typos should cause three lines. So this module walks the
tree along the struct types and converts each leaf by itself. It reads plugin arguments in the same
way, into the plugin's own struct.
"""

from __future__ import annotations

import types
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from stowplan.config.durations import Duration, parse_duration
from stowplan.config.fields import (
    FieldError,
    closest,
    did_you_mean,
    invalid,
    not_supported,
    required,
)

T = TypeVar("T", bound=msgspec.Struct)


def decode(raw: object, into: type[T], errors: list[FieldError], *, path: str = "") -> T | None:
    """`raw` as `into`, with all mistakes appended to `errors`; `path` is where it is.

    Unknown fields are mistakes too, but left out, so that a caller can check the rest. Any other
    mistake makes it None.
    """
    found: list[FieldError] = []
    _check(into, raw, path, found)
    errors += found
    if found:
        raw, others = _without_unknown(raw, into), list[FieldError]()
        _check(into, raw, path, others)
        if others:
            return None
    return msgspec.convert(raw, into, dec_hook=decode_hook)


def decode_hook(wanted: type, value: Any) -> Any:
    """msgspec's hook for types that it does not know."""
    if wanted is Duration:
        if not isinstance(value, str):
            raise ValueError('expected a duration such as "15s"')
        return parse_duration(value)
    raise NotImplementedError(f"no decoder for {wanted}")


def encode_hook(value: Any) -> Any:
    if isinstance(value, Duration):
        return str(value)
    raise NotImplementedError(f"no encoder for {type(value)}")


def without_nulls(raw: Any, wanted: Any) -> Any:
    """The tree as Go reads its nulls into `wanted`: a null field is not set, a null item is empty.

    Unknown fields stay, null or not, so that `decode` names them.

    DIVERGES: null is not set for a duration too, where upstream complains of an empty text.
    """
    wanted = _without_none(wanted)
    if isinstance(raw, dict) and _is_struct(wanted):
        hints, fields = _members(wanted)
        return {
            key: without_nulls(value, hints[fields[key].name]) if key in fields else value
            for key, value in raw.items()
            if value is not None or key not in fields
        }
    if isinstance(raw, list) and get_origin(wanted) in (tuple, list):
        item = get_args(wanted)[0]
        empty: Any = {} if _is_struct(item) else ""
        return [empty if value is None else without_nulls(value, item) for value in raw]
    return raw


def _without_unknown(raw: Any, wanted: Any) -> Any:
    """The tree without the fields that `wanted` does not have."""
    wanted = _without_none(wanted)
    if isinstance(raw, dict) and _is_struct(wanted):
        hints, fields = _members(wanted)
        return {
            key: _without_unknown(value, hints[fields[key].name])
            for key, value in raw.items()
            if key in fields
        }
    if isinstance(raw, list) and get_origin(wanted) in (tuple, list):
        return [_without_unknown(value, get_args(wanted)[0]) for value in raw]
    return raw


def _check(wanted: Any, value: object, path: str, errors: list[FieldError]) -> None:
    wanted = _without_none(wanted)
    if _is_struct(wanted):
        _check_struct(wanted, value, path, errors)
    elif get_origin(wanted) in (tuple, list):
        if not isinstance(value, list):
            errors.append(_wrong_type(path, value, "a list"))
            return
        for index, item in enumerate(value):
            _check(get_args(wanted)[0], item, f"{path}[{index}]", errors)
    elif get_origin(wanted) is Literal and isinstance(value, str):
        if value not in get_args(wanted):
            errors.append(not_supported(path, value, get_args(wanted)))
    else:
        try:
            msgspec.convert(value, wanted, dec_hook=decode_hook)
        except msgspec.ValidationError as error:
            # The path in msgspec's text is relative to the leaf: ours is better.
            errors.append(invalid(path, value, str(error).partition(" - at `$")[0]))


def _check_struct(
    wanted: type[msgspec.Struct], value: object, path: str, errors: list[FieldError]
) -> None:
    if not isinstance(value, dict):
        errors.append(_wrong_type(path, value, "a mapping"))
        return
    hints, fields = _members(wanted)
    for key, item in value.items():
        inner = f"{path}.{key}" if path else str(key)
        if key in fields:
            _check(hints[fields[key].name], item, inner, errors)
        else:
            hint = did_you_mean(str(key), fields) or f" (known here: {', '.join(fields)})"
            meant = inner.removesuffix(str(key)) + closest(str(key), fields)
            errors.append(FieldError(inner, f"unknown field{hint}", meant=meant))
    for key, field in fields.items():
        if field.required and key not in value:
            errors.append(required(f"{path}.{key}" if path else key))


@cache
def _members(
    wanted: type[msgspec.Struct],
) -> tuple[dict[str, Any], dict[str, msgspec.structs.FieldInfo]]:
    """A struct's types by name, and its fields by the names that files use."""
    fields = {field.encode_name: field for field in msgspec.structs.fields(wanted)}
    return get_type_hints(wanted, include_extras=True), fields


def members_of(wanted: type[msgspec.Struct]) -> dict[str, type[msgspec.Struct] | None]:
    """A struct's fields by the names that files use, each with the struct it holds (a list of)."""
    hints, fields = _members(wanted)
    found: dict[str, type[msgspec.Struct] | None] = {}
    for key, field in fields.items():
        hint = _without_none(hints[field.name])
        if get_origin(hint) is tuple:
            hint = get_args(hint)[0]
        found[key] = hint if _is_struct(hint) else None
    return found


def _is_struct(wanted: Any) -> bool:
    return isinstance(wanted, type) and issubclass(wanted, msgspec.Struct)


def _wrong_type(path: str, value: object, expected: str) -> FieldError:
    got = {dict: "a mapping", list: "a list", str: "a string", bool: "a boolean"}.get(
        type(value), "nothing" if value is None else "a number"
    )
    return FieldError(path, f"expected {expected}, got {got}")


def _without_none(wanted: Any) -> Any:
    """X of `X | None`, so that X's own fields are walked; other unions are msgspec's matter."""
    if get_origin(wanted) in (Union, types.UnionType):
        options = [option for option in get_args(wanted) if option is not type(None)]
        return options[0] if len(options) == 1 else wanted
    return wanted
