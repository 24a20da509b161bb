"""Faults on purpose, for tests of bad days: wrong answers, silence, and answers that got lost.

`server.faults.append(Fault(path="/binding", status=409, times=1))` makes the next binding fail.
Rules are tried in order; the first that matches and is not used up decides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from stowplan.apiserver.statuses import Failure

if TYPE_CHECKING:
    from aiohttp import web

Action = Literal["answer", "drop", "hang", "delay", "arrive-late", "lose-answer", "hang-answer"]

_MESSAGES = {
    404: "the server could not find the requested resource",
    409: "Operation cannot be fulfilled: injected fault",
    429: "Too many requests, please try again later.",
    500: "Internal error occurred: injected fault",
    503: "the server is currently unable to handle the request",
    504: "Timeout: request did not complete within the allotted timeout",
}


@dataclass(slots=True)
class Fault:
    """One rule. What it does:

    answer       `status` with a Status body, and Retry-After when `retry_after_s` is set
    drop         close the connection without doing anything
    hang         neither do it nor answer, until the client gives up
    delay        wait `delay_s`, then do it as usual
    arrive-late  close the connection, and do it `delay_s` later
    lose-answer  do it, then close the connection without an answer
    hang-answer  do it, then never answer
    """

    path: str = ""  # a part of the path; empty matches all
    method: str = ""  # empty matches all
    action: Action = "answer"
    status: int = 500
    reason: str = ""
    message: str = ""
    retry_after_s: int | None = None
    delay_s: float = 0.0
    times: int | None = 1  # None: for ever
    after: int = 0  # let so many matching requests through first
    hits: int = field(default=0, init=False)
    _seen: int = field(default=0, init=False)

    def matches(self, method: str, path: str) -> bool:
        if (self.method and self.method != method) or self.path not in path:
            return False
        if self.times is not None and self.hits >= self.times:
            return False
        self._seen += 1
        return self._seen > self.after

    def failure(self) -> Failure:
        details = None
        if self.retry_after_s is not None:
            details = {"retryAfterSeconds": self.retry_after_s}
        message = self.message or _MESSAGES.get(self.status, "injected fault")
        return Failure(self.status, message, reason=self.reason or None, details=details)


def match(faults: Iterable[Fault], method: str, path: str) -> Fault | None:
    for fault in faults:
        if fault.matches(method, path):
            fault.hits += 1
            return fault
    return None


async def before(fault: Fault, request: web.BaseRequest) -> None:
    """What happens before the request is carried out, or instead of it."""
    match fault.action:
        case "answer":
            raise fault.failure()
        case "drop":
            cut(request)
        case "hang":
            await hang()
        case "delay":
            await asyncio.sleep(fault.delay_s)


async def after(fault: Fault, request: web.BaseRequest) -> None:
    """What happens to the answer of a request that was carried out."""
    match fault.action:
        case "lose-answer":
            cut(request)
        case "hang-answer":
            await hang()


def cut(request: web.BaseRequest) -> None:
    """Closes the connection under the request; aiohttp then ends its handler."""
    if request.transport is not None:
        request.transport.abort()
    raise asyncio.CancelledError


async def hang() -> None:
    await asyncio.Event().wait()
