"""Requests, responses and limits of a server, and the site that it serves.

`server` and `server_connection` know bytes and sockets; a site (`extender.service`,
`server.health`) knows paths. Both know these types.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from time import perf_counter
from typing import Final, Protocol

import msgspec

from stowplan.http.parser import RequestHead

JSON: Final = "application/json"
TEXT: Final = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Limits:
    """The resources that clients may use."""

    max_body: int
    #: From the first byte of a request to its last; also the longest delivery of a response.
    request_timeout_s: float
    #: The longest time without a request on a connection.
    idle_timeout_s: float = 180.0
    #: One more closes the connection that has been without a request for longest.
    max_connections: int = 1000
    #: Bodies above this size count towards what all clients together may send at a time.
    small_body: int = 1024 * 1024


@dataclass(frozen=True, slots=True)
class PeerCertificate:
    """A client's certificate that the TLS layer verified.

    Where `client_certificates` lets strangers through, the chain holds no CA that is trusted, and
    times are not verified.
    """

    common_name: str
    organizations: tuple[str, ...]
    #: SHA-256 of the certificate itself, and of every certificate of the verified chain.
    sha256: bytes
    chain: frozenset[bytes] = frozenset()
    #: When the certificate itself expires, and when all of the chain is valid: seconds since 1970.
    expires: float = math.inf
    valid_from: float = -math.inf
    valid_until: float = math.inf

    def is_valid_at(self, time: float) -> bool:
        return self.valid_from <= time <= self.valid_until


# The two are not frozen because creating them would take three times as long.
@dataclass(slots=True)
class Request:
    head: RequestHead
    body: bytes | bytearray
    certificate: PeerCertificate | None = None
    #: When the last byte arrived.
    arrived: float = field(default_factory=perf_counter)
    #: Address and port of the client of a TLS connection, for logs.
    source: str = ""


@dataclass(slots=True)
class Response:
    body: bytes
    status: int = 200
    content_type: str = JSON
    headers: dict[str, str] = field(default_factory=dict)


class Outlet(Protocol):
    """Where the body of a `Stream` goes."""

    def send(self, data: bytes) -> bool:
        """Send a piece; False if the client is gone, or was cut off because it reads too slowly."""

    def end(self) -> None:
        """End the body, and with it the connection."""


@dataclass(slots=True)
class Stream(Response):
    """A response whose body is sent in pieces until the connection ends."""

    #: Called once with the outlet, when the head was sent.
    opened: Callable[[Outlet], None] = lambda outlet: None
    #: Called once, when the connection is gone.
    closed: Callable[[], None] = lambda: None


def error_response(status: HTTPStatus, problem: str, **headers: str) -> Response:
    """Return an error as JSON; the keywords are headers, with _ for -."""
    body = msgspec.json.encode({"Error": problem.encode("utf-8", "replace").decode()})
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(body, status.value, JSON, named)


class Site(Protocol):
    """What a server serves."""

    def refuse(self, head: RequestHead, certificate: PeerCertificate | None) -> Response | None:
        """Return a response to refuse a request before its body is read."""

    def answer(self, request: Request) -> Response | Awaitable[Response]:
        """Return the response to a complete request."""

    def error(self, status: HTTPStatus, problem: str) -> Response:
        """Return the response to a request that is no proper HTTP, too large or too slow."""

    def refused(self, status: int) -> None:
        """Called for every request that did not reach `answer`."""
