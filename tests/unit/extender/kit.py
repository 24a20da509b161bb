"""An extender served in the test's own loop, and raw bytes sent to it."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from stowplan.extender import Algorithm, ExtenderArgs, ExtenderFilterResult, HostPriority
from stowplan.extender.algorithms.nop import NOPAlgorithm
from stowplan.extender.service import Service
from stowplan.http.messages import Limits
from stowplan.http.server import HttpServer
from tests.unread import open_unread

LIMITS = Limits(max_body=4 * 1024 * 1024, request_timeout_s=20.0)
ARGS = {"Pod": {"metadata": {"name": "a", "namespace": "shop"}}, "NodeNames": ["n1", "n2"]}
ARGS_TEXT = json.dumps(ARGS).encode()


class Calls(Algorithm):
    """An algorithm made of functions."""

    def __init__(
        self,
        filter: Callable[[ExtenderArgs], Any] | None = None,  # noqa: A002 - the method's name
        prioritize: Callable[[ExtenderArgs], Any] | None = None,
    ) -> None:
        self._filter = filter
        self._prioritize = prioritize

    def filter(self, extender_args: ExtenderArgs) -> ExtenderFilterResult:
        if self._filter is None:
            return ExtenderFilterResult(NodeNames=extender_args.NodeNames)
        result: ExtenderFilterResult = self._filter(extender_args)
        return result

    def prioritize(self, extender_args: ExtenderArgs) -> list[HostPriority]:
        result: list[HostPriority] = (
            [] if self._prioritize is None else self._prioritize(extender_args)
        )
        return result


class ThreadedCalls(Calls):
    runs_in_thread = True


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def content(self) -> Any:
        return json.loads(self.body)

    @property
    def problem(self) -> str:
        assert self.headers["content-type"] == "application/json"
        text: str = self.content["Error"]
        return text


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def reply(self, *, is_shown: bool = True) -> Reply:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.removesuffix("\r\n\r\n").split("\r\n")
        headers = {
            name.lower(): value for name, _, value in (line.partition(": ") for line in lines)
        }
        length = int(headers.get("content-length", "0")) if is_shown else 0
        return Reply(int(first.split(" ")[1]), headers, await self.reader.readexactly(length))

    async def ask(self, path: str, body: bytes | None = None, **headers: str) -> Reply:
        await self.send(request(path, body, **headers))
        return await self.reply()

    async def is_closed(self) -> bool:
        """Waits for the end, and tells whether nothing more came."""
        return await self.reader.read() == b""

    async def close(self) -> None:
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except OSError:
            """The other side was quicker."""


def request(path: str, body: bytes | None = None, **headers: str) -> bytes:
    """POST where there is a body."""
    named = {"Host": "extender"} | {name.replace("_", "-"): text for name, text in headers.items()}
    if body is not None:
        named.setdefault("Content-Length", str(len(body)))
    lines = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    method = "GET" if body is None else "POST"
    return f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode("latin-1") + (body or b"")


class Stage:
    """A server, its service, and connections to it."""

    def __init__(self, service: Service, server: HttpServer, port: int) -> None:
        self.service = service
        self.server = server
        self.port = port
        self.clients: list[Client] = []

    async def connect(self, tls: ssl.SSLContext | None = None) -> Client:
        client = Client(*await asyncio.open_connection("127.0.0.1", self.port, ssl=tls))
        self.clients.append(client)
        return client

    async def connect_unread(self) -> Client:
        """A client that does not read yet."""
        client = Client(*await open_unread(self.port))
        self.clients.append(client)
        return client

    async def ask(
        self,
        path: str,
        body: bytes | None = None,
        *,
        tls: ssl.SSLContext | None = None,
        **headers: str,
    ) -> Reply:
        """On a connection of its own."""
        client = await self.connect(tls)
        return await client.ask(path, body, **headers)


@asynccontextmanager
async def stage(
    algorithm: Algorithm | None = None,
    *,
    limits: Limits = LIMITS,
    tls: ssl.SSLContext | None = None,
    **options: Any,
) -> AsyncIterator[Stage]:
    service = Service(algorithm or NOPAlgorithm(), **options)
    server = HttpServer(service, limits)
    loop = asyncio.get_running_loop()
    listener = await server.listen(lambda make: loop.create_server(make, "127.0.0.1", 0, ssl=tls))
    running = Stage(service, server, listener.sockets[0].getsockname()[1])
    try:
        yield running
    finally:
        for client in running.clients:
            await client.close()
        await server.stop(5.0)
