"""Protobuf bodies: what Go's own encoder wrote is read as what JSON would have said."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.apiserver.conforming import conform_to
from stowplan.apiserver.go_types import struct_named
from stowplan.apiserver.negotiation import decode_body
from stowplan.apiserver.protobuf import MEDIA_TYPE, decode_protobuf
from stowplan.errors import ApiError

Json = dict[str, Any]

# Written by `go run . protobuf` in tools/reference.
_REFERENCE = Path(__file__).parents[2] / "data" / "protobuf_reference.json"
CASES = [
    (case["object"], base64.b64decode(case["protobuf"]))
    for case in json.loads(_REFERENCE.read_text())["objects"]
]


def conformed(obj: Json) -> Json:
    """The object less everything that Go does not tell from an absent value."""
    struct = struct_named(obj["apiVersion"].rpartition("/")[0], obj["kind"])
    assert struct is not None
    body = {key: value for key, value in obj.items() if key not in ("kind", "apiVersion")}
    return conform_to(struct.name, body)


@pytest.mark.parametrize(
    ("obj", "protobuf"), CASES, ids=[f"{obj['apiVersion']} {obj['kind']}" for obj, _ in CASES]
)
def test_protobuf_says_what_json_says(obj: Json, protobuf: bytes) -> None:
    decoded = decode_body(MEDIA_TYPE, protobuf, None)
    assert (decoded["kind"], decoded["apiVersion"]) == (obj["kind"], obj["apiVersion"])
    assert conformed(decoded) == conformed(obj)


def test_unknown_fields_are_skipped() -> None:
    namespace = next(protobuf for obj, protobuf in CASES if obj["kind"] == "Namespace")
    # Field 2 of the envelope is the object: a varint with number 99 put behind it.
    name, version = b"\x0a\x0f\x0a\x02v1\x12\x09Namespace", b"k8s\x00"
    assert namespace.startswith(version + name)
    extended = version + name + b"\x12\x03" + b"\x98\x06\x01"
    assert decode_protobuf(extended) == {"kind": "Namespace", "apiVersion": "v1"}


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b"", "not Kubernetes' protobuf"),
        (b'{"kind":"Pod"}', "not Kubernetes' protobuf"),
        (b"k8s\x00", 'no kind "" is registered for version ""'),
        (b"k8s\x00\x0a\x0e\x0a\x02v1\x12\x08Nonsense", 'no kind "Nonsense" is registered'),
        (b"k8s\x00\x0a\xff", "unexpected end"),
        (b"k8s\x00\x08\x01", "bytes were expected"),
        (b"k8s\x00\x0f", "unknown wire type 7"),
    ],
)
def test_what_is_no_object_is_400(body: bytes, complaint: str) -> None:
    with pytest.raises(ApiError, match=complaint) as caught:
        decode_protobuf(body)
    assert caught.value.status == 400


def refusal(body: bytes) -> int:
    """The status of the error; 0 when the body could be read."""
    try:
        decode_protobuf(body)
    except ApiError as error:
        return error.status
    return 0


@given(st.sampled_from([protobuf for _, protobuf in CASES]), st.data())
def test_damaged_bodies_are_read_or_refused(body: bytes, data: st.DataObject) -> None:
    position = data.draw(st.integers(4, len(body) - 1))
    damaged = body[:position] + data.draw(st.binary(max_size=3)) + body[position + 1 :]
    assert refusal(damaged) in (0, 400)
