"""Sockets that listen, and error messages for a port that cannot be opened."""

from __future__ import annotations

import errno
import os
import socket
from typing import Final

from stowplan.errors import ConfigError

_BACKLOG: Final = 128
#: Errors of a system whose IPv6 is switched off.
_NO_IPV6: Final = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
_ALL: Final = ("0.0.0.0", "::")  # noqa: S104 - the user's choice


def open_port(address: str, port: int, *, flag: str, reuse_port: bool = False) -> socket.socket:
    """A listening socket; ConfigError if there can be none.

    As in Go, 0.0.0.0 and :: mean all addresses, of IPv4 and of IPv6.
    """
    try:
        if address in _ALL:
            try:
                return socket.create_server(
                    ("::", port),
                    family=socket.AF_INET6,
                    backlog=_BACKLOG,
                    reuse_port=reuse_port,
                    dualstack_ipv6=True,
                )
            except ValueError:
                """There is no IPv6 here."""
            except OSError as error:
                if error.errno not in _NO_IPV6:
                    raise
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        return socket.create_server(
            (address, port), family=family, backlog=_BACKLOG, reuse_port=reuse_port
        )
    except OSError as error:
        raise cannot_listen(error, address, port, flag=flag) from None


def cannot_listen(error: OSError, host: str, port: int, *, flag: str) -> ConfigError:
    """The error to raise when binding a socket failed; `flag` is where the port came from."""
    # Resolver errors carry negative numbers that strerror would misread.
    known = error.errno is not None and error.errno > 0
    reason = os.strerror(error.errno or 0) if known else (error.strerror or str(error))
    return ConfigError(
        f"cannot listen on {host}:{port}: {reason}; choose another address or port", where=flag
    )
