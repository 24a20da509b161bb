"""What is used and free on each node, worked out again only for nodes that have changed.

`Fit` and what builds on it ask for every node of every request; between two requests one node has
a pod more, and thousands are as they were. A node is known to be unchanged by the provider handing
out equal dicts for it (the same ones, with our own providers), so a provider must not change what
it has handed out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stowplan.extender.algorithms import gauges
from stowplan.extender.algorithms.apps import QueriedData
from stowplan.extender.algorithms.arithmetic import (
    Balance,
    flattened,
    numbers,
    read_write_ratio,
    subtract,
    used_by,
)
from stowplan.extender.data import AppName, Apps, NodeName, Resource, Resources

_NO_APPS: Apps = {}
_BANDWIDTHS = (Resource.MEMBW_READ, Resource.MEMBW_WRITE)
#: Nodes that are gone are looked for when there are so many more entries than nodes.
_SLACK = 100


@dataclass(slots=True)
class Entry:
    """A node, and from what it was worked out."""

    seen_capacity: Resources
    seen_apps: Apps
    seen_needs: Mapping[AppName, Resources]
    capacity: Resources
    used: Resources
    ratio: float | None
    #: Free bandwidth as one number, if there is any.
    free_flat: float | None
    has_unknown_apps: bool


class Ledger:
    """Entries by node."""

    def __init__(self, shown: gauges.Shown) -> None:
        self._shown = shown
        self._entries: dict[NodeName, Entry] = {}
        #: What entries were worked out with, and what was given last, which may be equal to it.
        self._needs: Mapping[AppName, Resources] = {}
        self._latest_needs: Mapping[AppName, Resources] = self._needs
        #: Of the app that was asked about last: as it was given, and what of it is a number.
        self._app: AppName = ""
        self._given: Resources = {}
        self._requested: Resources = {}

    def balance(
        self, node: NodeName, app: AppName, data: QueriedData, capacity: Resources
    ) -> tuple[Balance, bool]:
        """What is known of a node with one pod more of `app`, whose needs are known; and whether
        there are apps on the node of which nothing is known."""
        entry = self._entry(node, capacity, data)
        requested = self._requested_by(app, data.apps_spec[app])
        known = entry.capacity
        if len(requested) == len(known) and requested.keys() == known.keys():
            if entry.free_flat is not None:
                self._shown.put_pair(gauges.PREDICTED_MEMBW_FLAT, app, node, entry.free_flat)
            return Balance(known, entry.used, requested, entry.ratio), entry.has_unknown_apps
        both = _whole({r: amount for r, amount in known.items() if r in requested})
        used = {r: entry.used[r] for r in both}
        asked = {r: requested[r] for r in both}
        return Balance(both, used, asked, read_write_ratio(both)), entry.has_unknown_apps

    def _entry(self, node: NodeName, capacity: Resources, data: QueriedData) -> Entry:
        if data.apps_spec is not self._latest_needs:
            self._latest_needs = data.apps_spec
            if self._needs != data.apps_spec:
                self._needs = data.apps_spec
        apps = data.assigned_apps.get(node, _NO_APPS)
        entry = self._entries.get(node)
        if (
            entry is not None
            and entry.seen_needs is self._needs
            and (entry.seen_apps is apps or entry.seen_apps == apps)
            and (entry.seen_capacity is capacity or entry.seen_capacity == capacity)
        ):
            return entry
        entry = self._entries[node] = self._work_out(node, capacity, apps)
        return entry

    def keep_only(self, nodes: Mapping[NodeName, Resources]) -> None:
        """Forget nodes that are gone, if there may be many of them."""
        if len(self._entries) > len(nodes) + _SLACK:
            gone = [node for node in self._entries if node not in nodes]
            for node in gone:
                del self._entries[node]
            self._shown.forget_nodes(gone)

    def _work_out(self, node: NodeName, seen: Resources, apps: Apps) -> Entry:
        needs = self._needs
        capacity = _whole(numbers(seen))
        used = used_by(apps, needs, capacity)
        ratio = read_write_ratio(capacity)
        free = subtract(capacity, used, ratio)
        self._shown.put_node(gauges.NODE_CAPACITY, node, capacity)
        self._shown.put_node(gauges.NODE_USED, node, used)
        self._shown.put_node(gauges.NODE_FREE, node, free)
        flat = None if ratio is None else flattened(free, ratio)[Resource.MEMBW_FLAT]
        has_unknown = any(app not in needs for app in apps)
        return Entry(seen, apps, needs, capacity, used, ratio, flat, has_unknown)

    def _requested_by(self, app: AppName, given: Resources) -> Resources:
        if app != self._app or given is not self._given:
            self._app, self._given, self._requested = app, given, numbers(given)
            self._shown.put_app(gauges.APP_REQUESTED, app, self._requested)
        return self._requested


def _whole(known: Resources) -> Resources:
    """Without bandwidths if one of them is missing: half of what bandwidth is judged by says
    nothing."""
    if all(resource in known for resource in _BANDWIDTHS):
        return known
    return {r: amount for r, amount in known.items() if r not in _BANDWIDTHS}
