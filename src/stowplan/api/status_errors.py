"""From what the API server answered to the typed errors of `stowplan.errors`.

Called by `transport` for HTTP answers and by `watch` for ERROR events. Whatever the body holds
(no JSON, wrong types, an HTML page of a proxy) an ApiError comes out; only Kubernetes' own Status
messages are quoted in full, other bodies are cut short, as they may hold anything.
"""

from __future__ import annotations

from stowplan.api.objects import Status
from stowplan.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    ServerError,
    Throttled,
    Unauthorized,
)
from stowplan.loader.json_text import UNREADABLE, json_decoder

_SHOWN = 256
_DEFAULT_RETRY_AFTER_S = 1.0
#: A day. Callers wait less; a number of any size must not become infinite.
_MAX_RETRY_AFTER_S = 86_400


class _StatusBody(Status, frozen=True):
    kind: str = ""


_decode = json_decoder(_StatusBody)

_BY_CODE: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
}


def error_from_response(
    code: int, body: bytes, *, request: str, retry_after: str | None = None
) -> ApiError:
    """`request` is the method and path, for messages that would say nothing without it."""
    status = parse_status(body)
    if status is None:
        shown = " ".join(body[:_SHOWN].decode(errors="replace").split())
        message = f"{request}: HTTP {code}" + (f": {shown}" if shown else "")
        return _build(code, message, "", _seconds(retry_after))
    wished = _seconds(retry_after)
    if wished is None and status.details and status.details.retry_after_seconds > 0:
        wished = float(min(status.details.retry_after_seconds, _MAX_RETRY_AFTER_S))
    message = status.message or f"{request}: {status.reason or f'HTTP {code}'}"
    return _build(code, message, status.reason, wished)


def error_from_status(body: bytes, *, request: str) -> ApiError:
    """A Status in the place of an object, as in a watch's ERROR event."""
    status = parse_status(body)
    code = status.code if status is not None and status.code >= 400 else 500
    if status is not None and status.reason in ("Expired", "Gone"):
        code = 410
    return error_from_response(code, body, request=request)


def parse_status(body: bytes) -> Status | None:
    """None for anything but a metav1.Status."""
    try:
        status = _decode(body)
    except UNREADABLE:
        return None
    return status if status.kind == "Status" else None


def _build(code: int, message: str, reason: str, retry_after_s: float | None) -> ApiError:
    if code == 429:
        return Throttled(
            message,
            reason=reason,
            retry_after_s=_DEFAULT_RETRY_AFTER_S if retry_after_s is None else retry_after_s,
        )
    if code == 409 and reason == "AlreadyExists":
        return AlreadyExists(message, status=code, reason=reason)
    error = ServerError if code >= 500 else _BY_CODE.get(code, ApiError)
    return error(message, status=code, reason=reason)


def _seconds(retry_after: str | None) -> float | None:
    """Kubernetes writes whole seconds only; a date or junk counts as not said."""
    if retry_after is None or not retry_after.strip().isascii():
        return None
    text = retry_after.strip()
    return min(float(text), _MAX_RETRY_AFTER_S) if text.isdigit() else None
