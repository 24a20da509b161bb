"""Requests through a proxy, by aiohttp, which knows how proxies are spoken to.

`transport` loads this only where there is a proxy on the way. Offers what `quick` does, and raises
what `quick` raises: nothing of aiohttp gets past this module.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from yarl import URL

from stowplan.api.connections import NotConnected, find_out_that_the_other_side_is_gone
from stowplan.api.http1 import Disconnected, Garbled

# Waiting for an answer is limited by whoever asks.
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=10.0)
_KEEPALIVE_S = 60.0  # below the API server's own 90 s, so that it is we who close idle connections
_READ_BUFFER = 256 * 1024


class ProxiedLanes:
    """A session a lane, so that lanes share no connections."""

    def __init__(
        self,
        server: str,
        headers: Sequence[tuple[str, str]],
        *,
        proxy_url: str,
        tls_server_name: str = "",
    ) -> None:
        self._server = server
        self._headers = headers
        self._proxy_url = proxy_url
        self._tls_server_name = tls_server_name
        self._sessions: dict[str, aiohttp.ClientSession] = {}
        self._is_closed = False

    async def close(self) -> None:
        self._is_closed = True
        sessions = list(self._sessions.values())
        self._sessions.clear()
        for session in sessions:
            await session.close()

    async def open(
        self,
        lane: str,
        method: str,
        target: str,
        *,
        authorization: str,
        tls: ssl.SSLContext | None,
        body: bytes | None,
        content_type: str,
        accept: str,
        encoding: str,
        guard: Callable[[], None] | None = None,
    ) -> ProxiedAnswer:
        headers = {"Accept": accept, "Accept-Encoding": encoding}
        if body is not None:
            headers["Content-Type"] = content_type
        if authorization:
            headers["Authorization"] = authorization
        guarded = None
        if guard is not None:
            # Without a body there is nothing to hold back while the connection is made.
            guarded = _GuardedBody(body or b"", guard)
        try:
            response = await self._request(lane, method, target, headers, guarded or body, tls)
        except Disconnected:
            if guarded is not None and guarded.refusal is not None:
                raise guarded.refusal from None
            raise
        return ProxiedAnswer(response)

    async def _request(
        self,
        lane: str,
        method: str,
        target: str,
        headers: dict[str, str],
        body: bytes | aiohttp.Payload | None,
        tls: ssl.SSLContext | None,
    ) -> aiohttp.ClientResponse:
        with _spoken_as_ours():
            return await self._session(lane).request(
                method,
                URL(self._server + target, encoded=True),
                headers=headers,
                data=body,
                timeout=_TIMEOUT,
                allow_redirects=False,
                ssl=True if tls is None else tls,
                server_hostname=self._tls_server_name or None,
                proxy=self._proxy_url,
            )

    def _session(self, lane: str) -> aiohttp.ClientSession:
        session = self._sessions.get(lane)
        if session is None:
            if self._is_closed:
                raise RuntimeError("the client is closed")
            session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=0, keepalive_timeout=_KEEPALIVE_S, socket_factory=_keepalive_socket
                ),
                headers=self._headers,
                cookie_jar=aiohttp.DummyCookieJar(),
                read_bufsize=_READ_BUFFER,
            )
            self._sessions[lane] = session
        return session


class _GuardedBody(aiohttp.BytesPayload):
    """A body that is written only if the guard allows it then.

    aiohttp keeps the headers back until the body comes, and without its body the server does
    nothing.
    """

    def __init__(self, value: bytes, guard: Callable[[], None]) -> None:
        super().__init__(value)
        self._guard = guard
        #: What the guard raised: aiohttp makes a connection error of it.
        self.refusal: Exception | None = None

    async def write_with_length(
        self, writer: AbstractStreamWriter, content_length: int | None
    ) -> None:
        try:
            self._guard()
        except Exception as problem:
            self.refusal = problem
            raise
        await super().write_with_length(writer, content_length)


class ProxiedAnswer:
    """An answer that has begun."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.status = response.status
        self._response = response

    def header(self, name: bytes) -> str | None:
        return self._response.headers.get(name.decode())

    async def piece(self) -> bytes:
        """What has come meanwhile; nothing at its end."""
        with _spoken_as_ours():
            return await self._response.content.readany()

    def close(self) -> None:
        """No more of it; one that is complete has given its connection back already."""
        self._response.close()


@contextmanager
def _spoken_as_ours() -> Iterator[None]:
    try:
        yield
    except aiohttp.ClientConnectorCertificateError as error:
        raise NotConnected from error.certificate_error
    except aiohttp.ConnectionTimeoutError as error:
        raise NotConnected from TimeoutError(str(error))
    except (aiohttp.ClientConnectorError, aiohttp.ClientHttpProxyError) as error:
        raise NotConnected from error
    except aiohttp.ClientPayloadError as error:
        raise Garbled(str(error)) from error
    except aiohttp.ClientError as error:
        raise Disconnected(str(error) or type(error).__name__) from error


def _keepalive_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """A socket that finds out within a minute that the other side is gone, even when idle."""
    family, kind, protocol, _, _ = address
    new = socket.socket(family=family, type=kind, proto=protocol)
    find_out_that_the_other_side_is_gone(new)
    return new
