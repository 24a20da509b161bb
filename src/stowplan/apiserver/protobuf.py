"""Reads Kubernetes' protobuf bodies: Go clients send nothing else for the built-in kinds.

An envelope (`k8s\\0`, then apiVersion, kind and the object's bytes) around a message whose field
numbers `go_types` knows. The result is what the client would have sent in JSON, zero values
included; `conforming` drops those as it does for JSON. Nothing is written in protobuf: every Go
client accepts JSON answers.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from stowplan.apiserver.go_types import Field, struct_named, structs
from stowplan.apiserver.statuses import bad_request
from stowplan.loader.json_text import load_json

Json = dict[str, Any]
Value = int | bytes

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"

_MAGIC = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class _Truncated(ValueError):
    """The bytes end in the middle of a field, or are no protobuf."""


def decode_protobuf(body: bytes) -> Json:
    """The object in a request body, with its kind and apiVersion."""
    if not body.startswith(_MAGIC):
        raise bad_request("the body of the request is not Kubernetes' protobuf")
    try:
        envelope = dict(_fields(body[len(_MAGIC) :]))
        type_meta = dict(_fields(_bytes(envelope.get(1, b""))))
        api_version = _bytes(type_meta.get(1, b"")).decode()
        kind = _bytes(type_meta.get(2, b"")).decode()
        struct = struct_named(api_version.rpartition("/")[0], kind)
        if struct is None:
            raise bad_request(f'no kind "{kind}" is registered for version "{api_version}"')
        obj = _message(struct.name, _bytes(envelope.get(2, b"")))
    except (_Truncated, UnicodeDecodeError) as error:
        raise bad_request(f"the body of the request cannot be read as protobuf: {error}") from None
    return {"kind": kind, "apiVersion": api_version, **obj}


@cache
def _by_number(struct_name: str) -> dict[tuple[int, ...], Field]:
    return {field.numbers: field for field in structs()[struct_name].fields.values()}


@cache
def _embedded(struct_name: str) -> frozenset[tuple[int, ...]]:
    """Numbers of the structs that Go embeds: their fields belong to the message around them."""
    numbers = _by_number(struct_name)
    return frozenset(path[:length] for path in numbers for length in range(1, len(path)))


def _message(struct_name: str, data: bytes, prefix: tuple[int, ...] = ()) -> Json:
    known, embedded = _by_number(struct_name), _embedded(struct_name)
    result: Json = {}
    for number, value in _fields(data):
        path = (*prefix, number)
        if path in embedded:
            result |= _message(struct_name, _bytes(value), path)
            continue
        field = known.get(path)
        if field is None:
            continue  # a field of a version to come
        match field.container:
            case "list":
                result.setdefault(field.name, []).append(_element(field, value))
            case "map":
                entry = dict(_fields(_bytes(value)))
                key = _bytes(entry.get(1, b"")).decode()
                result.setdefault(field.name, {})[key] = _element(field, entry.get(2, b""))
            case _ if field.type == "Quantities":
                entry = dict(_fields(_bytes(value)))
                key = _bytes(entry.get(1, b"")).decode()
                result.setdefault(field.name, {})[key] = _quantity(_bytes(entry.get(2, b"")))
            case _:
                result[field.name] = _element(field, value)
    return result


def _element(field: Field, value: Value) -> Any:
    if field.is_struct:
        return _message(field.type, _bytes(value))
    match field.type:
        case "bool":
            return bool(value)
        case "int32" | "int64":
            return _signed(value)
        case "Time" | "MicroTime":
            return _time(_bytes(value), micro=field.type == "MicroTime")
        case "Quantity":
            return _quantity(_bytes(value))
        case "IntOrString":
            return _int_or_string(_bytes(value))
        case "bytes":
            return base64.b64encode(_bytes(value)).decode()
        case "any":
            return _raw_json(_bytes(value))
    return _bytes(value).decode()


def _time(data: bytes, *, micro: bool) -> str | None:
    """An empty message is the zero time, which JSON writes as null."""
    if not data:
        return None
    parts = dict(_fields(data))
    seconds, nanos = _signed(parts.get(1, 0)), _signed(parts.get(2, 0))
    try:
        moment = _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)
    except OverflowError:
        raise _Truncated(f"time out of range: {seconds}") from None
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ" if micro else "%Y-%m-%dT%H:%M:%SZ")


def _quantity(data: bytes) -> str:
    return _bytes(dict(_fields(data)).get(1, b"")).decode() or "0"


def _int_or_string(data: bytes) -> int | str:
    parts = dict(_fields(data))
    if _signed(parts.get(1, 0)) == 0:
        return _signed(parts.get(2, 0))
    return _bytes(parts.get(3, b"")).decode()


def _raw_json(data: bytes) -> Any:
    raw = _bytes(dict(_fields(data)).get(1, b""))
    try:
        return load_json(raw) if raw else None
    except ValueError as error:
        raise _Truncated(f"embedded JSON: {error}") from None


def _signed(value: Value) -> int:
    """Negative numbers travel as their two's complement in 64 bits."""
    if not isinstance(value, int):
        raise _Truncated("a number was expected")
    return value - (1 << 64) if value >= 1 << 63 else value


def _bytes(value: Value) -> bytes:
    if not isinstance(value, bytes):
        raise _Truncated("bytes were expected")
    return value


def _fields(data: bytes) -> Iterator[tuple[int, Value]]:
    """The fields of a message in the order they come."""
    position, end = 0, len(data)
    while position < end:
        tag, position = _varint(data, position)
        wire_type = tag & 7
        if wire_type == _VARINT:
            value, position = _varint(data, position)
            yield tag >> 3, value
            continue
        if wire_type == _BYTES:
            length, position = _varint(data, position)
        elif wire_type in (_FIXED64, _FIXED32):
            length = 8 if wire_type == _FIXED64 else 4
        else:
            raise _Truncated(f"unknown wire type {wire_type}")
        if position + length > end:
            raise _Truncated("unexpected end")
        yield tag >> 3, data[position : position + length]
        position += length


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if position >= len(data) or shift > 63:
            raise _Truncated("unexpected end")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & ((1 << 64) - 1), position
        shift += 7
