"""Content negotiation: which form the client wants, and what the body it sent means.

Only JSON and YAML are spoken. A client that prefers protobuf or CBOR gets JSON when its Accept
list allows it; one that insists gets a 406, and a 415 for such a body.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import yaml

from stowplan.apiserver.statuses import Failure, bad_request

Form = Literal["object", "table", "metadata"]

JSON = "application/json"
YAML = "application/yaml"
SPOKEN = f"{JSON}, {YAML}"
PATCH_TYPES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The agreed answer: its media type and its form."""

    media: str = JSON
    form: Form = "object"


_PLAIN = Wanted()
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
    raise Failure(406, f"only the following media types are accepted: {SPOKEN}")


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


def decode_body(content_type: str, body: bytes) -> dict[str, Any]:
    """The object in a request body; 400 or 415 with a reason when there is none."""
    media = media_type(content_type) or JSON
    if media not in (JSON, YAML, "application/octet-stream", "text/plain"):
        raise Failure(
            415,
            f"the body of the request was in an unknown format - accepted media types"
            f" include: {SPOKEN}",
        )
    if not body.strip():
        raise bad_request("the body of the request was empty, an object was expected")
    return decode_object(body, yaml_first=media == YAML)


def decode_object(body: bytes, *, yaml_first: bool = False) -> dict[str, Any]:
    try:
        value = _decode(body, yaml_first)
    except msgspec.DecodeError as error:
        raise bad_request(
            f"the object provided is unrecognized: couldn't read the body as JSON: {error}"
        ) from error
    except yaml.YAMLError as error:
        text = " ".join(str(error).split())
        raise bad_request(
            f"the object provided is unrecognized: couldn't read the body as YAML: {text}"
        ) from error
    if not isinstance(value, dict):
        raise bad_request(
            f"the object provided is unrecognized: expected an object, got {type(value).__name__}"
        )
    return value


def _decode(body: bytes, yaml_first: bool) -> Any:
    if yaml_first and not body.lstrip().startswith(b"{"):
        return yaml.load(body, Loader=_TextLoader)  # noqa: S506  (a SafeLoader, less timestamps)
    return msgspec.json.decode(body)


class _TextLoader(yaml.SafeLoader):
    """Kubernetes knows no dates in YAML: a timestamp stays the text it was."""


_TextLoader.yaml_implicit_resolvers = {
    first: [pair for pair in pairs if pair[0] != "tag:yaml.org,2002:timestamp"]
    for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def encode(value: Any, media: str) -> bytes:
    if media == YAML:
        text: str = yaml.safe_dump(value, sort_keys=True, default_flow_style=False)
        return text.encode()
    return msgspec.json.encode(value)
