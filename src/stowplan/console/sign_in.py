"""A console that others can reach: who may read it, by a bearer token or by a browser's session.

Wraps the site of a console on HTTPS. Pages and scripts are open, because they are the package's own
files; everything below /console/api/ needs a token. A program sends it with every request. A
browser sends it once, to /console/api/session, and gets a cookie that no script can read and no
other site can use. Failed attempts are limited by address.
"""

from __future__ import annotations

import asyncio
import ipaddress
import math
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final, TypeAlias

import msgspec

from stowplan.clock import Clock
from stowplan.console.sessions import LASTS_S, FailedSignIns, Session, Sessions
from stowplan.console.site import API, ConsoleSite
from stowplan.errors import StowplanError
from stowplan.http.messages import (
    JSON,
    Outlet,
    PeerCertificate,
    Request,
    Response,
    Stream,
    error_response,
)
from stowplan.http.parser import RequestHead
from stowplan.loader.json_text import load_json
from stowplan.logs import Folding, get_logger, kv

log = get_logger(__name__)

SESSION: Final = f"{API}session"
#: Browsers accept this prefix only with Secure, Path=/ and no Domain.
COOKIE: Final = "__Host-stowplan-console"
#: A stream ends after this time. The browser resumes it, and its token is checked again.
STREAM_S: Final = 300.0
_ATTRIBUTES: Final = "Path=/; Secure; HttpOnly; SameSite=Strict"
_MOST_TOKEN: Final = 16 * 1024
_HOW: Final = "sign in, or send the header Authorization: Bearer TOKEN"


class NotKnown(Exception):
    """The token is not valid."""


class NotAllowed(Exception):
    """The token is valid, but its user may not see the console."""


#: Given a token and a verb (get, post), the user's name; NotKnown, NotAllowed, or an error of ours
#: if the API server cannot be asked.
TokenCheck: TypeAlias = Callable[[str, str], Awaitable[str]]


class _Credentials(msgspec.Struct):
    token: str


class SignInSite:
    """Asks for a token, then the console's site."""

    def __init__(self, site: ConsoleSite, check: TokenCheck, clock: Clock) -> None:
        self._site = site
        self._check = check
        self._clock = clock
        self._sessions = Sessions(clock)
        self._failed = FailedSignIns(clock)
        self._folding = Folding()

    def refuse(self, head: RequestHead, certificate: PeerCertificate | None) -> Response | None:
        if head.path != SESSION or head.method not in ("POST", "DELETE"):
            return self._site.refuse(head, certificate)
        return self._site.refuse_host(head) or self._site.refuse_foreign_write(head)

    def answer(self, request: Request) -> Response | Awaitable[Response]:
        path = request.head.path
        return self._api(request) if path.startswith(API) else self._site.answer(request)

    def error(self, status: HTTPStatus, problem: str) -> Response:
        return self._site.error(status, problem)

    def refused(self, status: int) -> None:
        self._site.refused(status)

    async def _api(self, request: Request) -> Response:
        head = request.head
        if head.path == SESSION and head.method == "POST":
            return self._site.safe(await self._sign_in(request))
        name = _cookie(head)
        if head.path == SESSION and head.method == "DELETE":
            self._sessions.end(name)
            gone = {"Set-Cookie": f"{COOKIE}=; Max-Age=0; {_ATTRIBUTES}"}
            return self._site.safe(Response(b"{}", 200, JSON, gone))
        bearer = _bearer(head)
        session = self._sessions.find(name) if name and not bearer else None
        token = session.token if session is not None else bearer
        if not token:
            return self._refusal(HTTPStatus.UNAUTHORIZED, _HOW)
        user = await self._user(request, token, is_guess=session is None)
        if isinstance(user, Response):
            if session is not None and user.status == HTTPStatus.UNAUTHORIZED:
                self._sessions.end(name)
            return self._site.safe(user)
        if head.path == SESSION:
            return self._site.safe(_said(user))
        answer = self._site.answer(request)
        response = answer if isinstance(answer, Response) else await answer
        return _limited(response, session) if isinstance(response, Stream) else response

    async def _sign_in(self, request: Request) -> Response:
        try:
            token = load_json(request.body, _Credentials).token.strip()
        except ValueError:
            problem = 'the body must be JSON such as {"token": "..."}'
            return error_response(HTTPStatus.BAD_REQUEST, problem)
        if not token or len(token) > _MOST_TOKEN or not token.isascii():
            return error_response(HTTPStatus.UNAUTHORIZED, "the token is not valid")
        user = await self._user(request, token, is_guess=True)
        if isinstance(user, Response):
            return user
        response = _said(user)
        name = self._sessions.begin(token)
        response.headers["Set-Cookie"] = f"{COOKIE}={name}; Max-Age={LASTS_S}; {_ATTRIBUTES}"
        return response

    async def _user(self, request: Request, token: str, *, is_guess: bool) -> str | Response:
        """The user's name, or a refusal."""
        address = _source(request.source)
        if is_guess and (left := self._failed.wait_s(address)):
            problem = "too many sign-ins have failed; wait a minute"
            seconds = str(math.ceil(left))
            return error_response(HTTPStatus.TOO_MANY_REQUESTS, problem, Retry_After=seconds)
        verb = "post" if request.head.method == "POST" and request.head.path != SESSION else "get"
        try:
            return await self._check(token, verb)
        except NotKnown:
            if is_guess:
                self._failed.add(address)
                self._report("A sign-in failed", address, "the token is not valid")
            return error_response(HTTPStatus.UNAUTHORIZED, "the token is not valid")
        except NotAllowed as problem:
            return error_response(HTTPStatus.FORBIDDEN, str(problem))
        except StowplanError as problem:
            self._report("A token could not be checked", address, str(problem))
            said = "the token cannot be checked now: the API server does not answer as expected"
            return error_response(HTTPStatus.SERVICE_UNAVAILABLE, said, Retry_After="5")

    def _refusal(self, status: HTTPStatus, problem: str) -> Response:
        return self._site.safe(error_response(status, problem))

    def _report(self, message: str, address: str, problem: str) -> None:
        """Log one of many: any client can cause such a line."""
        left_out = self._folding.turn(self._clock.monotonic())
        if left_out is not None:
            log.warning(message, extra=kv(address=address, err=problem, leftOut=left_out))


def _said(user: str) -> Response:
    return Response(msgspec.json.encode({"user": user}), 200, JSON)


def _cookie(head: RequestHead) -> str:
    """The session's id; "" without one."""
    for part in head.headers.get("cookie").split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE:
            return value
    return ""


def _bearer(head: RequestHead) -> str:
    kind, _, token = head.headers.get("authorization").partition(" ")
    token = token.strip()
    return token if kind.lower() == "bearer" and len(token) <= _MOST_TOKEN else ""


def _source(source: str) -> str:
    """A client's address without its port; of IPv6, the network that one client usually has."""
    host = source.rpartition(":")[0].strip("[]")
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    return str(address.ipv4_mapped or ipaddress.ip_network((address, 64), strict=False))


def _limited(stream: Stream, session: Session | None) -> Stream:
    """The same stream, which ends with the session, and after some minutes in any case."""
    opened, closed = stream.opened, stream.closed
    undo: list[Callable[[], object]] = []

    def on_opened(outlet: Outlet) -> None:
        timer = asyncio.get_running_loop().call_later(STREAM_S, outlet.end)
        undo.append(timer.cancel)
        if session is not None:
            session.outlets.add(outlet)
            undo.append(lambda: session.outlets.discard(outlet))
        opened(outlet)

    def on_closed() -> None:
        for each in undo:
            each()
        closed()

    stream.opened, stream.closed = on_opened, on_closed
    return stream
