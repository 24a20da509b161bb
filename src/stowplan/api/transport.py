"""HTTP to one API server: lanes, credentials, retries after 429, errors with a type.

`client` speaks Kubernetes on top of it. Each lane has its own connection pool, rate limit and
concurrency limit, so that events or a slow list never delay binds or the lease. Every failure
leaves as ApiError (the server answered) or ApiUnavailable (it did not).
"""

from __future__ import annotations

import asyncio
import random
import re
import ssl
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from enum import StrEnum
from typing import Any, Final, Protocol, TypeAlias, TypedDict, Unpack
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from stowplan.api.adaptive_limit import AdaptiveLimit
from stowplan.api.auth import Credential, credentials_for
from stowplan.api.kubeconfig import ClusterConfig
from stowplan.api.lanes import JSON, Lanes
from stowplan.api.loopback import is_loopback as _is_loopback
from stowplan.api.no_answer import NO_ANSWER, unavailable
from stowplan.api.rate_limit import TokenBucket
from stowplan.api.request_observer import NO_CODE, RequestObserver
from stowplan.api.status_errors import error_from_response
from stowplan.api.tls import build_context
from stowplan.api.watch import Chunk
from stowplan.clock import Clock, SystemClock
from stowplan.errors import KubeconfigError, Throttled, Unauthorized
from stowplan.http.client import ClientResponse, Guard

Params: TypeAlias = Mapping[str, str | int]
#: Bytes, or an object to be sent as JSON.
Body: TypeAlias = bytes | Mapping[str, Any]

_MAX_THROTTLE_RETRIES = 10
_MAX_RETRY_AFTER_S = 30.0
#: 500 objects, a page of a list, cannot have more: etcd takes 1.5 MiB of each.
_MAX_ANSWER = 1024 * 1024 * 1024
#: A few objects at most.
_MAX_SHORT_ANSWER = 16 * 1024 * 1024
_PATH_SAFE = "/:@!$&'()*+,;=-._~"
_encode = msgspec.json.Encoder().encode
_is_safe_path = re.compile(r"[A-Za-z0-9/:@!$&'()*+,;=\-._~]*").fullmatch


class Lane(StrEnum):
    """The purpose of a request. Lanes share nothing but the credential."""

    READ = "read"
    WATCH = "watch"
    BIND = "bind"
    STATUS = "status"
    EVENTS = "events"
    LEASE = "lease"


#: Lanes with short requests and responses; the other lanes share connections and may use gzip.
_SHORT = frozenset((Lane.BIND, Lane.STATUS, Lane.EVENTS, Lane.LEASE))
# Concurrent requests. Streams take no slot: they last, and their number is not limited.
_AT_A_TIME = {Lane.READ: 16, Lane.WATCH: 16, Lane.STATUS: 32, Lane.EVENTS: 64, Lane.LEASE: 2}


#: Of a request, unless the caller says otherwise.
TIMEOUT_S: Final = 30.0


class RequestOptions(TypedDict, total=False):
    """Keyword arguments of a request; `Transport.request` has the defaults."""

    params: Params | None
    body: Body | None
    content_type: str
    accept: str
    lane: Lane
    timeout_s: float
    retry_throttled: bool
    #: False: the caller does not read the answer, so a server of this process need not write it.
    reads_answer: bool
    #: Runs immediately before the bytes are written, and raises if they must not be.
    guard: Guard | None


class Requests(Protocol):
    """The way from a client to an API server; `Transport` uses HTTP."""

    async def request(self, method: str, path: str, **options: Unpack[RequestOptions]) -> bytes: ...

    def stream(
        self, path: str, *, params: Params, inactivity_s: float
    ) -> AbstractAsyncContextManager[AsyncIterable[Chunk]]: ...

    async def close(self) -> None: ...


class Transport:
    """Sends requests; `close` it at the end."""

    def __init__(
        self,
        config: ClusterConfig,
        *,
        user_agent: str = "stowplan",
        qps: float = 0,
        burst: int = 0,
        bind_concurrency: int = 64,
        clock: Clock | None = None,
        observer: RequestObserver | None = None,
    ) -> None:
        self._config = config
        self._observer = observer
        self._host = urlsplit(config.server).netloc.rpartition("@")[2]
        self._server = config.server.rstrip("/")
        self._credentials = credentials_for(config, clock=clock)
        # The wait for a slot is not part of a request's timeout.
        self._concurrency = {
            lane: AdaptiveLimit(limit)
            for lane, limit in {**_AT_A_TIME, Lane.BIND: bind_concurrency}.items()
        }
        always = [("User-Agent", user_agent), *config.impersonate]
        server_name = config.tls_server_name
        self._lanes = Lanes(
            self._server, always, tls_server_name=server_name, proxy_url=config.proxy_url
        )
        self._clock = clock = clock or SystemClock()
        limited: list[Lane] = [lane for lane in Lane if qps > 0 and lane is not Lane.WATCH]
        self._rate_limits = {lane: TokenBucket(qps, burst, clock=clock) for lane in limited}
        self._wants_gzip = not config.disable_compression and not _is_loopback(self._server)
        # One context a certificate: a new object means new connections.
        self._tls_for: Credential | None = None
        self._tls: ssl.SSLContext | None = None
        self._uses_tls = self._server.startswith("https://")
        if self._uses_tls and config.exec is None:
            self._tls_context(Credential("", config.client_cert, config.client_key))

    @property
    def server(self) -> str:
        return self._server

    async def close(self) -> None:
        self._lanes.close()

    async def request(self, method: str, path: str, **options: Unpack[RequestOptions]) -> bytes:
        """Send a request and return the body of its response, see `RequestOptions`."""
        observer, began = self._observer, self._clock.monotonic()
        body = options.get("body")
        if isinstance(body, Mapping):
            options["body"] = body = _encode(body)
        if observer is None:
            return await self._request(method, path, began, **options)
        received: int | None = None
        try:
            answer = await self._request(method, path, began, **options)
            received = len(answer)
            return answer
        finally:
            seconds = self._clock.monotonic() - began
            observer.ended(method, self._host, seconds, len(body or b""), received)

    async def _request(
        self,
        method: str,
        path: str,
        began: float,
        *,
        params: Params | None = None,
        body: Body | None = None,
        content_type: str = JSON,
        accept: str = "",
        lane: Lane = Lane.READ,
        timeout_s: float = TIMEOUT_S,
        retry_throttled: bool = True,
        reads_answer: bool = True,
        guard: Guard | None = None,
    ) -> bytes:
        """Wait and repeat the request after 429, and once after 401."""
        assert body is None or isinstance(body, bytes), "`request` encodes it"
        observer = self._observer
        rate_limit = self._rate_limits.get(lane)
        if rate_limit is not None:
            await rate_limit.take()
        if observer is not None:
            observer.limited(method, self._host, self._clock.monotonic() - began)
        target = _target(path, params)
        longest = _MAX_SHORT_ANSWER if lane in _SHORT else _MAX_ANSWER
        limit = self._concurrency[lane]
        is_renewed = False
        throttled = 0
        while True:
            credential = self._credentials.cached() or await self._credentials.obtain()
            try:
                async with limit, asyncio.timeout(timeout_s):
                    # The credential may have been renewed during the wait for a slot.
                    credential = self._credentials.cached() or credential
                    response = await self._ask(
                        lane, method, target, credential, body, content_type, accept, guard
                    )
                    status, answer = response.status, await response.read(longest)
            except NO_ANSWER as error:
                limit.refused()
                self._answered(method, NO_CODE)
                raise unavailable(self._server, f"{method} {path}", error) from error
            self._answered(method, str(status))
            if status == 429 or status >= 500:
                limit.refused()
            else:
                limit.answered()
            if status < 300:
                return answer
            refusal = error_from_response(
                status,
                answer,
                request=f"{method} {path}",
                retry_after=response.head.headers.get("retry-after") or None,
            )
            if status == 401 and not is_renewed:
                is_renewed = True
                if await self._credentials.refresh(credential) != credential:
                    self._retried(method, status)
                    continue
            if (
                not isinstance(refusal, Throttled)
                or not retry_throttled
                or throttled >= _MAX_THROTTLE_RETRIES
            ):
                raise refusal
            throttled += 1
            self._retried(method, status)
            wait_s = min(refusal.retry_after_s, _MAX_RETRY_AFTER_S)
            # Jitter, so that throttled requests do not all return at the same moment.
            await asyncio.sleep(wait_s * random.uniform(1.0, 1.1))

    def _answered(self, method: str, code: str) -> None:
        if self._observer is not None:
            self._observer.answered(method, self._host, code)

    def _retried(self, method: str, status: int) -> None:
        if self._observer is not None:
            self._observer.retried(method, self._host, str(status))

    @asynccontextmanager
    async def stream(
        self, path: str, *, params: Params, inactivity_s: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Yield the pieces of a long response; silence for `inactivity_s` is an error."""
        target = _target(path, params)
        request = f"GET {path}"
        is_renewed = False
        while True:
            credential = self._credentials.cached() or await self._credentials.obtain()
            try:
                async with asyncio.timeout(inactivity_s):
                    response = await self._ask(Lane.WATCH, "GET", target, credential)
                    self._answered("GET", str(response.status))
                    if response.status == 200:
                        break
                    answer = await response.read(_MAX_ANSWER)
            except NO_ANSWER as error:
                self._answered("GET", NO_CODE)
                raise unavailable(self._server, request, error) from error
            if response.status == 401 and not is_renewed:
                is_renewed = True
                if await self._credentials.refresh(credential) != credential:
                    continue
            raise error_from_response(
                response.status,
                answer,
                request=request,
                retry_after=response.head.headers.get("retry-after") or None,
            )
        try:
            yield self._pieces(response, request, inactivity_s)
        finally:
            response.close()

    async def _pieces(
        self, response: ClientResponse, request: str, inactivity_s: float
    ) -> AsyncIterator[bytes]:
        while True:
            try:
                async with asyncio.timeout(inactivity_s):
                    piece = await response.piece()
            except NO_ANSWER as error:
                raise unavailable(self._server, request, error) from error
            if not piece:
                return
            yield piece

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
        is_short = lane in _SHORT
        return self._lanes.ask(
            lane if is_short else Lane.READ,
            method,
            target,
            authorization=credential.authorization,
            tls=self._tls_context(credential) if self._uses_tls else None,
            body=body,
            content_type=content_type,
            accept=accept,
            encoding="gzip" if self._wants_gzip and lane is Lane.READ else "identity",
            unpacks=not is_short,
            guard=guard,
        )

    def _tls_context(self, credential: Credential) -> ssl.SSLContext:
        known = self._tls_for
        if (
            known is None
            or known.client_cert != credential.client_cert
            or known.client_key != credential.client_key
        ):
            try:
                self._tls = build_context(
                    self._config,
                    client_cert=credential.client_cert,
                    client_key=credential.client_key,
                )
            except KubeconfigError as error:
                if self._config.exec is None:
                    raise
                raise Unauthorized(f"exec plugin {self._config.exec.command!r}: {error}") from error
            self._tls_for = credential
        assert self._tls is not None
        return self._tls


def _target(path: str, params: Params | None) -> str:
    target = path if _is_safe_path(path) else quote(path, safe=_PATH_SAFE)
    return f"{target}?{urlencode(params)}" if params else target
