"""The network between simulated schedulers and the embedded API server, and what it does wrong.

`Wire` is the real `api.transport.Transport` with its sockets replaced: retries, timeouts, guards
and adaptive limits are the product's own. Requests and responses travel for a few virtual
milliseconds, outside of the process that sent them: they arrive although it was frozen or killed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import Context
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from stowplan.api.auth import Credential
from stowplan.api.kubeconfig import ClusterConfig
from stowplan.api.transport import Lane, Transport
from stowplan.apiserver.cluster import EmbeddedCluster
from stowplan.apiserver.paths import ResourcePath, parse_path
from stowplan.apiserver.rest import ApiRequest
from stowplan.apiserver.statuses import Failure, no_such_path, status_of
from stowplan.apiserver.watching import Watch
from stowplan.clock import Clock
from stowplan.errors import ApiError
from stowplan.http.client import BrokenOff, ClientResponse, Disconnected, Guard
from stowplan.http.parser import CHUNKED, Headers, ResponseHead
from stowplan.loader.json_text import load_json

_CONFIG = ClusterConfig(server="http://simulated")
_GARBAGE = b'{"type":"MODIFIED","object":{"kind":"Pod","metadata":{"name":"\xff\n'
_ANSWERS = {
    "403": Failure(403, "forbidden: injected fault"),
    "404": Failure(404, "the server could not find the requested resource"),
    "409": Failure(409, "Operation cannot be fulfilled: injected fault", reason="Conflict"),
    "410": Failure(410, "too old resource version: injected fault", reason="Expired"),
    "429": Failure(429, "Too many requests, please try again later."),
    "500": Failure(500, "Internal error occurred: injected fault"),
    "503": Failure(503, "the server is currently unable to handle the request"),
    "504": Failure(504, "Timeout: request did not complete within the allotted timeout"),
}
#: What can happen to a watch after it was opened.
WATCH_FAULTS = ("garbage", "half", "silent", "end", "gone", "twice")
#: Every fault; a 429 may have Retry-After behind a plus.
FAULTS = frozenset((*_ANSWERS, "429+1", "429+3", *WATCH_FAULTS)) | {
    "reset", "lost", "unheard", "unanswered", "delay", "late", "stale"
}  # fmt: skip
#: Requests that a fault is `on`.
REQUESTS = ("bind", "status", "events", "lease", "watch", "list", "read", "any")


@dataclass(slots=True)
class Rule:
    """Something that goes wrong with the next `times` requests of a kind, until a time."""

    #: One of REQUESTS; a part of the path may follow.
    on: str
    what: str
    times: int
    until: float
    seconds: float = 0.0
    replica: int | None = None

    def fits(self, replica: int, kind: str, path: str) -> bool:
        if self.times <= 0 or (self.replica is not None and self.replica != replica):
            return False
        wanted, _, part = self.on.partition("/")
        return wanted in (kind, "any") and (not part or part in path)


class Network:
    """All requests of a run, and the rules that spoil them."""

    def __init__(self, cluster: EmbeddedCluster, clock: Clock, rng: Random) -> None:
        self.cluster = cluster
        self.rules: list[Rule] = []
        #: What schedulers must not send.
        self.findings: list[str] = []
        self.trace: list[str] = []
        self._clock = clock
        self._rng = rng
        self._started = clock.monotonic()
        #: Nothing that travels belongs to a process.
        self._context = Context()

    def now(self) -> float:
        """Virtual seconds since the start."""
        return self._clock.monotonic() - self._started

    def note(self, what: str) -> None:
        self.trace.append(f"{self.now():.6f} {what}")

    def later(self, delay_s: float, call: Callable[..., object], *args: Any) -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(delay_s, call, *args, context=self._context)

    def latency(self) -> float:
        return 0.0005 + self._rng.random() ** 4 * 0.05

    def rule_for(self, replica: int, kind: str, path: str) -> Rule | None:
        now = self.now()
        for rule in self.rules:
            if now < rule.until and rule.fits(replica, kind, path):
                rule.times -= 1
                return rule
        return None

    def cut(self, data: bytes) -> bytes:
        return data[: self._rng.randrange(len(data) or 1)]

    def answer(self, request: ApiRequest) -> tuple[int, bytes]:
        """Carry out a request now."""
        try:
            answer = self.cluster.rest.answer(request)
        except ApiError as refusal:
            return refusal.status, msgspec.json.encode(status_of(refusal))
        return answer.code, answer.body


class Wire(Transport):
    """One scheduler process' way to the API server."""

    def __init__(self, network: Network, replica: int, clock: Clock) -> None:
        super().__init__(_CONFIG, clock=clock)
        self._network = network
        self._replica = replica
        self.is_cut = False
        #: Bindings that were answered with 201, by their bodies.
        self._bound: set[bytes] = set()

    def _ask(
        self,
        lane: Lane,
        method: str,
        target: str,
        credential: Credential,
        body: bytes | None = None,
        content_type: str = "",
        accept: str = "",
        guard: Guard | None = None,
    ) -> Awaitable[ClientResponse]:
        if self.is_cut:
            raise Disconnected("the process is dead")
        if guard is not None:
            guard()
        path, found, query = _parsed(target)
        request = ApiRequest(
            method, found, dict(query), body or b"", content_type, accept, "stowplan"
        )
        kind = _kind(lane, request)
        rule = self._network.rule_for(self._replica, kind, path)
        exchange = _Exchange(self._network, f"r{self._replica} {method} {target}", request, rule)
        if found.subresource == "binding":
            if request.body in self._bound:
                self._network.findings.append(f"{path} was bound already, as the scheduler knows")
            exchange.on_created = lambda: self._bound.add(request.body)
        exchange.send()
        return exchange.response


@lru_cache(1000)
def _parsed(target: str) -> tuple[str, ResourcePath, tuple[tuple[str, str], ...]]:
    path, _, query = target.partition("?")
    found = parse_path(path)
    if found is None:
        raise no_such_path()
    return path, found, tuple(parse_qsl(query))


def _kind(lane: Lane, request: ApiRequest) -> str:
    if request.is_watch:
        return "watch"
    if request.method == "GET" and not request.target.name:
        return "list"
    return "read" if lane is Lane.READ else lane.value


class _Exchange:
    """One request, on its way there and back."""

    def __init__(
        self, network: Network, label: str, request: ApiRequest, rule: Rule | None
    ) -> None:
        self._network = network
        self._label = label
        self._request = request
        self._what = rule.what if rule is not None else ""
        self._seconds = rule.seconds if rule is not None else 0.0
        self.response: asyncio.Future[ClientResponse] = asyncio.get_running_loop().create_future()
        #: Called when the sender gets to read 201.
        self.on_created: Callable[[], None] = lambda: None

    def send(self) -> None:
        network = self._network
        match self._what:
            case "delay":
                network.later(self._seconds, self._arrive)
            case "late":
                network.later(network.latency(), self._fail)
                network.later(self._seconds, self._arrive)
            case _:
                network.later(network.latency(), self._arrive)

    def _arrive(self) -> None:
        network, what = self._network, self._what
        if self._request.is_watch and what in ("", "delay", *WATCH_FAULTS):
            self._open_watch()
            return
        status_text, _, wished = what.partition("+")
        headers = b"\r\n"
        if status_text in _ANSWERS:
            refusal = _ANSWERS[status_text]
            status, body = refusal.status, msgspec.json.encode(status_of(refusal))
            if wished:
                headers = b"\r\nretry-after: %d\r\n" % int(wished)
        elif what == "reset":
            network.note(f"{self._label} reset")
            network.later(network.latency(), self._fail)
            return
        elif what == "unheard":
            network.note(f"{self._label} unheard")
            return
        else:
            status, body = self._carry_out()
        network.note(f"{self._label} {status}{' ' + what if what else ''}")
        if what in ("lost", "late"):
            network.later(network.latency(), self._fail)
        elif what == "unanswered":
            return
        elif what == "half":
            response = _Reply(status, headers, network.cut(body), BrokenOff())
            network.later(network.latency(), self._deliver, response)
        elif what == "garbage":
            network.later(network.latency(), self._deliver, _Reply(200, headers, _GARBAGE))
        else:
            network.later(network.latency(), self._deliver, _Reply(status, headers, body))

    def _carry_out(self) -> tuple[int, bytes]:
        network, request = self._network, self._request
        if self._what != "stale" or request.method != "GET" or request.target.name:
            status, body = network.answer(request)
            if self._what == "twice" and status == 200:
                return status, _with_items_twice(body)
            return status, body
        return network.answer(request._replace(query={**request.query, **self._older()}))

    def _older(self) -> dict[str, str]:
        version = max(1, self._network.cluster.store.version - int(self._seconds) - 1)
        return {"resourceVersion": str(version), "resourceVersionMatch": "Exact"}

    def _open_watch(self) -> None:
        network = self._network
        try:
            watch = network.cluster.rest.watch(self._request)
        except ApiError as refusal:
            network.note(f"{self._label} {refusal.status}")
            body = msgspec.json.encode(status_of(refusal))
            network.later(network.latency(), self._deliver, _Reply(refusal.status, b"\r\n", body))
            return
        network.note(f"{self._label} open{' ' + self._what if self._what else ''}")
        network.later(
            network.latency(), self._deliver, _WatchReply(network, watch, self._what, self._label)
        )

    def _deliver(self, response: ClientResponse) -> None:
        if not self.response.done():
            self.response.set_result(response)
            if response.status == 201 and isinstance(response, _Reply) and response.is_whole:
                self.on_created()
        elif isinstance(response, _WatchReply):
            response.close()

    def _fail(self) -> None:
        if not self.response.done():
            self.response.set_exception(Disconnected("Connection reset by peer"))


def _with_items_twice(body: bytes) -> bytes:
    document = load_json(body, dict[str, Any])
    if isinstance(document.get("items"), list):
        document["items"] *= 2
    return msgspec.json.encode(document)


class _Reply(ClientResponse):
    """A response that has come, as a whole or up to a `problem`."""

    __slots__ = ("_body", "_problem")

    def __init__(
        self, status: int, headers: bytes, body: bytes, problem: Exception | None = None
    ) -> None:
        self.head = ResponseHead(status, Headers(headers), len(body), True)
        self.status = status
        self._body = body
        self._problem = problem

    @property
    def is_whole(self) -> bool:
        return self._problem is None

    async def read(self, limit: int) -> bytes:
        if self._problem is not None:
            raise self._problem
        return self._body

    async def piece(self) -> bytes:
        return await self.read(0)

    def close(self) -> None:
        """There is no connection."""


class _WatchReply(ClientResponse):
    """A watch: the server's lines, after their time on the way."""

    __slots__ = ("_label", "_network", "_pieces", "_waiting", "_watch", "_what")

    def __init__(self, network: Network, watch: Watch, what: str, label: str) -> None:
        self.head = ResponseHead(200, Headers(), CHUNKED, True)
        self.status = 200
        self._network = network
        self._watch = watch
        self._what = what
        self._label = label
        self._pieces = watch.pieces()

    async def piece(self) -> bytes:
        what = self._what
        if what == "silent":
            await asyncio.Event().wait()
        if what == "gone":
            self._what = "end"
            return b'{"type":"ERROR","object":%s}\n' % msgspec.json.encode(
                status_of(_ANSWERS["410"])
            )
        if what == "end":
            return b""
        if what == "broken":
            raise Disconnected("Connection reset by peer")
        try:
            piece = await anext(self._pieces)
        except StopAsyncIteration:
            return b""
        await asyncio.sleep(self._network.latency())
        match what:
            case "garbage":
                self._what = "broken"
                return _GARBAGE
            case "half":
                self._what = "broken"
                return self._network.cut(piece)
            case "twice":
                self._what = ""
                return piece + piece
        return piece

    def close(self) -> None:
        self._watch.close()
