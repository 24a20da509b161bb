"""The proxy that HTTPS_PROXY, HTTP_PROXY and NO_PROXY name, by Go's rules.

Called by `kubeconfig` if the kubeconfig names no proxy for the cluster. Go, unlike most of Python,
understands address ranges in NO_PROXY and never sends loopback traffic through a proxy; clusters
are set up with that in mind.
"""

from __future__ import annotations

import ipaddress
import os
from urllib.parse import urlsplit

from stowplan.api.loopback import is_loopback


def proxy_from_environment(server: str) -> str:
    """URL of the proxy to use for `server`; empty for a direct connection."""
    parts = urlsplit(server)
    host = (parts.hostname or "").lower()
    variable = "HTTPS_PROXY" if parts.scheme == "https" else "HTTP_PROXY"
    proxy = os.environ.get(variable) or os.environ.get(variable.lower()) or ""
    if not proxy or is_loopback(server):
        return ""
    excluded = os.environ.get("NO_PROXY") or os.environ.get("no_proxy") or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    if any(_matches(rule.strip().lower(), host, port) for rule in excluded.split(",")):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def _matches(rule: str, host: str, port: int) -> bool:
    """`*`, `1.2.3.0/24`, `1.2.3.4`, `host[:port]` with its subdomains, `.subdomains.only`."""
    if not rule:
        return False
    if rule == "*":
        return True
    if "/" in rule:
        try:
            return ipaddress.ip_address(host) in ipaddress.ip_network(rule, strict=False)
        except ValueError:
            return False
    name, colon, rule_port = rule.rpartition(":")
    if colon and rule_port.isdigit() and ":" not in name:
        if int(rule_port) != port:
            return False
        rule = name
    rule = rule.strip("[]").removeprefix("*")
    if rule.startswith("."):
        return host.endswith(rule)
    return host == rule or host.endswith(f".{rule}")
