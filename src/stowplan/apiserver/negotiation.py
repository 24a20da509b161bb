"""Content negotiation: which form the client wants, and what the body it sent means.

JSON and YAML are spoken; protobuf is understood, because Go clients send it, but not written. A
client that prefers protobuf or CBOR gets JSON when its Accept list allows it; one that insists
gets a 406.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from stowplan.apiserver import go_json
from stowplan.apiserver.kinds import Kind
from stowplan.apiserver.protobuf import MEDIA_TYPE as PROTOBUF
from stowplan.apiserver.protobuf import decode_protobuf
from stowplan.apiserver.statuses import Failure, bad_request
from stowplan.loader.malformed import Malformed
from stowplan.loader.yaml_text import dump_yaml, load_yaml

Form = Literal["object", "table", "metadata", "nothing"]

JSON = "application/json"
YAML = "application/yaml"
SPOKEN = f"{JSON}, {YAML}"


@dataclass(frozen=True, slots=True)
class Wanted:
    """The agreed answer: its media type and its form."""

    media: str = JSON
    form: Form = "object"


_PLAIN = Wanted()
#: For a client that does not read what it has written.
NOTHING = Wanted(form="nothing")
_SEEN: dict[str, Wanted] = {"": _PLAIN, "*/*": _PLAIN, JSON: _PLAIN}


def wanted(accept: str) -> Wanted:
    """The best form of the Accept header that we speak; 406 when there is none."""
    found = _SEEN.get(accept)
    if found is None:
        found = _negotiate(accept)
        if len(_SEEN) < 1000:
            _SEEN[accept] = found
    return found


def _negotiate(accept: str) -> Wanted:
    clauses = [_clause(text) for text in accept.split(",")]
    clauses.sort(key=lambda clause: -clause[0])
    for _, media, parameters in clauses:
        if media in ("*/*", "application/*"):
            media = JSON
        if media not in (JSON, YAML):
            continue
        as_kind = parameters.get("as", "")
        if not as_kind:
            return Wanted(media)
        if parameters.get("g") != "meta.k8s.io" or parameters.get("v") not in ("v1", "v1beta1"):
            continue
        if as_kind == "Table":
            return Wanted(media, "table")
        if as_kind in ("PartialObjectMetadata", "PartialObjectMetadataList"):
            return Wanted(media, "metadata")
    raise Failure(406, f"406: Not Acceptable\n\nAvailable representations: {SPOKEN}", details={})


def _clause(text: str) -> tuple[float, str, dict[str, str]]:
    media, *pairs = (part.strip() for part in text.split(";"))
    parameters = {}
    for pair in pairs:
        key, _, value = pair.partition("=")
        parameters[key.strip()] = value.strip().strip('"')
    try:
        quality = float(parameters.get("q", 1))
    except ValueError:
        quality = 0.0
    return quality, media, parameters


def media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def decode_body(content_type: str, body: bytes, kind: Kind | None) -> dict[str, Any]:
    """The object in a request body; 400 or 415 in upstream's words when there is none."""
    media = media_type(content_type) or JSON
    if media == PROTOBUF:
        return decode_protobuf(body)
    if media not in (JSON, YAML):
        raise Failure(
            415,
            "the body of the request was in an unknown format - accepted media types include:"
            f" {SPOKEN}, {PROTOBUF}",
        )
    return decode_object(body, kind, yaml_first=media == YAML)


def decode_object(body: bytes, kind: Kind | None, *, yaml_first: bool = False) -> dict[str, Any]:
    problem = ""
    value: Any = None
    try:
        if yaml_first and not body.lstrip().startswith(b"{"):
            value = load_yaml(body)
        else:
            value = go_json.decode(body)
    except go_json.GoJsonError as error:
        problem = f"couldn't get version/kind; json parse error: {error}"
    except Malformed as error:
        # go-yaml names a line only after the first.
        where = f"line {error.line}: " if error.line > 1 else ""
        problem = f"yaml: {where}{error.reason}"
    if not problem and not isinstance(value, dict):
        shape = "array" if isinstance(value, list) else type(value).__name__
        problem = (
            "couldn't get version/kind; json parse error: json: cannot unmarshal"
            f" {shape} into an object"
        )
    if problem:
        wanted_type = f" (must be of type {kind.kind})" if kind else ""
        raise bad_request(
            f"the object provided is unrecognized{wanted_type}: {problem} ({_summary(body)})"
        )
    assert isinstance(value, dict)
    return value


def _summary(body: bytes) -> str:
    """The start of a body: as text when it might be JSON, else in hexadecimal."""
    if not body:
        return "<empty>"
    start = body[:30]
    text = start.decode(errors="replace") if body.startswith(b"{") else start.hex()
    return text + (" ..." if len(body) > len(start) else "")


def encode(value: Any, media: str) -> bytes:
    if media == YAML:
        return dump_yaml(value, sort_keys=True).encode()
    return msgspec.json.encode(value)
