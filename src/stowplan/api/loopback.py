"""Check whether a server is on this machine, for proxies, compression and scenarios' guards."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit


def is_loopback(server: str) -> bool:
    """Of a URL; a name other than localhost may lead anywhere."""
    host = urlsplit(server).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
