"""Which host ports are taken on which rows, kept up to date as pods come and go.

`PodInfo` carries a pod's host ports, `NodeTable` announces them with every pod that has any; the
NodePorts plugin asks. Pods without host ports cost nothing here. What must stay true: the counts
equal a recount over `table.pods`. Pods that were bound by hand may share a port.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias

from stowplan.api.objects import ContainerPort, Pod

#: Protocol and number.
_Port: TypeAlias = tuple[str, int]

#: Every address of the node.
ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - compared, never listened on


class HostPort(NamedTuple):
    """A port of the node that a pod takes for itself."""

    protocol: str
    port: int
    address: str


def host_ports(pod: Pod) -> tuple[HostPort, ...]:
    """The host ports of a pod's lasting containers: init containers only if they keep running."""
    found: list[HostPort] = []
    for container in pod.spec.init_containers or ():
        if container.ports and container.restart_policy == "Always":
            found += _ports(container.ports)
    for container in pod.spec.containers or ():
        if container.ports:
            found += _ports(container.ports)
    return tuple(found)


def any_clash(wanted: Iterable[HostPort], taken: Iterable[HostPort]) -> bool:
    """Whether two pods on one node cannot have these ports."""
    others = _addresses_by_port(taken)
    return any(
        ANY_ADDRESS in addresses
        or ANY_ADDRESS in others[port]
        or not addresses.isdisjoint(others[port])
        for port, addresses in _addresses_by_port(wanted).items()
        if port in others
    )


def _addresses_by_port(ports: Iterable[HostPort]) -> dict[_Port, set[str]]:
    found: dict[_Port, set[str]] = {}
    for protocol, port, address in ports:
        found.setdefault((protocol, port), set()).add(address)
    return found


class UsedPorts:
    """Taken host ports by protocol and number, then address, then row.

    DIVERGES: ports are counted. Upstream keeps a set, in which a port is free as soon as one of
    several pods that share it has left.
    """

    def __init__(self) -> None:
        self._used: dict[_Port, dict[str, dict[int, int]]] = {}

    def __len__(self) -> int:
        """How many ports are taken anywhere; each protocol has its own."""
        return len(self._used)

    def change(self, row: int, ports: Iterable[HostPort], delta: int) -> None:
        """A pod came to a row (+1) or left it (-1)."""
        for protocol, port, address in ports:
            by_address = self._used.setdefault((protocol, port), {})
            rows = by_address.setdefault(address, {})
            left = rows.get(row, 0) + delta
            if left:
                rows[row] = left
                continue
            del rows[row]
            if not rows:
                del by_address[address]
                if not by_address:
                    del self._used[protocol, port]

    def rows_clashing(self, wanted: Iterable[HostPort]) -> set[int]:
        """The rows where one of some ports cannot be had."""
        found: set[int] = set()
        for port, addresses in _addresses_by_port(wanted).items():
            for rows in self._holders(port, addresses):
                found.update(rows)
        return found

    def clashes(self, row: int, wanted: Iterable[HostPort]) -> bool:
        """Whether one of some ports cannot be had on one row."""
        return any(
            row in rows
            for port, addresses in _addresses_by_port(wanted).items()
            for rows in self._holders(port, addresses)
        )

    def _holders(self, port: _Port, addresses: set[str]) -> Iterator[dict[int, int]]:
        """The rows of each address that stands in the way of these."""
        by_address = self._used.get(port)
        if by_address is None:
            return
        if ANY_ADDRESS in addresses:
            yield from by_address.values()
            return
        for address in (ANY_ADDRESS, *addresses):
            rows = by_address.get(address)
            if rows is not None:
                yield rows


def _ports(ports: Iterable[ContainerPort]) -> Iterator[HostPort]:
    return (
        HostPort(port.protocol or "TCP", port.host_port, port.host_ip or ANY_ADDRESS)
        for port in ports
        if port.host_port > 0
    )
