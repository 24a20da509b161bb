"""Just enough OpenAPI for kubectl, and no schemas.

kubectl asks `/openapi/v3` whether PATCH takes the `fieldValidation` query parameter; when it does,
kubectl leaves validation to the server. To compute the patch of `kubectl apply` it looks for
schemas, finds none and uses the ones compiled into it. A `v1 List` is the one kind that kubectl
validates by itself, with `/openapi/v2` in protobuf: the smallest valid document there makes it
skip the check. The HTTP layer calls `openapi_document` with a path.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from stowplan.apiserver.discovery import group_versions
from stowplan.apiserver.kinds import KINDS, Kind

Json = dict[str, Any]

_V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
# Field 1 of the message (`swagger`), a string of three bytes.
_V2_BODY = b"\x0a\x032.0"

_PATCH_TYPES = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
)
_QUERY_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation", "force", "pretty")


def openapi_document(path: str) -> tuple[str, bytes] | None:
    """(content type, body) of the document at `path`, None when there is none."""
    path = path.strip("/")
    if path == "openapi/v2":
        return _V2_PROTOBUF, _V2_BODY
    if path == "openapi/v3":
        return "application/json", msgspec.json.encode(_index())
    for group, version in group_versions():
        root = _root(group, version)
        if path == f"openapi/v3/{root}":
            return "application/json", msgspec.json.encode(_group_document(group, version))
    return None


def _root(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


def _index() -> Json:
    paths: Json = {}
    for group, version in group_versions():
        document = msgspec.json.encode(_group_document(group, version))
        # kubectl caches the document under its hash, so a changed document needs a changed URL.
        digest = hashlib.sha256(document).hexdigest().upper()
        root = _root(group, version)
        paths[root] = {"serverRelativeURL": f"/openapi/v3/{root}?hash={digest}"}
    return {"paths": paths}


def _group_document(group: str, version: str) -> Json:
    paths = {
        _item_path(kind): {"patch": _patch_operation(kind)}
        for kind in KINDS
        if (kind.group, kind.version) == (group, version) and "patch" in kind.verbs
    }
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "unversioned"},
        "paths": paths,
        "components": {"schemas": {}},
    }


def _item_path(kind: Kind) -> str:
    scope = "/namespaces/{namespace}" if kind.namespaced else ""
    return f"/{_root(kind.group, kind.version)}{scope}/{kind.plural}/{{name}}"


def _patch_operation(kind: Kind) -> Json:
    body_types = {media: {"schema": {"type": "object"}} for media in _PATCH_TYPES}
    return {
        "parameters": [
            {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
            for name in _QUERY_PARAMETERS
        ],
        "requestBody": {"content": body_types, "required": True},
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": {
            "group": kind.group,
            "kind": kind.kind,
            "version": kind.version,
        },
    }
