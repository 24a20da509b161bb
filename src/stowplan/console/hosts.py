"""Which Host headers are this server's own.

A name of an attacker's that resolves to this server (DNS rebinding) must not be one of them. An
address cannot be rebound, so beyond loopback every address is accepted, and of names only those
that the server's certificate is for.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection


def names_loopback(host: str) -> bool:
    """Whether a Host header, with a port or without, is localhost or an address of loopback."""
    name = _without_port(host)
    address = _address(name)
    return name == "localhost" if address is None else address.is_loopback


def is_named(host: str, names: Collection[str]) -> bool:
    """Whether a Host header is an address, or one of a certificate's names."""
    name = _without_port(host)
    if _address(name) is not None:
        return True
    wildcard = "*." + name.partition(".")[2]
    return bool(name) and (name in names or wildcard in names)


def _without_port(host: str) -> str:
    """The name in lower case; "" if the header is malformed."""
    name, _, port = host.rpartition(":") if not host.endswith("]") else (host, "", "")
    if not name:
        name, port = port, ""
    return "" if port and not port.isdecimal() else name.lower()


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None
