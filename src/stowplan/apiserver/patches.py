"""PATCH bodies: picks the patch format by content type and applies it to a copy of the object.

Called by the REST layer, which then defaults, validates and stores the result. The object passed
in is never changed. Server-side apply is another matter and lives in `apply.py`.
"""

from __future__ import annotations

import copy
from typing import Any

from stowplan.apiserver import go_json
from stowplan.apiserver.json_patch import JsonPatchError, apply_json_patch
from stowplan.apiserver.kinds import Kind
from stowplan.apiserver.merge_schema import schema_of
from stowplan.apiserver.statuses import Failure, bad_request
from stowplan.apiserver.strategic import strategic_merge
from stowplan.logs import get_logger, kv

log = get_logger(__name__)

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
        return merge_patch(current, _object(patch))
    if media_type == STRATEGIC_MERGE_PATCH:
        return strategic_merge(copy.deepcopy(current), _object(patch), schema_of(kind))
    accepted = ", ".join((JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, APPLY_PATCH))
    raise Failure(
        415,
        "the body of the request was in an unknown format - accepted media types include: "
        f"{accepted}",
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
    operations = _decoded(patch)
    if not isinstance(operations, list):
        raise _undecodable(go_json.mismatch(operations, "[]handlers.jsonPatchOp"))
    for operation in operations:
        if not isinstance(operation, dict):
            raise _undecodable(go_json.mismatch(operation, "handlers.jsonPatchOp"))
    if len(operations) > _MAX_OPERATIONS:
        raise Failure(
            413,
            "Request entity too large: The allowed maximum operations in a JSON patch is "
            f"{_MAX_OPERATIONS}, got {len(operations)}",
            details={},
        )
    try:
        patched = apply_json_patch(copy.deepcopy(current), operations)
    except JsonPatchError as error:
        # What exactly does not apply is for our log only: kube-apiserver does not tell either.
        log.debug("JSON patch does not apply", extra=kv(error=str(error)))
        raise Failure(422, _REJECTED, details={}) from None
    if not isinstance(patched, dict):
        raise Failure(422, _REJECTED, details={})
    return patched


def _object(patch: bytes) -> Json:
    value = _decoded(patch)
    if not isinstance(value, dict):
        raise _undecodable(go_json.mismatch(value, "map[string]interface {}"))
    return value


def _decoded(patch: bytes) -> Any:
    try:
        return go_json.decode(patch)
    except go_json.GoJsonError as error:
        raise _undecodable(str(error)) from None


def _undecodable(why: str) -> Failure:
    return bad_request(f"error decoding patch: {why}")
