"""PATCH bodies: picks the patch format by content type and applies it to a copy of the object.

Called by the REST layer, which then defaults, validates and stores the result. The object passed
in is never changed. Server-side apply is another matter and lives in `apply.py`.
"""

from __future__ import annotations

import copy
from typing import Any

import msgspec

from stowplan.apiserver.json_patch import JsonPatchError, apply_json_patch
from stowplan.apiserver.kinds import Kind
from stowplan.apiserver.merge_schema import schema_of
from stowplan.apiserver.statuses import Failure
from stowplan.apiserver.strategic import strategic_merge
from stowplan.errors import ApiError, BadRequest

Json = dict[str, Any]

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

_MAX_OPERATIONS = 10_000
_REJECTED = "the server rejected our request due to an error in our request"


def apply_patch(content_type: str, current: Json, patch: bytes, *, kind: Kind) -> Json:
    """The object that `patch` makes of `current`."""
    media_type = content_type.partition(";")[0].strip()
    if media_type == JSON_PATCH:
        return _json_patch(current, patch)
    if media_type == MERGE_PATCH:
        return merge_patch(current, _object(patch, "Invalid JSON Patch"))
    if media_type == STRATEGIC_MERGE_PATCH:
        return strategic_merge(copy.deepcopy(current), _object(patch), schema_of(kind))
    accepted = ", ".join((JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, APPLY_PATCH))
    raise ApiError(
        "the body of the request was in an unknown format - accepted media types include: "
        f"{accepted}",
        status=415,
        reason="UnsupportedMediaType",
    )


def merge_patch(current: Json, patch: Json) -> Json:
    """RFC 7386: maps merge key by key, null deletes, everything else is replaced."""
    result = {key: value for key, value in current.items() if key not in patch}
    for key, value in patch.items():
        if value is None:
            continue
        before = current.get(key)
        if isinstance(value, dict):
            result[key] = merge_patch(before if isinstance(before, dict) else {}, value)
        else:
            result[key] = value
    return copy.deepcopy(result)


def _json_patch(current: Json, patch: bytes) -> Json:
    try:
        operations = msgspec.json.decode(patch, type=list[dict[str, Any]])
    except msgspec.ValidationError as error:
        raise BadRequest(f"error decoding patch: {error}") from None
    except msgspec.DecodeError as error:
        raise BadRequest(f"error decoding patch: {error}") from None
    if len(operations) > _MAX_OPERATIONS:
        raise ApiError(
            "Request entity too large: The allowed maximum operations in a JSON patch is "
            f"{_MAX_OPERATIONS}, got {len(operations)}",
            status=413,
            reason="RequestEntityTooLarge",
        )
    try:
        patched = apply_json_patch(copy.deepcopy(current), operations)
    except JsonPatchError as error:
        # kube-apiserver hides the library's text from the client; we keep it as a cause.
        raise Failure(
            422,
            _REJECTED,
            details={"causes": [{"reason": "UnexpectedServerResponse", "message": str(error)}]},
        ) from None
    if not isinstance(patched, dict):
        raise Failure(422, _REJECTED, details={})
    return patched


def _object(patch: bytes, complaint: str = "") -> Json:
    try:
        return msgspec.json.decode(patch, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise BadRequest(complaint or f"error decoding patch: {error}") from None
