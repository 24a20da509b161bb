"""The lanes of requests that are sent for every pod, over `http1`.

`transport` owns one, unless there is a proxy on the way. What must stay true: nothing that a caller
or a credential says can end a header, and a connection is never shared by two lanes.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from urllib.parse import urlsplit

from stowplan.api import http1

JSON = "application/json"


class QuickLanes:
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
        self._headers = [host, *headers, ("Accept-Encoding", "identity")]
        self._pools: dict[str, http1.Pool] = {}
        self._is_closed = False
        #: The part of a request that is always the same, and for which authorization.
        self._head = ""
        self._head_of: str | None = None

    def close(self) -> None:
        self._is_closed = True
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
    ) -> http1.Answer:
        if self._head_of != authorization:
            self._head, self._head_of = self._constant_head(authorization), authorization
        head = f"{method} {self._prefix}{target}{self._head}Accept: {accept or JSON}\r\n"
        if body is None:
            request = f"{head}\r\n".encode("latin-1")
        else:
            length = f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
            request = f"{head}{length}".encode("latin-1") + body
        return await self._pool(lane).ask(request, tls)

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
