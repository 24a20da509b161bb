"""The order in which nodes are looked at."""

from __future__ import annotations

import pytest

from stowplan.api.objects import Node
from stowplan.cluster.node_tree import NodeTree, zone_key
from stowplan.testing import node

REGION, ZONE = "topology.kubernetes.io/region", "topology.kubernetes.io/zone"
OLD_REGION = "failure-domain.beta.kubernetes.io/region"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"


@pytest.mark.parametrize(
    ("labels", "key"),
    [
        ({}, ""),
        ({ZONE: "z"}, ":\0:z"),
        ({REGION: "r"}, "r:\0:"),
        ({REGION: "r", ZONE: "z"}, "r:\0:z"),
        ({OLD_REGION: "old", REGION: "r", OLD_ZONE: "older", ZONE: "z"}, "old:\0:older"),
        ({OLD_ZONE: "older", REGION: "r"}, "r:\0:older"),
        ({REGION: "", ZONE: ""}, ""),
    ],
)
def test_zone_key(labels: dict[str, str], key: str) -> None:
    assert zone_key(node("n", labels=labels)) == key
    assert zone_key(Node()) == ""


def tree_of(*names_and_zones: str) -> NodeTree:
    """`a@z1` is node a in zone z1."""
    tree = NodeTree()
    for text in names_and_zones:
        tree.add(placed(text))
    return tree


def placed(text: str) -> Node:
    name, _, zone = text.partition("@")
    return node(name, zone=zone or None)


def test_zones_take_turns() -> None:
    tree = tree_of("a@z1", "b@z1", "c@z2", "d@z3", "e@z3", "f@z3")
    assert tree.order() == ["a", "c", "d", "b", "e", "f"]


def test_zones_stand_in_the_order_they_were_first_seen() -> None:
    assert tree_of("b@z2", "a@z1", "c").order() == ["b", "a", "c"]


def test_empty_zone_is_forgotten_and_comes_back_last() -> None:
    tree = tree_of("a@z1", "b@z2", "c@z3")
    tree.remove("a")
    tree.add(placed("d@z1"))
    assert tree.order() == ["b", "c", "d"]


def test_moving_puts_a_node_last_in_its_new_zone() -> None:
    tree = tree_of("a@z1", "b@z1", "c@z2")
    tree.move(placed("a@z2"))
    assert tree.order() == ["b", "c", "a"]
    tree.move(placed("b@z1"))
    assert tree.order() == ["b", "c", "a"]


def test_nothing_in_the_tree() -> None:
    assert NodeTree().order() == []
