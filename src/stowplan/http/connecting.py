"""Connect to a server: directly or through an HTTP proxy, with or without TLS.

`client.Pool` calls `open_connection`. A plain-text request to a proxy names the server in its
target; for TLS the proxy is asked for a tunnel with CONNECT. Invariant:
an error raised here means that no byte of a request was sent.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from base64 import b64encode
from typing import cast
from urllib.parse import unquote, urlsplit

from stowplan.http.parser import ProtocolError, parse_response
from stowplan.http.tls import TlsClient


class Proxy:
    """The URL of an HTTP or HTTPS proxy; a user and a password may be part of it."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.host = parts.hostname or ""
        self.uses_tls = parts.scheme == "https"
        self.port = parts.port or (443 if self.uses_tls else 80)
        self.authorization = basic_authorization(url)

    def connect_request(self, host: str, port: int) -> bytes:
        server = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        more = f"Proxy-Authorization: {self.authorization}\r\n" if self.authorization else ""
        return f"CONNECT {server} HTTP/1.1\r\nHost: {server}\r\n{more}\r\n".encode("latin-1")


def basic_authorization(url: str) -> str:
    """Return the Authorization header for the user and password in a URL; empty without a user."""
    parts = urlsplit(url)
    if not parts.username:
        return ""
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return f"Basic {b64encode(pair.encode()).decode()}"


async def open_connection(
    protocol: asyncio.Protocol,
    host: str,
    port: int,
    *,
    tls: ssl.SSLContext | None = None,
    server_hostname: str = "",
    proxy: Proxy | None = None,
) -> None:
    """Connect `protocol`; its `connection_made` has been called when this returns.

    OSError or ssl.CertificateError if that fails.
    """
    loop = asyncio.get_running_loop()
    name = server_hostname or host
    if proxy is None:
        await _open(loop, protocol, host, port, tls, name)
        return
    proxy_tls = (tls or ssl.create_default_context()) if proxy.uses_tls else None
    if tls is None:
        await _open(loop, protocol, proxy.host, proxy.port, proxy_tls, proxy.host)
        return
    tunnel = _Tunnel(loop, proxy.connect_request(host, port))
    await _open(loop, tunnel, proxy.host, proxy.port, proxy_tls, proxy.host)
    try:
        await tunnel.opened
    except BaseException:
        tunnel.abort()
        raise
    layer = TlsClient(loop, protocol, tls, name)
    tunnel.transport.set_protocol(layer)
    layer.connection_made(tunnel.transport)
    await _settled(layer)


async def _open(
    loop: asyncio.AbstractEventLoop,
    protocol: asyncio.Protocol,
    host: str,
    port: int,
    tls: ssl.SSLContext | None,
    server_hostname: str,
) -> None:
    if tls is None:
        await loop.create_connection(lambda: protocol, host, port)
        return
    layer = TlsClient(loop, protocol, tls, server_hostname)
    await loop.create_connection(lambda: layer, host, port)
    await _settled(layer)


async def _settled(layer: TlsClient) -> None:
    try:
        await layer.settled
    except BaseException:
        layer.abort()
        raise
    if layer.problem is not None:
        raise layer.problem


class _Tunnel(asyncio.Protocol):
    """Sends CONNECT; `opened` is done when the proxy has agreed."""

    def __init__(self, loop: asyncio.AbstractEventLoop, request: bytes) -> None:
        self.opened: asyncio.Future[None] = loop.create_future()
        self.transport = cast(asyncio.Transport, None)
        self._request = request
        self._received = b""

    def abort(self) -> None:
        self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._received += data
        try:
            found = parse_response(self._received)
        except ProtocolError as problem:
            self._settle(ConnectionError(f"the proxy's response is malformed: {problem}"))
            return
        if found is None:
            return
        head, end = found
        if head.status != 200:
            self._settle(ConnectionError(f"the proxy answered with status {head.status}"))
        elif end < len(self._received):
            self._settle(ConnectionError("the proxy sent more than its answer"))
        else:
            self._settle(None)

    def connection_lost(self, problem: Exception | None) -> None:
        self._settle(problem or ConnectionResetError("the proxy closed the connection"))

    def _settle(self, problem: Exception | None) -> None:
        if self.opened.done():
            return
        if problem is None:
            self.opened.set_result(None)
        else:
            self.opened.set_exception(problem)


def enable_keepalive(connected: socket.socket) -> None:
    """Let the system detect within a minute that the other side is gone, even when idle."""
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 60_000)
