"""Selectors over columns: what `matches` says of every node, whatever the table went through."""

from __future__ import annotations

import numpy as np
import pytest

from stowplan.api.objects import NodeSelector, NodeSelectorTerm
from stowplan.api.selectors import (
    CompiledNodeSelectorTerm,
    Requirement,
    compile_node_selector,
    compile_node_selector_term,
)
from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.node_masks import (
    labels_mask,
    node_selector_mask,
    required_mask,
    required_nodes,
    term_mask,
)
from stowplan.cluster.table import BoolArray
from stowplan.testing import node, pod

ALL = slice(None)


def rows_named(cache: ClusterCache, mask: BoolArray) -> list[str]:
    table = cache.table
    return sorted(table.names[row] for row in table.live_rows.tolist() if mask[row])


@pytest.fixture
def cache() -> ClusterCache:
    cache = ClusterCache()
    for name, labels in (
        ("old", {"gen": "3"}),
        ("new", {"gen": "12"}),
        ("odd", {"gen": "x"}),
        ("bare", {}),
    ):
        cache.set_node(node(name, labels=labels))
    return cache


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [
        (Requirement("gen", "In", ("12", "3", "unheard")), ["new", "old"]),
        (Requirement("gen", "In", ("unheard",)), []),
        (Requirement("gen", "NotIn", ("12",)), ["bare", "odd", "old"]),
        (Requirement("gen", "Exists"), ["new", "odd", "old"]),
        (Requirement("gen", "DoesNotExist"), ["bare"]),
        (Requirement("gen", "Gt", ("3",)), ["new"]),
        (Requirement("gen", "Lt", ("12",)), ["old"]),
        (Requirement("nobody", "NotIn", ("a",)), ["bare", "new", "odd", "old"]),
        (Requirement("nobody", "Gt", ("0",)), []),
    ],
)
def test_every_operator(cache: ClusterCache, requirement: Requirement, expected: list[str]) -> None:
    assert rows_named(cache, labels_mask(cache.table, (requirement,), ALL)) == expected


def test_values_that_come_later_are_compared_too(cache: ClusterCache) -> None:
    newer = (Requirement("gen", "Gt", ("3",)),)
    assert rows_named(cache, labels_mask(cache.table, newer, ALL)) == ["new"]
    for i in range(100):
        cache.set_node(node(f"n{i}", labels={"gen": str(i - 95) if i > 95 else "never"}))
    cache.set_node(node("bare", labels={"gen": "-7"}))
    cache.set_node(node("old", labels={"gen": "40"}))
    cache.remove_node("new")
    assert rows_named(cache, labels_mask(cache.table, newer, ALL)) == ["n99", "old"]


def test_some_rows_in_any_order(cache: ClusterCache) -> None:
    table = cache.table
    rows = np.array([table.row_of[name] for name in ("new", "bare", "old")], np.intp)
    asker = pod(node_selector={"gen": "3"})
    assert required_mask(table, required_nodes(asker), rows).tolist() == [False, False, True]
    named = {"key": "metadata.name", "operator": "In", "values": ["bare"]}
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchFields": [named]}]
            }
        }
    }
    required = required_nodes(pod(affinity=affinity))
    assert required_mask(table, required, rows).tolist() == [False, True, False]
    assert required_mask(table, required, rows[:0]).tolist() == []


def test_pods_that_demand_the_same_share_what_is_compiled() -> None:
    first, second = pod(node_selector={"a": "b"}), pod(cpu=3, node_selector={"a": "b"})
    assert required_nodes(first) is required_nodes(second)
    assert required_nodes(pod()) == required_nodes(pod(node_selector={}))


def test_what_matches_nothing_allows_no_row(cache: ClusterCache) -> None:
    empty = compile_node_selector_term(NodeSelectorTerm())
    assert not term_mask(cache.table, empty, ALL).any()
    assert not node_selector_mask(cache.table, compile_node_selector(NodeSelector()), ALL).any()
    assert term_mask(cache.table, CompiledNodeSelectorTerm(), ALL).all()
