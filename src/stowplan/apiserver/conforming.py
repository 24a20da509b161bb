"""A client's JSON made into what Go's structs would make of it, or refused in Go's words.

Wrong types are a 400; nulls, unknown fields and empty values disappear; quantities and times get
their canonical form; fields that Go always writes are there. The result is a new object.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Any

import msgspec

from stowplan.api.quantity import format_quantity, milli_value, nanos
from stowplan.apiserver.go_types import Field, Struct, struct_of, structs
from stowplan.apiserver.history import Json
from stowplan.apiserver.kinds import Kind
from stowplan.clock import parse_rfc3339, rfc3339, rfc3339_micro

_INDEX = re.compile(r"\[\d+\]")
_NANOS_IN_MILLI = 10**6
_TEXT = {str}
_INT_BOUNDS = {"int32": 2**31, "int64": 2**63}
_ZEROS: dict[str, Any] = {"bool": False, "int32": 0, "int64": 0, "Time": None, "MicroTime": None}
_LAYOUTS = {
    "Time": "2006-01-02T15:04:05Z07:00",
    "MicroTime": "2006-01-02T15:04:05.000000Z07:00",
}


class Mismatch(ValueError):
    """The text of Go's decoding error; `path` says where, which Go's text often does not."""

    path = ""


def conform(kind: Kind, obj: Json) -> tuple[Json, list[str]]:
    """The object as the server would keep it, and the paths of fields that do not exist."""
    struct = struct_of(kind)
    assert struct is not None, kind
    unknown: list[str] = []
    body = {key: value for key, value in obj.items() if key not in ("kind", "apiVersion")}
    result = _struct(struct, body, "", unknown)
    return {"kind": kind.kind, "apiVersion": kind.api_version, **result}, unknown


def conform_to(struct_name: str, value: Json) -> Json:
    """The same for something that is not a served object, such as DeleteOptions."""
    return _struct(structs()[struct_name], value, "", [])


def zero_status(kind: Kind) -> Json:
    """Return what Go writes for an unset status."""
    struct = struct_of(kind)
    assert struct is not None, kind
    status: Json = _zero(struct.fields["status"])
    return status


def _struct(struct: Struct, value: Json, path: str, unknown: list[str]) -> Json:
    result: Json = {}
    steps, strange = struct.plan(tuple(value))
    if strange:
        unknown += [f"{path}.{name}" if path else name for name in strange]
    for name, field, is_shown in steps:
        item = value.get(name)
        if item is None:
            if is_shown:
                result[name] = _zero(field)
            continue
        if field.is_text and type(item) is str:
            # Most fields are; the rest of this is for the others.
            if item or field.pointer:
                result[name] = item
            elif field.always:
                result[name] = ""
            continue
        place = f"{path}.{name}" if path else name
        try:
            if field.container:
                made = _collection(struct, field, item, place, unknown)
            elif field.is_struct and type(item) is dict:
                # Go's omitempty leaves out no struct.
                result[name] = _struct(structs()[field.type], item, place, unknown)
                continue
            else:
                made = _element(struct, field, item, place, unknown)
        except Mismatch as problem:
            problem.path = problem.path or place
            raise
        # Go's omitempty leaves out zero values and what has no members.
        if made or field.pointer or (field.always and field.type == "any"):
            result[name] = made
        elif field.always:
            result[name] = _zero(field)
    return result


@cache
def _blank(name: str) -> Json:
    """An empty struct. Read only."""
    return _struct(structs()[name], {}, "", [])


def _zero(field: Field) -> Any:
    if field.container or field.type in ("Quantities", "any", "bytes"):
        return None
    if field.is_struct:
        return msgspec.to_builtins(_blank(field.type))  # the fastest way to create a copy
    if field.type == "Quantity":
        return "0"
    return _ZEROS.get(field.type, "")


def _collection(struct: Struct, field: Field, value: Any, path: str, unknown: list[str]) -> Any:
    match field.container:
        case "list":
            if not isinstance(value, (list, tuple)):
                raise _wrong(value, struct, path, field.go_type)
            return [
                _element(struct, field, item, f"{path}[{index}]", unknown)
                for index, item in enumerate(value)
            ]
        case "map":
            if not isinstance(value, dict):
                raise _wrong(value, struct, path, field.go_type)
            return _map(struct, field, value, path, unknown)
    if not isinstance(value, dict):
        raise _wrong(value, struct, path, field.go_type)
    return value


def _map(struct: Struct, field: Field, value: Json, path: str, unknown: list[str]) -> Json:
    if field.type == "string" and set(map(type, value.values())) <= _TEXT:
        return dict(value)
    result = {}
    for key, item in value.items():
        try:
            result[key] = _element(struct, field, item, path, unknown)
        except Mismatch as problem:
            # Go's text does not name the key.
            problem.path = f"{path}[{key}]"
            raise
    return result


def _element(struct: Struct, field: Field, value: Any, path: str, unknown: list[str]) -> Any:
    if field.is_struct:
        if value is None:
            value = {}
        if not isinstance(value, dict):
            raise _wrong(value, struct, path, field.go_element)
        return _struct(structs()[field.type], value, path, unknown)
    match field.type:
        case "string":
            if type(value) is str:
                return value
        case "bool":
            if not isinstance(value, bool):
                raise _wrong(value, struct, path, "bool")
            return value
        case "int32" | "int64":
            return _integer(field.type, value, struct, path)
        case "Quantity":
            return _quantity(value)
        case "Quantities":
            if not isinstance(value, dict):
                raise _wrong(value, struct, path, field.go_type)
            return _quantities(value, path)
        case "Time" | "MicroTime":
            return _time(field.type, value)
        case "any":
            return value
        case "IntOrString":
            if isinstance(value, bool) or not isinstance(value, (int, str)):
                raise _wrong(value, struct, path, "intstr.IntOrString")
            return value
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _wrong(value, struct, path, field.go_element)
    return value


def _integer(type_: str, value: Any, struct: Struct, path: str) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _wrong(value, struct, path, type_)
    bound = _INT_BOUNDS[type_]
    if isinstance(value, float) or not -bound <= value < bound:
        raise _wrong(value, struct, path, type_, f"number {value}")
    return value


def _quantities(amounts: Json, path: str) -> dict[str, str]:
    result = {}
    for name, amount in amounts.items():
        try:
            result[name] = (
                _amount(amount) if type(amount) is str else _whole_millis(_quantity(amount))
            )
        except Mismatch as problem:
            problem.path = f"{path}[{name}]"
            raise
    return result


@lru_cache(maxsize=4096)
def _amount(text: str) -> str:
    """The same few amounts are written over and over."""
    return _whole_millis(_quantity(text))


def _quantity(value: Any) -> str:
    if value is None:
        return "0"
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        value = "?"
    try:
        return format_quantity(value)
    except ValueError as error:
        text = str(error)
        at = max(0, text.find("quantities must"))
        raise Mismatch(text[at:]) from None


def _whole_millis(text: str) -> str:
    """Resource amounts finer than a thousandth are rounded up to one."""
    if nanos(text) % _NANOS_IN_MILLI == 0:
        return text
    return format_quantity(f"{milli_value(text)}m")


def _time(type_: str, value: Any) -> str | None:
    layout = _LAYOUTS[type_]
    if value is None:
        return None
    if not isinstance(value, str):
        raise Mismatch(f"json: cannot unmarshal {_json_type(value)} into Go value of type string")
    try:
        seconds = parse_rfc3339(value)
        if "T" not in value:
            raise ValueError
    except ValueError:
        raise Mismatch(
            f'parsing time "{value}" as "{layout}": cannot parse "{value}" as "2006"'
        ) from None
    return rfc3339(seconds) if type_ == "Time" else rfc3339_micro(seconds)


def _wrong(value: Any, struct: Struct, path: str, go_type: str, shown: str = "") -> Mismatch:
    """Go's path has no indexes: spec.containers.ports, not spec.containers[0].ports."""
    place = f"{struct.name.rpartition('.')[2]}.{_INDEX.sub('', path)}"
    shown = shown or _json_type(value)
    problem = Mismatch(
        f"json: cannot unmarshal {shown} into Go struct field {place} of type {go_type}"
    )
    problem.path = path
    return problem


def _json_type(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, (int, float)):
        return "number"
    return "array" if isinstance(value, list) else "object"
