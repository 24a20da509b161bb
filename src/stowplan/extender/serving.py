"""The extender as a process: listening, credentials, signals.

`stowplan extender` calls `run`. The first SIGTERM or Ctrl-C finishes the requests in progress and
exits with 0; the second exits at once. With several workers (see `workers`) each of them is such an
extender, but for the listening, the signals and the rescheduling.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from stowplan.extender.configuration import Configured
from stowplan.extender.credentials import Access, Tokens, extender_tls
from stowplan.extender.listening import BACKLOG, Listener, listening_on_path, listening_on_port
from stowplan.extender.mailboxes import Mailboxes
from stowplan.extender.parts import Parts
from stowplan.extender.peers import FIRST, QUESTION, Peers
from stowplan.extender.rescheduling import has_reschedule
from stowplan.extender.service import Service
from stowplan.extender.workers import FROM_PATH, Crew, check_platform
from stowplan.http.messages import Limits
from stowplan.http.server import HttpServer
from stowplan.http.server_tls import TlsFiles
from stowplan.http.watched_files import keep_loaded
from stowplan.logs import get_logger, kv
from stowplan.server.memory import keep_freed_memory, spare_the_collector
from stowplan.server.serving import run_on_loop, stop_on_signals
from stowplan.server.tracing import start_tracing

log = get_logger(__name__)

DEFAULT_PORT: Final = 31800
#: 5,000 nodes of 26 KiB each; one with 50 images, which is all a kubelet tells, has about 20.
DEFAULT_MAX_BODY: Final = 128 * 1024 * 1024
BANNER: Final = "This software is pre-production and should not be deployed to production servers."
_HANDSHAKE_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class ExtenderOptions:
    """The command's flags."""

    bind_address: str = "127.0.0.1"
    #: None: none, because there is a socket instead; 0 takes any.
    port: int | None = DEFAULT_PORT
    socket: Path | None = None
    socket_mode: int = 0o660
    tls: TlsFiles | None = None
    token_file: Path | None = None
    max_body: int = DEFAULT_MAX_BODY
    request_timeout_s: float = 30.0
    algorithm_timeout_s: float = 5.0
    drain_timeout_s: float = 10.0
    workers: int = 1


def run(configured: Configured, options: ExtenderOptions) -> int:
    """Serve until a signal; the exit code. Errors go to the command line."""
    if options.workers > 1:
        check_platform()
    log.warning(BANNER)
    log.debug("started PID=%d", os.getpid())
    keep_freed_memory()
    spare_the_collector()
    extender = Extender(configured, options)
    _warn_of_rescheduling(configured)
    log.info("Starting wca-scheduler.")
    with _listening(options) as listeners:
        if options.workers == 1:
            run_on_loop(_serve_alone(extender, listeners))
            return 0
        mailboxes = Mailboxes(options.workers)
        crew = Crew(
            lambda number: run_on_loop(_serve_as_worker(configured, options, mailboxes, number)),
            mailboxes,
            listeners,
            drain_timeout_s=options.drain_timeout_s,
        )
        code = crew.run(on_start=lambda: _tell(listeners, options))
        log.info("Stopped")
        return code


def _warn_of_rescheduling(configured: Configured) -> None:
    settings, algorithm = configured.settings, configured.algorithm
    if settings.reschedule_by_get:
        log.warning(
            "GET /reschedule deletes pods",
            extra=kv(
                reason="reschedule_by_get is true", hint="prefer POST with reschedule_token_file"
            ),
        )
    is_on = (
        settings.reschedule_interval or settings.reschedule_token_file or settings.reschedule_by_get
    )
    if is_on and not has_reschedule(algorithm):
        log.warning(
            "Rescheduling is on, but the algorithm never names a pod",
            extra=kv(algorithm=type(algorithm).__name__, reason="it has no method reschedule()"),
        )


@contextmanager
def _listening(options: ExtenderOptions) -> Iterator[list[Listener]]:
    with ExitStack() as opened:
        listeners: list[Listener] = []
        if options.port is not None:
            on_port = listening_on_port(options.bind_address, options.port)
            listeners += opened.enter_context(on_port)
        if options.socket is not None:
            on_path = listening_on_path(options.socket, options.socket_mode)
            listeners.append(opened.enter_context(on_path))
        yield listeners


def _tell(listeners: Iterable[Listener], options: ExtenderOptions) -> None:
    host = options.bind_address
    shown = f"[{host}]" if ":" in host else host
    scheme = "http" if options.tls is None else "https"
    for listener in listeners:
        if listener.path is not None:
            log.info("Serving", extra=kv(socket=str(listener.path)))
        else:
            port = listener.socket.getsockname()[1]
            log.info("Serving", extra=kv(url=f"{scheme}://{shown}:{port}"))


class Extender:
    """All that answers in one process; ConfigError if a file or setting is wrong."""

    def __init__(self, configured: Configured, options: ExtenderOptions) -> None:
        self.options = options
        self._tls = None if options.tls is None else extender_tls(options.tls)
        self._tokens = None if options.token_file is None else Tokens(options.token_file)
        asks_for_certificate = options.tls is not None and options.tls.client_ca is not None
        gate = None
        if asks_for_certificate or self._tokens is not None:
            gate = Access(certificates=asks_for_certificate, tokens=self._tokens)
        self.service = Service(
            configured.algorithm,
            monitored_namespaces=configured.settings.monitored_namespaces,
            gate=gate,
            algorithm_timeout_s=options.algorithm_timeout_s,
        )
        self._parts = Parts(configured)
        self._parts.attach(self.service)
        self.server = HttpServer(self.service, Limits(options.max_body, options.request_timeout_s))

    def tls_of(self, *, is_path: bool) -> dict[str, Any]:
        """The event loop's TLS arguments; a Unix socket is never encrypted."""
        if self._tls is None or is_path:
            return {}
        return {"ssl": self._tls.context, "ssl_handshake_timeout": _HANDSHAKE_S}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The parts beside the service; at the end, requests under way are answered."""
        watched = [each.files for each in (self._tls, self._tokens) if each is not None]
        reloading = asyncio.create_task(keep_loaded(watched), name="credentials")
        # Not before the fork that makes a worker: the export has a thread.
        export = start_tracing("stowplan-extender")
        if export is not None:
            from stowplan.extender.request_spans import RequestSpans  # the SDK only if it is used

            self.service.spans = RequestSpans(export)
            self._parts.measure(self.service.spans)
        try:
            await self._parts.start()
            yield
            log.info("Ending")
        finally:
            cut_off = await self.server.stop(self.options.drain_timeout_s)
            if cut_off:
                log.warning("Requests did not end in time", extra=kv(connections=cut_off))
            reloading.cancel()
            await self._parts.stop()
            if export is not None:
                await export.close()
        log.info("Stopped")


async def _serve_alone(extender: Extender, listeners: Sequence[Listener]) -> None:
    stop = asyncio.Event()
    stop_on_signals(stop)
    loop = asyncio.get_running_loop()
    async with extender.running():
        for listener in listeners:
            is_path = listener.path is not None
            create: Callable[..., Awaitable[asyncio.Server]] = (
                loop.create_unix_server if is_path else loop.create_server
            )
            tls = extender.tls_of(is_path=is_path)
            await extender.server.listen(
                partial(create, sock=listener.socket, backlog=BACKLOG, **tls)
            )
        _tell(listeners, extender.options)
        await stop.wait()


def configured_for(number: int, configured: Configured) -> Configured:
    """Only the first worker reschedules of its own accord, lest pods be deleted twice."""
    if number == FIRST:
        return configured
    return replace(configured, settings=replace(configured.settings, reschedule_interval=0.0))


async def _serve_as_worker(
    configured: Configured, options: ExtenderOptions, mailboxes: Mailboxes, number: int
) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    extender = Extender(configured_for(number, configured), options)
    peers = Peers(mailboxes, number)
    peers.attach(extender.service)

    def take(message: bytes, connection: socket.socket) -> None:
        if message.startswith(QUESTION):
            peers.take(message, connection)
        else:
            extender.server.adopt(connection, **extender.tls_of(is_path=message == FROM_PATH))

    async with extender.running():
        leave = mailboxes.take_from(number, take)
        try:
            await stop.wait()
        finally:
            leave()
