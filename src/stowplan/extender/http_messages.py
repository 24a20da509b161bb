"""What passes between the HTTP server and what it serves: requests, answers, limits.

`http_server` and `http_connection` know bytes and sockets, `service` knows paths and algorithms;
both know these types.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass, field
from http import HTTPStatus
from time import perf_counter
from typing import Final, Protocol

import msgspec

from stowplan.extender.http_head import Head

JSON: Final = "application/json"


@dataclass(frozen=True, slots=True)
class Limits:
    """What a client may cost."""

    max_body: int
    #: From the first byte of a request to its last; also how long an answer may be on its way.
    request_timeout_s: float
    #: How long a connection may be there without a request.
    idle_timeout_s: float = 180.0


# Neither of the two is frozen only because making it would take three times as long.
@dataclass(slots=True)
class Request:
    head: Head
    body: bytes | bytearray
    #: Whether the client showed a certificate that the TLS layer found good.
    has_certificate: bool = False
    #: When its last byte was there.
    arrived: float = field(default_factory=perf_counter)


@dataclass(slots=True)
class Answer:
    body: bytes
    status: int = 200
    content_type: str = JSON
    headers: dict[str, str] = field(default_factory=dict)


def problem_answer(status: HTTPStatus, problem: str, **headers: str) -> Answer:
    """An error as JSON; the keywords are headers, with _ for -."""
    body = msgspec.json.encode({"Error": problem.encode("utf-8", "replace").decode()})
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(body, status.value, JSON, named)


class Site(Protocol):
    """What is served."""

    def refuse(self, head: Head, has_certificate: bool) -> Answer | None:
        """Whether a request goes no further, asked before its body is read."""

    def answer(self, request: Request) -> Answer | Awaitable[Answer]:
        """Asked for every complete request."""

    def refused(self, status: int) -> None:
        """Told of every request that `answer` is not asked about."""
