"""The JSON API under /v1/ of the HTTPS port: routes by path and method, and their OpenAPI document.

`serving` adds operations; clients reach them after `https_site` has asked the API server whether
they may. Each operation brings its part of the document (/v1/openapi.json), so that the two cannot
name different paths. Every error is a `Status` object (`status_response`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, Final, TypeAlias
from urllib.parse import unquote

import msgspec

from stowplan import __version__
from stowplan.http.messages import JSON, Request, Response
from stowplan.server.health import Site
from stowplan.server.status_response import status_response

Json: TypeAlias = dict[str, Any]
#: Called with the request and the values of the path's {parameters}.
Operation: TypeAlias = Callable[[Request, Mapping[str, str]], Response | Awaitable[Response]]

PREFIX: Final = "/v1/"
_STATUS: Final[Json] = {
    "type": "object",
    "description": "An error, as the Kubernetes API server describes it.",
    "required": ["kind", "apiVersion", "status", "message", "reason", "code"],
    "properties": {
        "kind": {"const": "Status"},
        "apiVersion": {"const": "v1"},
        "metadata": {"type": "object"},
        "status": {"const": "Failure"},
        "message": {"type": "string", "description": "What is wrong, and where."},
        "reason": {"type": "string"},
        "details": {"type": "object"},
        "code": {"type": "integer", "description": "The HTTP status."},
    },
}
_EVERYWHERE: Final = {
    "400": "the request is invalid",
    "401": "the credentials are invalid",
    "403": "the API server does not allow this verb for this path",
    "405": "the path has other methods",
    "429": "too many requests at a time; Retry-After says when to try again",
}


def errors(**also: str) -> Json:
    """The error responses of an operation; a keyword such as _413 adds one."""
    texts = _EVERYWHERE | {code.lstrip("_"): text for code, text in also.items()}
    shape = {JSON: {"schema": {"$ref": "#/components/schemas/Status"}}}
    return {code: {"description": text, "content": shape} for code, text in sorted(texts.items())}


class V1:
    """The operations, by path and method."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._operations: dict[str, dict[str, Operation]] = {}
        self._document: Json = {
            "openapi": "3.1.0",
            "info": {
                "title": "Stowplan scheduler",
                "version": __version__,
                "description": "Questions to a running scheduler. The API server decides who may"
                " ask: non-resource URLs with the path and the method in lower case as the verb.",
                "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            },
            "servers": [{"url": "/"}],
            "security": [{"bearer": []}],
            "paths": {},
            "components": {
                "schemas": {"Status": _STATUS},
                "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            },
        }
        site.restricted[PREFIX] = self.answer
        self.add("GET", f"{PREFIX}openapi.json", self._serve_document, _DOCUMENT)

    def add(
        self,
        method: str,
        path: str,
        operation: Operation,
        described: Json,
        schemas: Mapping[str, Json] | None = None,
    ) -> None:
        """Serve `operation` at a path such as /v1/things/{name}; `described` is its OpenAPI
        operation, which may refer to `schemas` by #/components/schemas/NAME.
        """
        self._operations.setdefault(path, {})[method] = operation
        self._document["paths"].setdefault(path, {})[method.lower()] = described
        self._document["components"]["schemas"] |= schemas or {}
        self._site.restricted[path] = self.answer  # to be listed at /

    def answer(self, request: Request) -> Response | Awaitable[Response]:
        path = unquote(request.head.path)  # the path that was authorised
        for template, methods in self._operations.items():
            values = _match(template, path)
            if values is None:
                continue
            method = request.head.method
            operation = methods.get("GET" if method == "HEAD" else method)
            if operation is None:
                allowed = ", ".join([*methods, *(["HEAD"] if "GET" in methods else [])])
                return status_response(
                    HTTPStatus.METHOD_NOT_ALLOWED,
                    f"{method} is not allowed here. Fix: use {allowed}",
                    Allow=allowed,
                )
            return operation(request, values)
        known = ", ".join(self._operations)
        return status_response(HTTPStatus.NOT_FOUND, f"no such path; there are {known}")

    def _serve_document(self, _: Request, __: Mapping[str, str]) -> Response:
        return Response(msgspec.json.encode(self._document), 200, JSON)


_DOCUMENT: Final[Json] = {
    "operationId": "openapi",
    "summary": "This document.",
    "responses": {
        "200": {
            "description": "the document",
            "content": {JSON: {"schema": {"type": "object", "required": ["openapi", "paths"]}}},
        },
        **errors(),
    },
}


def _match(template: str, path: str) -> dict[str, str] | None:
    """The values of the template's parameters in a path; None if the path is another."""
    wanted, parts = template.split("/"), path.split("/")
    if len(wanted) != len(parts):
        return None
    values: dict[str, str] = {}
    for want, part in zip(wanted, parts, strict=True):
        if want.startswith("{"):
            if not part:
                return None
            values[want[1:-1]] = part
        elif want != part:
            return None
    return values
