"""The order in which nodes are looked at: zones in turn, as kube-scheduler's node tree has it.

Zones stand in the order in which they were first seen, nodes within a zone in order of arrival.
A node that moves to another zone changes the tree at once but `order` only when the next node
comes or goes, as upstream.
"""

from __future__ import annotations

from stowplan.api.objects import Node

_REGION_LABELS = ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region")
_ZONE_LABELS = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")


def zone_key(node: Node) -> str:
    """Region and zone of a node in one string, "" when it has neither."""
    labels = node.metadata.labels
    if not labels:
        return ""
    region = next((labels[key] for key in _REGION_LABELS if key in labels), "")
    zone = next((labels[key] for key in _ZONE_LABELS if key in labels), "")
    return f"{region}:\0:{zone}" if region or zone else ""


class NodeTree:
    """Node names by zone."""

    def __init__(self) -> None:
        self._zones: dict[str, dict[str, None]] = {}
        self._zone_of: dict[str, str] = {}

    def add(self, node: Node) -> None:
        zone = zone_key(node)
        self._zones.setdefault(zone, {})[node.name] = None
        self._zone_of[node.name] = zone

    def remove(self, name: str) -> None:
        zone = self._zone_of.pop(name)
        names = self._zones[zone]
        del names[name]
        if not names:
            del self._zones[zone]

    def move(self, node: Node) -> None:
        """Put a node into the zone that its labels name now."""
        if self._zone_of[node.name] != zone_key(node):
            self.remove(node.name)
            self.add(node)

    def names(self) -> list[str]:
        """All names, zone by zone."""
        return [name for names in self._zones.values() for name in names]

    def order(self) -> list[str]:
        """All names: the first of each zone, the second of each, and so on."""
        zones = [list(names) for names in self._zones.values()]
        longest = max(map(len, zones), default=0)
        return [names[i] for i in range(longest) for names in zones if i < len(names)]
