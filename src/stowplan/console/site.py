"""Paths of the console, its files, and the checks of every request.

A page of another site must not read a cluster through the user's browser. Hence: only GET, no CORS,
a Host header that is this server's own (`hosts`), no API request that another site caused, and a
Content-Security-Policy without inline scripts. Where there are writes (`try_cluster`, `sign_in`),
they must be JSON and name this server as their Origin.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from importlib.resources import files
from inspect import isawaitable
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qs, unquote

import msgspec

from stowplan.console.hosts import names_loopback
from stowplan.errors import ApiError
from stowplan.http.messages import JSON, PeerCertificate, Request, Response, error_response
from stowplan.http.parser import RequestHead

PREFIX: Final = "/console/"
API: Final = "/console/api/"
_CSP: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "Content-Security-Policy": _CSP,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
_OWN_SITE: Final = ("", "same-origin", "none")
_SUFFIXES: Final = (".html", ".css", ".js", ".mjs", ".svg")

#: The values of a query by name.
Query: TypeAlias = dict[str, list[str]]
#: Given the parts of the path behind the resource's name, and the query; None: not found. What
#: takes long is awaited.
Resource: TypeAlias = Callable[[list[str], Query], Any]
#: Given the parts of the path behind the name, and the body; None: not found.
Write: TypeAlias = Callable[[list[str], bytes], Awaitable[Any]]


class ConsoleSite:
    """Answers requests: files from memory, resources as JSON."""

    def __init__(self) -> None:
        #: By the first part of the path below /console/api/.
        self.resources: dict[str, Resource] = {}
        #: What a POST may change, by the same; empty except for a demo or a simulation.
        self.writes: dict[str, Write] = {}
        self.events: Callable[[str], Response] = lambda last_id: _not_found("no events")
        self._files = _static_files()
        #: Of Origin headers: a proxy on loopback may have added TLS.
        self.schemes: tuple[str, ...] = ("http", "https")
        #: Whether a Host header is this server's own, and what to do if not.
        self.is_own_host: Callable[[str], bool] = names_loopback
        self.host_advice = "the Host header must name loopback: use http://127.0.0.1"

    def refuse(self, head: RequestHead, certificate: PeerCertificate | None) -> Response | None:
        is_write = head.method == "POST" and bool(self.writes)
        if head.method not in ("GET", "HEAD") and not is_write:
            problem = "the console only reads: GET and HEAD"
            return _safe(error_response(HTTPStatus.METHOD_NOT_ALLOWED, problem, Allow="GET, HEAD"))
        refused = self.refuse_host(head)
        if refused is not None:
            return refused
        is_foreign = head.headers.get("sec-fetch-site") not in _OWN_SITE
        if is_foreign and head.path.startswith(API):
            problem = "the request comes from a page of another site"
            return _safe(error_response(HTTPStatus.FORBIDDEN, problem))
        return self.refuse_foreign_write(head) if is_write else None

    def refuse_host(self, head: RequestHead) -> Response | None:
        host = head.headers.get("host")
        if self.is_own_host(host):
            return None
        problem = f"{self.host_advice}, not {host[:100]!r}"
        return _safe(error_response(HTTPStatus.MISDIRECTED_REQUEST, problem))

    def refuse_foreign_write(self, head: RequestHead) -> Response | None:
        """Refuse what a form or a script of another site could send."""
        own = tuple(f"{scheme}://{head.headers.get('host')}" for scheme in self.schemes)
        if head.headers.get("origin") not in own:
            problem = f"a write needs the header Origin: {own[0]}"
            return _safe(error_response(HTTPStatus.FORBIDDEN, problem))
        kind = head.headers.get("content-type").partition(";")[0].strip().lower()
        if head.method == "POST" and kind != JSON:
            problem = f"a write needs the header Content-Type: {JSON}"
            return _safe(error_response(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, problem))
        return None

    def safe(self, response: Response) -> Response:
        """The response with the headers of every response."""
        return _safe(response)

    def answer(self, request: Request) -> Response | Awaitable[Response]:
        answer = self._answer(request)
        return _safe(answer) if isinstance(answer, Response) else self._awaited(answer)

    async def _awaited(self, answer: Awaitable[Response]) -> Response:
        return _safe(await answer)

    def error(self, status: HTTPStatus, problem: str) -> Response:
        return _safe(error_response(status, problem))

    def refused(self, status: int) -> None:
        """Do not count refused requests."""

    def _answer(self, request: Request) -> Response | Awaitable[Response]:
        path = request.head.path
        if path in ("/", "/console"):
            return Response(b"", HTTPStatus.FOUND.value, "text/plain", {"Location": PREFIX})
        if path.startswith(API):
            return self._read(request) if request.head.method != "POST" else self._write(request)
        found = self._files.get(path.removeprefix(PREFIX) or "index.html")
        if found is None or not path.startswith(PREFIX):
            return _not_found(f"{path} is no page of the console; it begins at {PREFIX}")
        return Response(found[0], 200, found[1])

    def _read(self, request: Request) -> Response | Awaitable[Response]:
        head = request.head
        name, *rest = [unquote(part) for part in head.path.removeprefix(API).split("/")]
        query = parse_qs(head.query)
        if name == "events" and not rest:
            return self.events(head.headers.get("last-event-id") or query.get("after", [""])[0])
        resource = self.resources.get(name)
        try:
            found = resource(rest, query) if resource is not None else None
        except ApiError as problem:
            return _failed(problem)
        return _awaited_json(found, head.path) if isawaitable(found) else _json(found, head.path)

    def _write(self, request: Request) -> Response | Awaitable[Response]:
        path = request.head.path
        name, *rest = path.removeprefix(API).split("/")
        write = self.writes.get(name)
        if write is None:
            return _not_found(f"{path}: not found")
        return _awaited_json(write(rest, bytes(request.body)), path)


async def _awaited_json(coming: Awaitable[Any], path: str) -> Response:
    try:
        return _json(await coming, path)
    except ApiError as problem:
        return _failed(problem)


def _json(found: Any, path: str) -> Response:
    if found is None:
        return _not_found(f"{path}: not found")
    return Response(msgspec.json.encode(found), 200, JSON)


def _failed(problem: ApiError) -> Response:
    return error_response(HTTPStatus(problem.status), problem.message)


def _not_found(problem: str) -> Response:
    return error_response(HTTPStatus.NOT_FOUND, problem)


def _safe(response: Response) -> Response:
    response.headers |= _HEADERS
    return response


def _static_files() -> dict[str, tuple[bytes, str]]:
    """Content and type by path below `static`."""
    found: dict[str, tuple[bytes, str]] = {}
    folders = [("", files("stowplan.console") / "static")]
    while folders:
        prefix, folder = folders.pop()
        for each in folder.iterdir():
            if each.is_dir():
                folders.append((f"{prefix}{each.name}/", each))
            elif each.name.endswith(_SUFFIXES):
                found[prefix + each.name] = each.read_bytes(), _content_type(each.name)
    return found


def _content_type(name: str) -> str:
    if name.endswith((".js", ".mjs")):
        return "text/javascript; charset=utf-8"
    guessed = mimetypes.guess_type(name)[0] or "application/octet-stream"
    return f"{guessed}; charset=utf-8" if guessed.startswith("text/") else guessed
