"""Rows by the pods they are pinned for: which changes of nodes are read."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.api.objects import Node
from stowplan.cluster.cache import ClusterCache
from stowplan.plugins.static_placement.labels import PinLabels
from stowplan.plugins.static_placement.pin_index import PinIndex, PodNames
from stowplan.testing import node


class Counting(PinIndex):
    """Counts the nodes that are read."""

    read = 0

    def pods_on(self, node: Node) -> PodNames:
        self.read += 1
        return super().pods_on(node)


LABELS = PinLabels("test")


def pinned(name: str, pod: str, **more: Any) -> Node:
    return node(name, annotations={LABELS.annotation("default"): pod}, **more)


@pytest.fixture
def cache() -> ClusterCache:
    cache = ClusterCache()
    for number in range(8):
        cache.set_node(node(f"n{number}"))
    return cache


def rows(index: PinIndex, cache: ClusterCache, pod: str = "web-0") -> set[str]:
    found = index.find(cache.table, "default", pod)
    return {cache.table.names[row] for row in found}


def test_a_pin_that_comes_or_goes_reads_that_node_alone(cache: ClusterCache) -> None:
    index = Counting(LABELS)
    assert rows(index, cache) == set()
    index.read = 0
    cache.set_node(pinned("n3", "web-0"))
    assert rows(index, cache) == {"n3"}
    cache.set_node(node("n3"))
    assert rows(index, cache) == set()
    assert index.read == 2


def test_a_question_without_a_change_reads_nothing(cache: ClusterCache) -> None:
    index = Counting(LABELS)
    rows(index, cache)
    index.read = 0
    rows(index, cache, "web-1")
    assert index.read == 0


def test_a_node_that_goes_is_left_out_and_back_when_it_comes_back(cache: ClusterCache) -> None:
    index = Counting(LABELS)
    cache.set_node(pinned("n3", "web-0"))
    assert rows(index, cache) == {"n3"}
    cache.remove_node("n3")
    assert rows(index, cache) == set()
    cache.set_node(pinned("n3", "web-0"))
    assert rows(index, cache) == {"n3"}


def test_another_table_is_read_from_nothing(cache: ClusterCache) -> None:
    index, other = Counting(LABELS), ClusterCache()
    cache.set_node(pinned("n3", "web-0"))
    other.set_node(pinned("elsewhere", "web-0"))
    assert rows(index, cache) == {"n3"}
    assert rows(index, other) == {"elsewhere"}
    assert rows(index, cache) == {"n3"}


def test_changes_that_the_journal_has_dropped_are_read_from_nothing(cache: ClusterCache) -> None:
    index = Counting(LABELS)
    rows(index, cache)
    cache.table.node_journal.limit = 1
    for number in range(8):
        cache.set_node(pinned(f"n{number}", "web-0"))
    assert rows(index, cache) == {f"n{number}" for number in range(8)}
