"""The extender as a process: where it listens, with which credentials, until which signal.

`stowplan extender` calls `run`. The first SIGTERM or Ctrl-C lets requests under way end and exits
with 0, the second ends at once.
"""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from stowplan.errors import ConfigError
from stowplan.extender.configuration import Configured
from stowplan.extender.credentials import Access, Tls, TlsFiles, Tokens
from stowplan.extender.http_messages import Limits
from stowplan.extender.http_server import HttpServer
from stowplan.extender.parts import Parts
from stowplan.extender.service import Service
from stowplan.extender.watched_files import keep_loaded
from stowplan.logs import get_logger, kv
from stowplan.server.listen import cannot_listen
from stowplan.server.memory import keep_freed_memory, spare_the_collector
from stowplan.server.serving import run_on_loop, stop_on_signals

log = get_logger(__name__)

DEFAULT_PORT: Final = 31800
#: 5,000 nodes of 26 KiB each; one with 50 images, which is all a kubelet tells, has about 20.
DEFAULT_MAX_BODY: Final = 128 * 1024 * 1024
BANNER: Final = "This software is pre-production and should not be deployed to production servers."
_HANDSHAKE_S: Final = 10.0
_BACKLOG: Final = 1024


@dataclass(frozen=True, slots=True)
class ExtenderOptions:
    """The command's flags."""

    bind_address: str = "0.0.0.0"  # noqa: S104 - kube-scheduler is elsewhere
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


def run(configured: Configured, options: ExtenderOptions) -> None:
    """Serve until a signal; errors go to the command line."""
    keep_freed_memory()
    spare_the_collector()
    run_on_loop(serve(configured, options))


async def serve(configured: Configured, options: ExtenderOptions) -> None:
    log.warning(BANNER)
    log.debug("started PID=%d", os.getpid())
    tls = None if options.tls is None else Tls(options.tls)
    tokens = None if options.token_file is None else Tokens(options.token_file)
    asks_for_certificate = options.tls is not None and options.tls.client_ca is not None
    gate = None
    if asks_for_certificate or tokens is not None:
        gate = Access(certificates=asks_for_certificate, tokens=tokens)
    service = Service(
        configured.algorithm,
        monitored_namespaces=configured.settings.monitored_namespaces,
        gate=gate,
        algorithm_timeout_s=options.algorithm_timeout_s,
    )
    parts = Parts(configured)
    parts.attach(service)
    stop = asyncio.Event()
    stop_on_signals(stop)
    server = HttpServer(service, Limits(options.max_body, options.request_timeout_s))
    log.info("Starting wca-scheduler.")
    reloading = asyncio.create_task(
        keep_loaded([each.files for each in (tls, tokens) if each is not None]), name="credentials"
    )
    ours: os.stat_result | None = None
    try:
        await parts.start()
        if options.port is not None:
            await _listen_on_port(server, options, tls)
        if options.socket is not None:
            ours = await _listen_on_socket(server, options.socket, options.socket_mode)
        await stop.wait()
        log.info("Ending")
    finally:
        cut_off = await server.stop(options.drain_timeout_s)
        if cut_off:
            log.warning("Requests did not end in time", extra=kv(connections=cut_off))
        reloading.cancel()
        await parts.stop()
        if options.socket is not None and ours is not None:
            _remove_socket(options.socket, ours)
    log.info("Stopped")


async def _listen_on_port(server: HttpServer, options: ExtenderOptions, tls: Tls | None) -> None:
    loop = asyncio.get_running_loop()
    host, port = options.bind_address, options.port or 0
    try:
        listener = await server.listen(
            lambda make: loop.create_server(
                make,
                host,
                port,
                backlog=_BACKLOG,
                ssl=None if tls is None else tls.context,
                ssl_handshake_timeout=None if tls is None else _HANDSHAKE_S,
            )
        )
    except OSError as error:
        raise cannot_listen(error, host, port, flag="--port, --bind-address") from None
    taken = listener.sockets[0].getsockname()[1]
    shown = f"[{host}]" if ":" in host else host
    scheme = "http" if tls is None else "https"
    log.info("Serving", extra=kv(url=f"{scheme}://{shown}:{taken}"))


async def _listen_on_socket(server: HttpServer, path: Path, mode: int) -> os.stat_result:
    """What was made there, to be known again."""
    loop = asyncio.get_running_loop()
    try:
        _make_way(path)
        # Nobody must be able to connect before the mode is right.
        before = os.umask(0o777 & ~mode)
        try:
            await server.listen(
                lambda make: loop.create_unix_server(make, str(path), backlog=_BACKLOG)
            )
        finally:
            os.umask(before)
        made = os.lstat(path)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"cannot listen on {path}: {reason}", where="--socket") from None
    log.info("Serving", extra=kv(socket=str(path)))
    return made


def _make_way(path: Path) -> None:
    """Remove a socket that was left behind, but neither another file nor one that is served."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise ConfigError(f"{path} is there and is no socket", where="--socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
    raise ConfigError(f"{path} is served by another process", where="--socket")


def _remove_socket(path: Path, ours: os.stat_result) -> None:
    try:
        if os.path.samestat(path.lstat(), ours):
            path.unlink()
    except OSError:
        """It is gone already, or its directory is no longer ours."""
