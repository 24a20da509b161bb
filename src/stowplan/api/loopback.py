"""Check whether a server is on this machine, for proxies, compression and scenarios' guards."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit


def is_loopback(server: str) -> bool:
    """Of a URL; a name other than localhost may lead anywhere."""
    try:
        host = urlsplit(server).hostname or ""
    except ValueError:
        return False
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
