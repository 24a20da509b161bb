"""Ports and Unix sockets of the extender, bound before anything is served.

`serving` opens them; with several workers it is their parent that does, and accepts for all.
Invariant: a socket's file is never another process's, and is gone when the process has ended.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from stowplan.errors import ConfigError
from stowplan.server.listen import cannot_listen

BACKLOG: Final = 1024


@dataclass(frozen=True, slots=True)
class Listener:
    """A socket that clients can connect to already."""

    socket: socket.socket
    #: A Unix socket's file; None for a port.
    path: Path | None = None


@contextmanager
def listening_on_port(host: str, port: int) -> Iterator[list[Listener]]:
    """All addresses of a host name; port 0 takes any."""
    with ExitStack() as opened:
        try:
            found = socket.getaddrinfo(
                host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
            listeners = []
            for family, kind, protocol, _, address in dict.fromkeys(found):
                made = opened.enter_context(socket.socket(family, kind, protocol))
                _listen(made, address)
                listeners.append(Listener(made))
        except OSError as error:
            raise cannot_listen(error, host, port, flag="--port, --bind-address") from None
        yield listeners


def _listen(made: socket.socket, address: Any) -> None:
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Connections inherit it. An answer is written in one go, and waits for nothing.
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if made.family == socket.AF_INET6:
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    made.setblocking(False)
    made.bind(address)
    made.listen(BACKLOG)


@contextmanager
def listening_on_path(path: Path, mode: int) -> Iterator[Listener]:
    """A Unix socket with these permissions."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as made:
        made.setblocking(False)
        try:
            _make_way(path)
            # No client must be able to connect before the mode is set.
            before = os.umask(0o777 & ~mode)
            try:
                made.bind(str(path))
            finally:
                os.umask(before)
            ours = path.lstat()
            made.listen(BACKLOG)
        except OSError as error:
            reason = error.strerror or str(error)
            raise ConfigError(f"cannot listen on {path}: {reason}", where="--socket") from None
        try:
            yield Listener(made, path)
        finally:
            _remove(path, ours)


def _make_way(path: Path) -> None:
    """Remove a socket that was left behind, but neither another file nor one that is served."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise ConfigError(f"{path} exists and is not a socket", where="--socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
    raise ConfigError(f"{path} is served by another process", where="--socket")


def _remove(path: Path, ours: os.stat_result) -> None:
    try:
        if os.path.samestat(path.lstat(), ours):
            path.unlink()
    except OSError:
        """It is gone already, or its directory is no longer ours."""
