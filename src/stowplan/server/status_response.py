"""Errors of the HTTPS port, as the `Status` object that clients of the API server parse."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

import msgspec

from stowplan.http.messages import JSON, Response

#: Kubernetes' words where the phrase of HTTP, which changes with Python's version, is another.
_REASONS: Final = {413: "RequestEntityTooLarge"}


def status_response(status: HTTPStatus, message: str, **headers: str) -> Response:
    """An error; the keywords are headers, with _ for -."""
    found: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message.encode("utf-8", "replace").decode(),
        "reason": _REASONS.get(status.value, status.phrase.replace(" ", "")),
    }
    if status is HTTPStatus.FORBIDDEN:
        found["details"] = {}
    body = msgspec.json.encode({**found, "code": status.value}) + b"\n"
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(body, status.value, JSON, secure_headers() | named)


def secure_headers() -> dict[str, str]:
    """Headers that keep an error out of caches, and from being read as HTML."""
    return {"Cache-Control": "no-cache, private", "X-Content-Type-Options": "nosniff"}
