"""A site behind authentication and authorisation, with kube-scheduler's refusals.

Wraps the site of `health` for the HTTPS port. Invariants: an open path without credentials is
answered at once, although the API server may not answer; requests that wait for it are limited, so
that they cannot occupy every connection that probes need.
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable
from http import HTTPStatus
from typing import Final
from urllib.parse import unquote

from stowplan.errors import NotFound, StowplanError
from stowplan.http.messages import TEXT, PeerCertificate, Request, Response
from stowplan.http.parser import RequestHead
from stowplan.logs import V3, Folding, get_logger, kv
from stowplan.server.access_metrics import AccessMetrics
from stowplan.server.authentication import ANONYMOUS, Authenticator, Unauthenticated, User
from stowplan.server.authorization import FLAG, Authorizer, OpenPaths
from stowplan.server.health import Site, index
from stowplan.server.review_cache import Busy
from stowplan.server.status_response import secure_headers, status_response

log = get_logger(__name__)

#: Of the 256 connections of the server.
MAX_WAITING: Final = 64
#: Only clients of /v1/ send such bodies, and they read JSON.
_OF_LARGE_BODIES: Final = (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.SERVICE_UNAVAILABLE)


class HttpsSite:
    """Asks who the client is and whether it may, then the site."""

    def __init__(
        self,
        site: Site,
        authenticate: Authenticator,
        authorize: Authorizer,
        open_paths: OpenPaths,
        metrics: AccessMetrics,
    ) -> None:
        self._metrics = metrics
        self._site = site
        site.restricted["/"] = lambda _: index([*site.routes, *site.restricted])
        self._authenticate = authenticate
        self._authorize = authorize
        self._open_paths = open_paths
        self._waiting = 0
        self._folding = Folding()

    def refuse(self, head: RequestHead, certificate: PeerCertificate | None) -> Response | None:
        return None  # a stranger must not learn which paths there are

    def answer(self, request: Request) -> Response | Awaitable[Response]:
        return self._logged(request) if log.isEnabledFor(V3) else self._answer(request)

    async def _logged(self, request: Request) -> Response:
        """Answer, and log the request as kube-scheduler does."""
        coming, head = self._answer(request), request.head
        response = coming if isinstance(coming, Response) else await coming
        fields: dict[str, object] = {
            "verb": head.method,
            "URI": f"{head.path}?{head.query}" if head.query else head.path,
            "latency": f"{(time.perf_counter() - request.arrived) * 1000:.3f}ms",
            "userAgent": head.headers.get("user-agent"),
            "audit-ID": head.headers.get("audit-id"),
            "srcIP": request.source,
            "resp": response.status,
        }
        log.log(V3, "HTTP", extra=kv(**fields))
        return response

    def _answer(self, request: Request) -> Response | Awaitable[Response]:
        head = request.head
        is_bare = request.certificate is None and not head.headers.get("authorization")
        if is_bare and self._open_paths.has(unquote(head.path)):
            self._metrics.authenticated(ANONYMOUS.name, 0.0)
            self._metrics.authorized("allowed", 0.0)
            return self._served(request)
        if self._waiting >= MAX_WAITING:
            return _too_many()
        return self._checked(request)

    def error(self, status: HTTPStatus, problem: str) -> Response:
        if status in _OF_LARGE_BODIES:
            return status_response(status, problem)
        return self._site.error(status, problem)

    def refused(self, status: int) -> None:
        self._site.refused(status)

    async def _checked(self, request: Request) -> Response:
        self._waiting += 1
        try:
            refusal = await self._refusal(request)
        finally:
            self._waiting -= 1
        if refusal is not None:
            return refusal
        response = self._served(request)
        return response if isinstance(response, Response) else await response

    async def _refusal(self, request: Request) -> Response | None:
        path, verb = unquote(request.head.path), request.head.method.lower()
        user: User | None = None
        started = time.perf_counter()
        try:
            user = await self._authenticate(request)
        except Busy:
            return _too_many()
        except (Unauthenticated, StowplanError) as error:
            self._report("Unable to authenticate the request", error)
            return status_response(HTTPStatus.UNAUTHORIZED, "Unauthorized")
        finally:
            name = None if user is None else user.name
            self._metrics.authenticated(name, time.perf_counter() - started)
        result, started = "error", time.perf_counter()
        try:
            decision = await self._authorize(user, verb, path)
            result = decision.result
        except Busy:
            return _too_many()
        except StowplanError as error:
            self._report("Unable to authorize the request", error)
            said = _no_reviews(path) if isinstance(error, NotFound) else str(error)
            problem = f"Internal Server Error: {_quoted(path)}: {said}\n"
            return Response(_harmless(problem).encode(), 500, TEXT, secure_headers())
        finally:
            self._metrics.authorized(result, time.perf_counter() - started)
        if decision.is_allowed:
            return None
        return status_response(HTTPStatus.FORBIDDEN, _forbidden(user, verb, path, decision.reason))

    def _served(self, request: Request) -> Response | Awaitable[Response]:
        path = unquote(request.head.path)
        # As in Go: a route that ends with a slash serves what is below it.
        below = self._site.restricted.get(path[: path.find("/", 1) + 1])
        restricted = self._site.restricted.get(path, below)
        if restricted is not None:
            response = restricted(request)
        else:
            refusal = self._site.refuse(request.head, request.certificate)
            response = refusal or self._site.answer(request)
        if isinstance(response, Response):
            response.headers.setdefault("Cache-Control", "no-cache, private")
        return response

    def _report(self, what: str, error: Exception) -> None:
        """Log one of many: any client can cause such a line."""
        left_out = self._folding.turn(time.monotonic())
        if left_out is not None:
            log.error(what, extra=kv(err=error, leftOut=left_out))


def _forbidden(user: User, verb: str, path: str, reason: str) -> str:
    text = f"User {_quoted(user.name)} cannot {verb} path {_quoted(path)}"
    return "forbidden: " + _harmless(text) + (f": {reason}" if reason else "")


def _no_reviews(path: str) -> str:
    opened = "/v1/*" if path.startswith("/v1/") else path
    return (
        "this API server has no SubjectAccessReview. Fix: start the scheduler with"
        f" {FLAG}=/healthz,/readyz,/livez,{opened} (for all who reach the port)"
    )


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _harmless(text: str) -> str:
    """Text that no browser takes for HTML."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _too_many() -> Response:
    problem = "too many requests wait for the API server"
    return status_response(HTTPStatus.TOO_MANY_REQUESTS, problem, Retry_After="1")
