"""Sampling, rotation and ties, against upstream's own numbers and a literal heap."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.errors import StowplanError
from stowplan.framework.selection import (
    best_place,
    chosen_place,
    first_feasible,
    first_fitting,
    nodes_to_find,
)
from tests.unit.scheduler.go_heap import GoHeap


@pytest.mark.parametrize(
    ("total", "percentage", "expected"),
    [
        # The table of upstream's TestNumFeasibleNodesToFind ...
        (10, 0, 10),
        (10, 40, 10),
        (1000, 0, 420),
        (1000, 40, 400),
        (6000, 0, 300),
        (6000, 40, 2400),
        # ... and the edges.
        (0, 0, 0),
        (99, 1, 99),
        (100, 1, 100),
        (100, 0, 100),
        (101, 99, 100),
        (1000, 5, 100),
        (1999, 5, 100),
        (5000, 0, 500),
        (5625, 0, 281),
        (6250, 0, 312),
        (100_000, 0, 5000),
        (5000, 100, 5000),
    ],
)
def test_how_many_nodes_to_find(total: int, percentage: int, expected: int) -> None:
    assert nodes_to_find(total, percentage) == expected


def _search(alive: str, *, start: int, limit: int) -> tuple[list[int], int]:
    """Rows 0, 1, ... in this order; "x" is feasible."""
    ordered = np.arange(len(alive))
    flags = np.array([letter == "x" for letter in alive])
    rows, passed = first_feasible(ordered, flags, start=start, limit=limit)
    return rows.tolist(), passed


@pytest.mark.parametrize(
    ("alive", "start", "limit", "expected", "passed"),
    [
        ("xxxx", 0, 4, [0, 1, 2, 3], 4),
        ("xxxx", 1, 4, [1, 2, 3, 0], 4),
        ("xxxx", 3, 2, [3, 0], 2),
        ("x-x-", 0, 1, [0], 2),
        ("x-x-", 1, 1, [2], 3),
        ("-xxx", 0, 2, [1, 2], 3),
        ("x---", 1, 2, [0], 4),
        ("----", 2, 3, [], 4),
        ("xx", 7, 2, [1, 0], 2),
        ("xx--", 0, 2, [0, 1], 4),
    ],
)
def test_the_search_goes_round_and_stops_before_one_too_many(
    alive: str, start: int, limit: int, expected: list[int], passed: int
) -> None:
    assert _search(alive, start=start, limit=limit) == (expected, passed)


def _upstream_search(alive: str, start: int, limit: int) -> tuple[list[int], int]:
    """findNodesThatPassFilters with one worker, word for word."""
    feasible: list[int] = []
    failed = 0
    for i in range(len(alive)):
        node = (start + i) % len(alive)
        if alive[node] == "x":
            if len(feasible) + 1 > limit:
                break
            feasible.append(node)
        else:
            failed += 1
    return feasible, len(feasible) + failed


@given(
    alive=st.text("x-", min_size=1, max_size=12),
    start=st.integers(0, 30),
    limit=st.integers(1, 12),
)
def test_the_search_is_upstreams(alive: str, start: int, limit: int) -> None:
    assert _search(alive, start=start, limit=limit) == _upstream_search(alive, start, limit)


def test_the_heap_of_the_test_sorts() -> None:
    heap = GoHeap([3, 1, 4, 1, 5, 9, 2, 6])
    assert [heap.pop() for _ in range(8)][:4] == [5, 7, 4, 2]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=70))
def test_ties_go_to_the_heaps_choice(scores: list[int]) -> None:
    assert best_place(np.array(scores, np.int64)) == GoHeap(scores).pop()


def test_ties_in_large_clusters() -> None:
    source = random.Random(36)
    for size in (1, 2, 3, 63, 64, 65, 1000, 5000, 100):
        for highest in (0, 1, 5, 800):
            scores = [source.randint(0, highest) for _ in range(size)]
            assert best_place(np.array(scores, np.int64)) == GoHeap(scores).pop()


def test_scores_far_apart_do_not_overflow_into_each_other() -> None:
    size = 4096
    scores = np.zeros(size, np.int64)
    scores[-1] = 1
    assert best_place(scores) == size - 1
    # Twenty plugins of the greatest weight there is.
    scores[:] = 20 * 100 * 100
    scores[17] += 1
    assert best_place(scores) == 17
    assert best_place(-scores) != 17


@given(
    alive=st.text("x-!", min_size=1, max_size=12),
    start=st.integers(0, 20),
    limit=st.integers(1, 12),
)
def test_one_by_one_the_search_finds_the_same_up_to_a_row_that_breaks(
    alive: str, start: int, limit: int
) -> None:
    """`!` breaks; what comes after it, in search order, does not count."""

    def fits(row: int) -> bool:
        if alive[row] == "!":
            raise StowplanError("broken on purpose")
        return alive[row] == "x"

    rows, passed, problem = first_fitting(np.arange(len(alive)), fits, start=start, limit=limit)
    begin = start % len(alive)
    rotated = alive[begin:] + alive[:begin]
    sound, mark, _ = rotated.partition("!")
    expected, before = _search(sound, start=0, limit=limit) if sound else ([], 0)
    assert [(row - begin) % len(alive) for row in rows.tolist()] == expected
    assert passed == before
    assert (problem is not None) == (bool(mark) and before == len(sound))


TIED = np.array([3, 9, 9, 1, 9, 0], np.int64)


def test_without_a_seed_ties_go_by_the_heap() -> None:
    assert {chosen_place(TIED, seed=None, turn=turn) for turn in range(20)} == {best_place(TIED)}


def test_the_same_seed_and_turn_choose_the_same() -> None:
    def draws(seed: int) -> list[int]:
        return [chosen_place(TIED, seed=seed, turn=turn) for turn in range(50)]

    assert draws(7) == draws(7)
    assert draws(7) != draws(8)


def test_each_of_the_tied_has_the_same_chance() -> None:
    turns = 3000
    wins = Counter(chosen_place(TIED, seed=1, turn=turn) for turn in range(turns))
    assert set(wins) == {1, 2, 4}
    # A fixed seed, so this cannot fail by chance; 3 sigma of a fair draw are 77.
    assert all(abs(count - turns / 3) < 77 for count in wins.values())


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40), st.integers(), st.integers(0, 99))
def test_a_random_winner_is_one_of_the_best(scores: list[int], seed: int, turn: int) -> None:
    totals = np.array(scores, np.int64)
    assert totals[chosen_place(totals, seed=seed, turn=turn)] == max(scores)
