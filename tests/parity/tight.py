"""Our caches, journals and tables with hardly any room.

A small cluster never fills what is made for a large one. Within `tight()` whatever is made then
grows, forgets and starts over all the time; the answers must stay the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from stowplan.cluster import (
    affinity_terms,
    bytes_lru,
    counters,
    domain_sums,
    pod_classes,
    row_counts,
)
from stowplan.cluster.affinity_terms import TermFamily
from stowplan.cluster.counters import PodCounters
from stowplan.cluster.derived import Derived
from stowplan.cluster.domains import Domains
from stowplan.cluster.journal import ChangeLog
from stowplan.cluster.label_columns import LabelColumns
from stowplan.cluster.pod_classes import PodClasses
from stowplan.cluster.row_counts import RowCounts
from stowplan.cluster.table import NodeTable
from stowplan.framework import forms, what_if
from stowplan.framework.columns import ColumnCache
from stowplan.plugins.node_resources_fit import plugin as fit

#: What a constructor takes for granted, and how little to take instead.
_DEFAULTS: list[tuple[Any, tuple[int, ...]]] = [
    (NodeTable.__init__, (2,)),
    (ChangeLog.__init__, (3,)),
    (ColumnCache.__init__, (2000,)),
]
#: Budgets in bytes.
_LIMITS: list[tuple[Any, int]] = [
    (PodCounters.__init__, 1000),
    (Domains.__init__, 2000),
    (LabelColumns.__init__, 1000),
    (PodClasses.__init__, 1000),
    (TermFamily.__init__, 1000),
]
_CONSTANTS: list[tuple[Any, str, int]] = [
    (RowCounts, "_LOG_LIMIT", 2),
    (Derived, "MOST_CHANGES", 1),
    (counters, "_MANY_CHANGES", 2),
    (affinity_terms, "_MANY_CHANGES", 2),
    (row_counts, "_MANY_CHANGES", 1),
    (pod_classes, "_FEW_CLASSES", 1),
    (pod_classes, "_FEW_PLACES", 1),
    (bytes_lru, "IDLE_TICKS", 3),
    (domain_sums, "FEW_ROWS", 1),
    (forms, "FEW_ROWS", 1),
    (what_if, "_FEW_ROWS", 0),
    (bytes_lru, "SEEN_LIMIT", 3),
    (bytes_lru, "IDLE_LOOKUPS", 40),
    (fit, "_KNOWN_WANTS", 2),
]


@contextmanager
def tight() -> Iterator[None]:
    """For what is made within; what was made before keeps its room."""
    with ExitStack() as stack:
        for constructor, values in _DEFAULTS:
            assert len(constructor.__defaults__) == len(values)
            stack.enter_context(patch.object(constructor, "__defaults__", values))
        for constructor, limit in _LIMITS:
            assert "limit_bytes" in constructor.__kwdefaults__
            stack.enter_context(patch.dict(constructor.__kwdefaults__, limit_bytes=limit))
        for holder, name, value in _CONSTANTS:
            stack.enter_context(patch.object(holder, name, value))
        yield
