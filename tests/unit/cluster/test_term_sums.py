"""Node selectors with very many terms or requirements: the same answers, in pieces that stay."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from stowplan.api.labels import Requirement, all_match
from stowplan.api.selectors import CompiledNodeSelector, CompiledNodeSelectorTerm
from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.label_columns import combined_by_label
from stowplan.cluster.node_masks import node_selector_mask, term_weights
from stowplan.cluster.work import DecisionDeferred
from stowplan.testing import node

ALL = slice(None)


def cluster(nodes: int = 20) -> ClusterCache:
    cache = ClusterCache()
    for number in range(nodes):
        labels = {"disk": f"d{number % 7}", "rack": str(number % 5)}
        cache.set_node(node(f"n{number}", labels=labels))
    return cache


def term(disk: str, rack: str) -> CompiledNodeSelectorTerm:
    return CompiledNodeSelectorTerm(
        (Requirement("disk", "In", (disk,)), Requirement("rack", "In", (rack,)))
    )


#: Most match nothing.
TERMS = tuple(term(f"d{number}", str(number % 5)) for number in range(300))


def expected(cache: ClusterCache, terms: tuple[CompiledNodeSelectorTerm, ...]) -> list[int]:
    table = cache.table
    return [
        sum(each.matches(table.node(row).metadata.labels, table.names[row]) for each in terms)
        for row in table.live_rows.tolist()
    ]


def counted(cache: ClusterCache, terms: tuple[CompiledNodeSelectorTerm, ...] = TERMS) -> list[int]:
    table = cache.table
    weighted = [(1, each) for each in terms]
    return [int(sum_) for sum_ in term_weights(table, terms, weighted, ALL)[table.live_rows]]


def test_many_terms_count_as_each_by_itself() -> None:
    cache = cluster()
    assert counted(cache) == expected(cache, TERMS)
    assert sum(counted(cache)) > 0
    mask = node_selector_mask(cache.table, CompiledNodeSelector(TERMS), ALL)
    assert mask[cache.table.live_rows].tolist() == [count > 0 for count in expected(cache, TERMS)]
    rows = np.array([3, 1], np.intp)
    assert node_selector_mask(cache.table, CompiledNodeSelector(TERMS), rows).tolist() == [
        expected(cache, TERMS)[row] > 0 for row in (3, 1)
    ]


def test_nodes_that_change_come_or_go_are_counted_again() -> None:
    cache = cluster()
    counted(cache)
    built = cache.table.term_sums.get(TERMS)
    cache.set_node(node("n3", labels={"disk": "d2", "rack": "2"}))
    cache.set_node(node("new", labels={"disk": "d1", "rack": "1"}))
    cache.remove_node("n5")
    assert counted(cache) == expected(cache, TERMS)
    assert cache.table.term_sums.get(TERMS) is built, "row by row"
    for number in range(200):
        cache.set_node(node(f"more-{number}", labels={"disk": "d1", "rack": "1"}))
    assert counted(cache) == expected(cache, TERMS)


def test_an_interrupted_addition_goes_on() -> None:
    cache, dice = cluster(), Random(1)
    work = cache.table.work
    interruptions = 0
    found: list[int] = []
    while not found:
        work.limit(500_000)
        try:
            found = counted(cache)
            continue
        except DecisionDeferred:
            interruptions += 1
        finally:
            work.unlimit()
        # The world goes on meanwhile.
        labels = {"disk": f"d{dice.randrange(9)}", "rack": str(dice.randrange(5))}
        cache.set_node(node(f"n{dice.randrange(20)}", labels=labels))
    assert found == expected(cache, TERMS)
    assert 4 < interruptions < 100


def test_what_is_no_longer_asked_for_goes() -> None:
    cache = cluster()
    counted(cache)
    assert len(cache.table.term_sums) == 1
    cache.table.term_sums.advance(1 << 20)
    assert len(cache.table.term_sums) == 0


@pytest.mark.parametrize("seed", range(30))
def test_combined_requirements_mean_the_same(seed: int) -> None:
    dice = Random(seed)

    def values() -> tuple[str, ...]:
        return tuple(sorted({dice.choice("123456") for _ in range(dice.randrange(1, 5))}))

    def requirement() -> Requirement:
        key = dice.choice("ab")
        match dice.choice(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]):
            case "In":
                return Requirement(key, "In", values())
            case "NotIn":
                return Requirement(key, "NotIn", values())
            case "Exists":
                return Requirement(key, "Exists")
            case "DoesNotExist":
                return Requirement(key, "DoesNotExist") if dice.random() < 0.1 else requirement()
            case "Gt":
                return Requirement(key, "Gt", (dice.choice(["-1", "0", "2", "10"]),))
            case _:
                return Requirement(key, "Lt", (dice.choice(["3", "5", "10"]),))

    given = [requirement() for _ in range(dice.randrange(1, 12))]
    combined = tuple(combined_by_label(given))
    assert len(combined) <= 12
    for first in (None, *"123456", "x"):
        for second in (None, *"36"):
            labels = {k: v for k, v in (("a", first), ("b", second)) if v is not None}
            assert all_match(combined, labels) == all_match(tuple(given), labels), (given, labels)


def test_thousands_of_requirements_on_a_label_cost_little() -> None:
    """They look at all nodes once, and not once each."""
    many = tuple(Requirement("disk", "NotIn", (f"x{number}",)) for number in range(5_000))
    cache = cluster()
    spent = cache.table.work.spent
    mask = node_selector_mask(
        cache.table, CompiledNodeSelector((CompiledNodeSelectorTerm(many),)), ALL
    )
    assert mask[cache.table.live_rows].all()
    assert cache.table.work.spent - spent < 5_000_000
