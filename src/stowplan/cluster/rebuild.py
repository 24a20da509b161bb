"""Builds everything that the cache derives again, from the objects that it stores.

Stored are the nodes, the placed pods (assumed ones too) and the catalog's objects. Everything else
is derived: sums, label columns, counters, terms, used ports and volumes, compiled specs. The
self-check (`scheduler.self_check`) decides again on a new cache that it fills; `rebuild` drops the
derived values of a running scheduler. Rows keep their slots, so two tables can be compared row by
row.

Two facts follow from history and not from the objects, and are copied: the order of nodes (their
zones in order of arrival) and the size of an image, which the first node to report it decides.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from typing import TypeAlias

import numpy as np

from stowplan.api.objects import Pod
from stowplan.cluster import compiled
from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.pod_info import compile_pod
from stowplan.cluster.table import NodeTable

#: A pod, its node, and whether it is assumed.
_Placed: TypeAlias = tuple[Pod, str, bool]


def fill(empty: ClusterCache, cache: ClusterCache) -> None:
    """Give a new cache the same objects. Call it within `compiled.anew`: specs are derived, too."""
    _clear(empty.table)
    NodeTable.__init__(empty.table, cache.table.capacity)
    _fill(empty, cache.table, cache.placed())
    empty.catalog = cache.catalog.copy()


def discard(cache: ClusterCache) -> None:
    """Free the memory of a cache at once.

    Its parts refer to each other, and a scheduler's garbage is collected rarely.
    """
    _clear(cache.table)
    cache.catalog.discard()


def rebuild(cache: ClusterCache) -> None:
    """Derive everything again in place.

    The table's logs are new ones, so whatever follows them outside the cache is rebuilt too.
    """
    table, placed = cache.table, list(cache.placed())
    stored = copy(table)
    compiled.clear()
    NodeTable.__init__(table, stored.capacity)
    table.images.version = stored.images.version + 1
    table.work.spent = stored.work.spent
    cache.clear_pods()
    _fill(cache, stored, placed)
    cache.catalog.rebuild()


def _clear(table: NodeTable) -> None:
    vars(table.pod_classes).clear()
    vars(table).clear()


def _fill(cache: ClusterCache, stored: NodeTable, placed: Iterable[_Placed]) -> None:
    """Put nodes and pods into an empty table, each into the row that it has in `stored`."""
    table = cache.table
    table.lay_out(stored)
    for name in stored.node_names():
        table.set_node(stored.node(stored.row_of[name]))
    table.images.copy_sizes(stored.images)
    for pod, node, is_assumed in placed:
        cache.place(compile_pod(pod), node, assumed=is_assumed)
    table.drop_empty_rows()
    order = stored.order
    if np.array_equal(np.sort(order), table.live_rows):
        # It may lag behind the zones, as upstream's does; see `NodeTable.order`.
        table.keep_order(order)
