"""`FaultProxy`: a reverse proxy on loopback that spoils requests on their way to an API server.

Clients reach it over plain HTTP, or over TLS if it has a certificate; it reaches the embedded or a
real API server. It runs on an event loop in a thread of its own. One client connection has one
connection to the API server, so that the client notices when that one breaks. What must stay true:
without a fault, every byte of a body arrives as it was sent.
"""

from __future__ import annotations

import asyncio
import random
import ssl
import threading
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

from stowplan.lab.faults.asked import Asked, read_request
from stowplan.lab.faults.fault import Fault
from stowplan.lab.faults.lists import SeenLists, with_items_twice
from stowplan.lab.faults.relay import Broken, send_watch, send_whole, status_answer
from stowplan.lab.faults.upstream import Upstream, UpstreamLost
from stowplan.lab.faults.wire import LIMIT, Head, pieces, read_body, read_head, reset

T = TypeVar("T")
_PATIENCE_S = 30.0
_HOST = "127.0.0.1"


class FaultProxy:
    """Start with `with`; `url` is where the client under test goes.

    `token` and `ca_file` are for the API server. With `certificate`, a PEM file with certificate
    and key, clients must use TLS. `seed` decides where a fault has a chance below 1.
    """

    def __init__(
        self,
        target: str,
        *,
        token: str = "",
        ca_file: str | Path | None = None,
        certificate: Path | None = None,
        seed: int = 0,
    ) -> None:
        self._target = urlsplit(target)
        self._token = token
        self._target_tls = ssl.create_default_context(cafile=ca_file) if ca_file else None
        self._tls: ssl.SSLContext | None = None
        if certificate is not None:
            self._tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            self._tls.load_cert_chain(certificate)
        self._dice = random.Random(seed)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault-proxy")
        self._faults: list[Fault] = []
        self._lists = SeenLists()
        self._servers: list[asyncio.Server] = []
        self._clients: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._watches: set[asyncio.StreamWriter] = set()
        self._muted: set[asyncio.StreamWriter] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._is_away = False
        self._port = 0
        #: Refuse every other bearer token with 401; empty accepts all.
        self.accepted_token = ""
        #: (method, path and query) of everything that came through.
        self.requests: list[tuple[str, str]] = []

    @property
    def url(self) -> str:
        return f"http{'s' if self._tls else ''}://{_HOST}:{self._port}"

    # -- faults of single requests --------------------------------------------------------------

    def inject(self, fault: Fault) -> Fault:
        """Add a fault; it is returned, so that its counts can be read."""
        self._faults.append(fault)
        return fault

    def clear(self) -> None:
        """No more faults; watches that one has silenced stay silent."""
        self._faults.clear()

    # -- faults of connections ------------------------------------------------------------------

    def cut_watches(self) -> None:
        """Break every open watch."""
        self._run(self._cut(self._watches))

    def swallow_watches(self) -> None:
        """Every open watch stays open and delivers nothing more; new ones work."""

        async def swallow() -> None:
            self._muted |= self._watches

        self._run(swallow())

    @property
    def is_stalled(self) -> bool:
        """Watches stay open and deliver late while this is set, as on a slow network."""
        return not self._flowing.is_set()

    @is_stalled.setter
    def is_stalled(self, value: bool) -> None:
        change = self._flowing.clear if value else self._flowing.set
        self._loop.call_soon_threadsafe(change)

    def go_away(self) -> None:
        """Cut the network: every connection breaks, old and new.

        The port stays open: closing it while clients connect makes Python 3.11 leak the sockets
        that it has accepted and not yet looked at.
        """
        self._is_away = True
        self._run(self._cut(self._clients))

    def come_back(self) -> None:
        self._is_away = False

    def rotate_certificate(self, certificate: Path) -> None:
        """Show another certificate in handshakes from now on; connections stay."""
        assert self._tls is not None, "the proxy was started without a certificate"
        self._tls.load_cert_chain(certificate)

    def listen_on(self, port: int) -> None:
        """Listen on a second port, too: a server that was not there when its client started."""
        self._run(self._listen(port))

    # -- life -----------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self._thread.start()
        self._port = self._run(self._listen(0))
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_PATIENCE_S)
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_PATIENCE_S)

    async def _listen(self, port: int) -> int:
        server = await asyncio.start_server(self._serve, _HOST, port, ssl=self._tls, limit=LIMIT)
        self._servers.append(server)
        bound: int = server.sockets[0].getsockname()[1]
        return bound

    async def _cut(self, writers: set[asyncio.StreamWriter]) -> None:
        for writer in list(writers):
            reset(writer)

    async def _end(self) -> None:
        self._is_away = True
        for server in self._servers:
            server.close()
        await self._cut(self._clients)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        # Transports close in the next turns of the loop.
        await asyncio.sleep(0.1 if self._tls or self._target_tls else 0.01)

    # -- one client connection ------------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._clients.add(writer)
        upstream = self._upstream(writer)
        try:
            while not self._is_away:
                head = await read_head(reader)
                if head is None or self._is_away:
                    break
                await self._answer(head, reader, writer, upstream)
                if head.closes:
                    break
        except (Broken, UpstreamLost, OSError, EOFError, asyncio.CancelledError):
            reset(writer)
        finally:
            self._clients.discard(writer)
            self._watches.discard(writer)
            self._muted.discard(writer)
            upstream.close()
            if self._is_away:
                reset(writer)
            writer.close()

    async def _answer(
        self,
        head: Head,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        upstream: Upstream,
    ) -> None:
        asked = read_request(*head.words[:2])
        self.requests.append((asked.method, asked.target))
        body = await read_body(reader, head, is_response=False)
        if self.accepted_token and head.get("authorization") != f"Bearer {self.accepted_token}":
            writer.write(status_answer(401, {}))
            await writer.drain()
            return
        fault = next((f for f in self._faults if f.happens_to(asked, self._dice)), None)
        if fault is not None:
            fault.seen += 1
            if await self._instead(fault, asked, head, body, writer):
                return
        answer = await upstream.ask(head, body)
        if asked.is_watch:
            await self._watch(answer, writer, upstream, fault)
            return
        content = await read_body(upstream.reader, answer, is_response=True)
        upstream.is_busy = False
        if fault is not None:
            fault.answered += 1
            if fault.reset == "after":
                raise Broken
        if asked.is_list and answer.words[1] == "200":
            self._lists.remember(asked, content)
            if fault is not None and fault.stale:
                content = self._lists.oldest(asked, content)
            if fault is not None and fault.duplicated:
                content = with_items_twice(content)
        await send_whole(writer, answer, content, fault)

    async def _instead(
        self, fault: Fault, asked: Asked, head: Head, body: bytes, writer: asyncio.StreamWriter
    ) -> bool:
        """Do what comes before forwarding; True if that has answered the request."""
        if fault.before is not None:
            await asyncio.get_running_loop().run_in_executor(None, fault.before, asked.path)
        if fault.delay_s:
            await asyncio.sleep(fault.delay_s)
        if fault.status:
            writer.write(status_answer(fault.status, fault.headers))
            await writer.drain()
            return True
        if fault.late_s:
            task = asyncio.create_task(self._forward_late(fault, head, body))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if fault.late_s or fault.reset == "before":
            raise Broken
        return False

    async def _watch(
        self, head: Head, writer: asyncio.StreamWriter, upstream: Upstream, fault: Fault | None
    ) -> None:
        self._watches.add(writer)
        events = pieces(upstream.reader, head, is_response=True)
        await send_watch(writer, head, events, fault, self._flowing, lambda: writer in self._muted)
        self._watches.discard(writer)
        self._muted.discard(writer)
        # The fault may have ended it before the API server did.
        upstream.close()

    async def _forward_late(self, fault: Fault, head: Head, body: bytes) -> None:
        await asyncio.sleep(fault.late_s)
        upstream = self._upstream(None)
        with suppress(UpstreamLost):
            answer = await upstream.ask(head, body)
            await read_body(upstream.reader, answer, is_response=True)
            fault.answered += 1
        upstream.close()

    def _upstream(self, client: asyncio.StreamWriter | None) -> Upstream:
        return Upstream(self._target, self._target_tls, self._token, client)
