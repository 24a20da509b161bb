"""HTTP to one API server: lanes, credentials, retries after 429, errors with a type.

`client` speaks Kubernetes on top of it. Each lane has its own connection pool and rate limit, so
that events or a slow list never hold up binds or the lease. Every failure leaves as ApiError (the
server answered) or ApiUnavailable (it did not); nothing of aiohttp gets past this module.
What is sent for every pod goes by `http1`, which is quick; everything else, and everything where
there is a proxy, by aiohttp.
"""

from __future__ import annotations

import asyncio
import ipaddress
import random
import re
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import TypeAlias
from urllib.parse import quote, urlencode, urlsplit

import aiohttp
from yarl import URL

from stowplan.api.auth import Credential, credentials_for
from stowplan.api.http1 import find_out_that_the_other_side_is_gone
from stowplan.api.kubeconfig import ClusterConfig
from stowplan.api.no_answer import NO_ANSWER, unavailable
from stowplan.api.quick import JSON, QuickLanes
from stowplan.api.rate_limit import TokenBucket
from stowplan.api.status_errors import error_from_response
from stowplan.api.tls import build_context
from stowplan.api.turns import Turns
from stowplan.clock import Clock, SystemClock
from stowplan.errors import KubeconfigError, Throttled, Unauthorized

Params: TypeAlias = Mapping[str, str | int]

_CONNECT_TIMEOUT_S = 10.0
_ONLY_CONNECT = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_TIMEOUT_S)
_KEEPALIVE_S = 60.0  # below the API server's own 90 s, so that it is we who close idle connections
_MAX_THROTTLE_RETRIES = 10
_MAX_RETRY_AFTER_S = 30.0
_READ_BUFFER = 256 * 1024
_PATH_SAFE = "/:@!$&'()*+,;=-._~"
_is_safe_path = re.compile(r"[A-Za-z0-9/:@!$&'()*+,;=\-._~]*").fullmatch


class Lane(StrEnum):
    """What a request is for; lanes share nothing but the credential."""

    READ = "read"
    WATCH = "watch"
    BIND = "bind"
    STATUS = "status"
    EVENTS = "events"
    LEASE = "lease"


#: Few bytes, and often: by `http1`.
_QUICK = frozenset((Lane.BIND, Lane.STATUS, Lane.EVENTS, Lane.LEASE))
# Requests at a time; streams last, so they take no turn and there is no limit to them.
_AT_A_TIME = {Lane.READ: 16, Lane.WATCH: 16, Lane.STATUS: 32, Lane.EVENTS: 64, Lane.LEASE: 2}


class Transport:
    """Sends requests; open it with `async with`."""

    def __init__(
        self,
        config: ClusterConfig,
        *,
        user_agent: str = "stowplan",
        qps: float = 0,
        burst: int = 0,
        bind_concurrency: int = 64,
        clock: Clock | None = None,
    ) -> None:
        self._config = config
        self._server = config.server.rstrip("/")
        self._credentials = credentials_for(config, clock=clock)
        # Waiting for a turn is not part of a request's time, so it is not left to aiohttp's pool.
        self._turns = {
            lane: Turns(limit)
            for lane, limit in {**_AT_A_TIME, Lane.BIND: bind_concurrency}.items()
        }
        self._sessions: dict[Lane, aiohttp.ClientSession] = {}
        self._closed = False
        self._headers = [("User-Agent", user_agent), ("Accept", JSON), *config.impersonate]
        self._quick: QuickLanes | None = None
        if not config.proxy_url:
            always = [header for header in self._headers if header[0] != "Accept"]
            self._quick = QuickLanes(
                self._server, always, tls_server_name=config.tls_server_name or ""
            )
        clock = clock or SystemClock()
        limited: list[Lane] = [lane for lane in Lane if qps > 0 and lane is not Lane.WATCH]
        self._limits = {lane: TokenBucket(qps, burst, clock=clock) for lane in limited}
        self._wants_gzip = not config.disable_compression and not _is_loopback(self._server)
        # One context a certificate: a new object makes aiohttp open new connections.
        self._tls_for: Credential | None = None
        self._tls: ssl.SSLContext | None = None
        self._uses_tls = self._server.startswith("https://")
        if self._uses_tls and config.exec is None:
            self._tls_context(Credential("", config.client_cert, config.client_key))

    @property
    def server(self) -> str:
        return self._server

    async def close(self) -> None:
        self._closed = True
        sessions = list(self._sessions.values())
        self._sessions.clear()
        if self._quick is not None:
            self._quick.close()
        for session in sessions:
            await session.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        body: bytes | None = None,
        content_type: str = JSON,
        accept: str = "",
        lane: Lane = Lane.READ,
        timeout_s: float = 30.0,
        retry_throttled: bool = True,
    ) -> bytes:
        """One request and its answer; waits and repeats after 429, and once after a 401."""
        limit = self._limits.get(lane)
        if limit is not None:
            await limit.take()
        target = _target(path, params)
        quick = self._quick if lane in _QUICK else None
        turns = self._turns[lane]
        is_renewed = False
        throttled = 0
        while True:
            credential = self._credentials.cached() or await self._credentials.obtain()
            try:
                # Not aiohttp's total timeout: it can swallow a cancellation of the caller that
                # comes at the same moment (its timer contexts nest, and each takes one back).
                async with turns, asyncio.timeout(timeout_s):
                    if quick is not None:
                        found = await quick.ask(
                            lane,
                            method,
                            target,
                            authorization=credential.authorization,
                            tls=self._tls_context(credential) if self._uses_tls else None,
                            body=body,
                            content_type=content_type,
                            accept=accept,
                        )
                        status, answer = found.status, found.body
                        retry_after = None if status < 300 else found.header(b"retry-after")
                    else:
                        headers = {"Content-Type": content_type} if body is not None else {}
                        if accept:
                            headers["Accept"] = accept
                        response = await self._send(
                            lane, method, target, headers, credential, body, _ONLY_CONNECT
                        )
                        async with response:
                            answer = await response.read()
                        status = response.status
                        retry_after = response.headers.get("Retry-After")
            except NO_ANSWER as error:
                turns.refused()
                raise unavailable(self._server, f"{method} {path}", error) from error
            if status == 429 or status >= 500:
                turns.refused()
            else:
                turns.answered()
            if status < 300:
                return answer
            refusal = error_from_response(
                status, answer, request=f"{method} {path}", retry_after=retry_after
            )
            if status == 401 and not is_renewed:
                is_renewed = True
                if await self._credentials.refresh(credential) != credential:
                    continue
            if (
                not isinstance(refusal, Throttled)
                or not retry_throttled
                or throttled >= _MAX_THROTTLE_RETRIES
            ):
                raise refusal
            throttled += 1
            wait_s = min(refusal.retry_after_s, _MAX_RETRY_AFTER_S)
            # Spread, so that all who were turned away do not come back at the same moment.
            await asyncio.sleep(wait_s * random.uniform(1.0, 1.1))

    @asynccontextmanager
    async def stream(
        self, path: str, *, params: Params, inactivity_s: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """A long answer in the chunks it comes in; silence for `inactivity_s` ends it."""
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=_CONNECT_TIMEOUT_S, sock_read=inactivity_s
        )
        target = _target(path, params)
        request = f"GET {path}"
        is_renewed = False
        while True:
            credential = self._credentials.cached() or await self._credentials.obtain()
            try:
                response = await self._send(
                    Lane.WATCH, "GET", target, {}, credential, None, timeout
                )
            except NO_ANSWER as error:
                raise unavailable(self._server, request, error) from error
            if response.status == 200:
                break
            try:
                async with response:
                    answer = await response.read()
            except NO_ANSWER as error:
                raise unavailable(self._server, request, error) from error
            if response.status == 401 and not is_renewed:
                is_renewed = True
                if await self._credentials.refresh(credential) != credential:
                    continue
            raise error_from_response(
                response.status,
                answer,
                request=request,
                retry_after=response.headers.get("Retry-After"),
            )
        try:
            yield self._chunks(response, request)
        finally:
            response.close()

    async def _chunks(self, response: aiohttp.ClientResponse, request: str) -> AsyncIterator[bytes]:
        try:
            # Not by lines: aiohttp refuses lines longer than its buffer.
            async for chunk in response.content.iter_any():
                yield chunk
        except NO_ANSWER as error:
            raise unavailable(self._server, request, error) from error

    async def _send(
        self,
        lane: Lane,
        method: str,
        target: str,
        headers: dict[str, str],
        credential: Credential,
        body: bytes | None,
        timeout: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        if credential.authorization:
            headers["Authorization"] = credential.authorization
        return await self._session(lane).request(
            method,
            URL(self._server + target, encoded=True),
            headers=headers,
            data=body,
            timeout=timeout,
            allow_redirects=False,
            ssl=self._tls_context(credential) if self._uses_tls else True,
            server_hostname=self._config.tls_server_name or None,
            proxy=self._config.proxy_url or None,
        )

    def _session(self, lane: Lane) -> aiohttp.ClientSession:
        session = self._sessions.get(lane)
        if session is None:
            if self._closed:
                raise RuntimeError("the client is closed")
            encoding = "gzip" if self._wants_gzip and lane is Lane.READ else "identity"
            session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=0,
                    keepalive_timeout=_KEEPALIVE_S,
                    socket_factory=_keepalive_socket,
                ),
                headers=[*self._headers, ("Accept-Encoding", encoding)],
                cookie_jar=aiohttp.DummyCookieJar(),
                read_bufsize=_READ_BUFFER,
            )
            self._sessions[lane] = session
        return session

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


def _is_loopback(server: str) -> bool:
    host = urlsplit(server).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _keepalive_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """A socket that finds out within a minute that the other side is gone, even when idle."""
    family, kind, protocol, _, _ = address
    new = socket.socket(family=family, type=kind, proto=protocol)
    find_out_that_the_other_side_is_gone(new)
    return new


def _target(path: str, params: Params | None) -> str:
    target = path if _is_safe_path(path) else quote(path, safe=_PATH_SAFE)
    return f"{target}?{urlencode(params)}" if params else target
