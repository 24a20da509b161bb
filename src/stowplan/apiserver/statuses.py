"""metav1.Status bodies: every error the server answers with, in kube-apiserver's words.

Functions here build the error to raise; `status_of` turns any `ApiError` into the JSON body.
Clients (client-go, kubectl, our own) branch on `reason` and `details`, so both must stay exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stowplan.apiserver.kinds import Kind
from stowplan.errors import ApiError

REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    409: "Conflict",
    410: "Expired",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


@dataclass(frozen=True, slots=True)
class Cause:
    """One field that is wrong; `reason` is a FieldValue... constant of metav1."""

    field: str
    message: str
    reason: str = "FieldValueInvalid"

    @property
    def text(self) -> str:
        return f"{self.field}: {self.message}"


class Failure(ApiError):
    """An error with the details that the Status body carries. An empty reason is left out."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        reason: str | None = None,
        details: dict[str, Any] | None = None,
        list_meta: dict[str, Any] | None = None,
    ) -> None:
        if reason is None:
            reason = REASONS.get(status, "")
        super().__init__(message, status=status, reason=reason)
        self.details = details
        self.list_meta = list_meta


def status_of(error: ApiError) -> dict[str, Any]:
    """The Status body for an error; errors raised without details get none."""
    body: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": getattr(error, "list_meta", None) or {},
        "status": "Failure",
        "message": error.message,
    }
    reason = error.reason
    if not reason and not isinstance(error, Failure):
        reason = REASONS.get(error.status, "Unknown")
    if reason:
        body["reason"] = reason
    details = getattr(error, "details", None)
    if details is not None:
        body["details"] = details
    body["code"] = error.status
    return body


def success(details: dict[str, Any] | None = None, *, code: int = 0) -> dict[str, Any]:
    body: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}}
    body["status"] = "Success"
    if details:
        body["details"] = details
    if code:
        body["code"] = code
    return body


def details_of(kind: Kind, name: str, **more: Any) -> dict[str, Any]:
    """kube-apiserver puts the resource, not the Kind, in `details.kind` of most errors."""
    details: dict[str, Any] = {"name": name} if name else {}
    if kind.group:
        details["group"] = kind.group
    details["kind"] = kind.plural
    details.update(more)
    return details


def not_found(kind: Kind, name: str) -> Failure:
    return Failure(404, f'{kind.resource} "{name}" not found', details=details_of(kind, name))


def already_exists(kind: Kind, name: str) -> Failure:
    return Failure(
        409,
        f'{kind.resource} "{name}" already exists',
        reason="AlreadyExists",
        details=details_of(kind, name),
    )


def conflict(kind: Kind, name: str, why: str) -> Failure:
    message = f'Operation cannot be fulfilled on {kind.resource} "{name}": {why}'
    return Failure(409, message, details=details_of(kind, name))


def storage_error(kind: Kind, obj: dict[str, Any], why: str) -> str:
    """How etcd's layer words a failed precondition."""
    place = "/".join(filter(None, (obj["metadata"].get("namespace"), obj["metadata"]["name"])))
    return (
        f"StorageError: invalid object, Code: 4, Key: /registry/{kind.plural}/{place},"
        f" ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {why}"
    )


def modified(kind: Kind, name: str) -> Failure:
    return conflict(
        kind,
        name,
        "the object has been modified; please apply your changes to the latest version and"
        " try again",
    )


def forbidden(kind: Kind, name: str, why: str, causes: tuple[Cause, ...] = ()) -> Failure:
    what = f'{kind.resource} "{name}" is forbidden' if name else f"{kind.resource} is forbidden"
    details = details_of(kind, name)
    if causes:
        details["causes"] = causes_of(causes)
    return Failure(403, f"{what}: {why}", details=details)


def invalid(kind: Kind, name: str, causes: list[Cause], *, by_resource: bool = False) -> Failure:
    """422. Here, unlike elsewhere, the Kind is named, except in one place of the update path."""
    texts = list(dict.fromkeys(cause.text for cause in causes))
    errors = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    what = kind.plural if by_resource else kind.kind
    qualified = f"{what}.{kind.group}" if kind.group else what
    details: dict[str, Any] = {"name": name} if name else {}
    if kind.group:
        details["group"] = kind.group
    details["kind"] = what
    details["causes"] = causes_of(causes)
    return Failure(422, f'{qualified} "{name}" is invalid: {errors}', details=details)


def invalid_options(options: str, cause: Cause) -> Failure:
    """A query parameter or option that is wrong; `options` is ListOptions, PatchOptions, ..."""
    details = {"group": "meta.k8s.io", "kind": options, "causes": causes_of([cause])}
    message = f'{options}.meta.k8s.io "" is invalid: {cause.text}'
    return Failure(422, message, details=details)


def unexplained(message: str) -> Failure:
    """Errors that kube-apiserver has no Status for come out as a 500 without a reason."""
    return Failure(500, message, reason="")


def causes_of(causes: list[Cause] | tuple[Cause, ...]) -> list[dict[str, str]]:
    return [
        {"reason": cause.reason, "message": cause.message, "field": cause.field} for cause in causes
    ]


def bad_request(message: str) -> Failure:
    return Failure(400, message)


def expired(message: str) -> Failure:
    return Failure(410, message)


def too_old(asked: int, oldest: int) -> Failure:
    return expired(f"too old resource version: {asked} ({oldest})")


def too_large(asked: int, current: int) -> Failure:
    """The client's version is newer than ours: retry after a second, as the watch cache answers."""
    details = {
        "causes": [
            {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"},
        ],
        "retryAfterSeconds": 1,
    }
    return Failure(
        504, f"Timeout: Too large resource version: {asked}, current: {current}", details=details
    )


def no_such_path() -> Failure:
    return Failure(404, "the server could not find the requested resource", details={})


def method_not_allowed() -> Failure:
    return Failure(
        405, "the server does not allow this method on the requested resource", details={}
    )
