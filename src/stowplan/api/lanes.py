"""Requests to one server: their bytes, and a connection pool for each lane.

`transport` owns one for the API server, `scheduler.extender_client` one for each extender.
Invariants: no text from a caller or a credential can end a header; lanes do not share connections,
except that a watch takes over the connection of the list before it (both use the pool "read").
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Sequence
from urllib.parse import urlsplit

from stowplan.http.client import ClientResponse, Guard, Pool
from stowplan.http.connecting import Proxy

JSON = "application/json"


class Lanes:
    """Kept-alive connections by lane; `proxy_url` is that of an HTTP proxy, if there is one."""

    def __init__(
        self,
        server: str,
        headers: Sequence[tuple[str, str]],
        *,
        tls_server_name: str = "",
        proxy_url: str = "",
    ) -> None:
        parts = urlsplit(server)
        uses_tls = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if uses_tls else 80)
        self._tls_server_name = tls_server_name
        self._proxy = Proxy(proxy_url) if proxy_url else None
        #: A server may live below a path.
        self._prefix = parts.path
        netloc = parts.netloc.rpartition("@")[2]
        self._headers = [("Host", netloc), *headers]
        if self._proxy is not None and not uses_tls:
            # Without TLS there is no tunnel: each request tells the proxy where it goes.
            self._prefix = f"http://{netloc}{parts.path}"
            if self._proxy.authorization:
                self._headers.append(("Proxy-Authorization", self._proxy.authorization))
        self._pools: dict[str, Pool] = {}
        self._is_closed = False
        #: The part of a request that is the same for one authorization.
        self._head = ""
        self._head_of: str | None = None

    def close(self) -> None:
        self._is_closed = True
        for pool in self._pools.values():
            pool.close()

    def ask(
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
        encoding: str = "identity",
        unpacks: bool = False,
        guard: Guard | None = None,
        traceparent: str = "",
    ) -> Awaitable[ClientResponse]:
        """Send a request; the response is available when it begins. Read or close it.

        `traceparent` is the W3C trace context, of hexadecimal digits and hyphens.
        """
        if self._head_of != authorization:
            self._head, self._head_of = self._constant_head(authorization), authorization
        head = (
            f"{method} {self._prefix}{target}{self._head}"
            f"Accept: {accept or JSON}\r\nAccept-Encoding: {encoding}\r\n"
        )
        if traceparent:
            head += f"traceparent: {traceparent}\r\n"
        if body is None:
            request = f"{head}\r\n".encode("latin-1")
        else:
            length = f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
            request = f"{head}{length}".encode("latin-1") + body
        return self._pool(lane).ask(
            request, tls, is_repeatable=method == "GET", guard=guard, unpacks=unpacks
        )

    def _constant_head(self, authorization: str) -> str:
        headers = self._headers
        if authorization:
            headers = [*headers, ("Authorization", authorization)]
        for name, value in headers:
            if not value.isprintable():
                raise ValueError(f"the header {name} has characters that cannot be sent")
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
        return f" HTTP/1.1\r\n{lines}"

    def _pool(self, lane: str) -> Pool:
        pool = self._pools.get(lane)
        if pool is None:
            if self._is_closed:
                raise RuntimeError("the client is closed")
            pool = Pool(
                self._host, self._port, server_hostname=self._tls_server_name, proxy=self._proxy
            )
            self._pools[lane] = pool
        return pool
