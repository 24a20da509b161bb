"""Requests straight to the server: short answers over `http1`, long ones over `streams`.

`transport` owns one, unless there is a proxy on the way. What must stay true: nothing that a caller
or a credential says can end a header, and a connection is never shared by two lanes, except that
a watch takes over the connection of the list before it.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

from stowplan.api import http1
from stowplan.api.streams import LongAnswer, Streams

JSON = "application/json"


class Lanes:
    """Kept-alive connections by lane, and requests as they go over the wire."""

    def __init__(
        self, server: str, headers: Sequence[tuple[str, str]], *, tls_server_name: str = ""
    ) -> None:
        parts = urlsplit(server)
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._tls_server_name = tls_server_name
        #: A server may live below a path.
        self._prefix = parts.path
        host = ("Host", parts.netloc.rpartition("@")[2])
        self._headers = [host, *headers]
        self._pools: dict[str, http1.Pool] = {}
        self._streams = Streams(self._host, self._port, server_hostname=tls_server_name)
        self._is_closed = False
        #: The part of a request that is always the same, and for which authorization.
        self._head = ""
        self._head_of: str | None = None

    def close(self) -> None:
        self._is_closed = True
        self._streams.close()
        for pool in self._pools.values():
            pool.close()

    async def ask(
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
        guard: Callable[[], None] | None = None,
    ) -> http1.Answer:
        request = self._request(method, target, authorization, body, content_type, accept)
        return await self._pool(lane).ask(request, tls, guard)

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
    ) -> LongAnswer:
        """Returns when the answer begins; it must be closed. All lanes of readers are one."""
        request = self._request(method, target, authorization, body, content_type, accept, encoding)
        return await self._streams.ask(request, tls, is_repeatable=method == "GET", guard=guard)

    def _request(
        self,
        method: str,
        target: str,
        authorization: str,
        body: bytes | None,
        content_type: str,
        accept: str,
        encoding: str = "identity",
    ) -> bytes:
        if self._head_of != authorization:
            self._head, self._head_of = self._constant_head(authorization), authorization
        head = (
            f"{method} {self._prefix}{target}{self._head}"
            f"Accept: {accept or JSON}\r\nAccept-Encoding: {encoding}\r\n"
        )
        if body is None:
            return f"{head}\r\n".encode("latin-1")
        length = f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
        return f"{head}{length}".encode("latin-1") + body

    def _constant_head(self, authorization: str) -> str:
        headers = self._headers
        if authorization:
            headers = [*headers, ("Authorization", authorization)]
        for name, value in headers:
            if not value.isprintable():
                raise ValueError(f"the header {name} holds what cannot be sent")
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
        return f" HTTP/1.1\r\n{lines}"

    def _pool(self, lane: str) -> http1.Pool:
        pool = self._pools.get(lane)
        if pool is None:
            if self._is_closed:
                raise RuntimeError("the client is closed")
            pool = http1.Pool(self._host, self._port, server_hostname=self._tls_server_name)
            self._pools[lane] = pool
        return pool
