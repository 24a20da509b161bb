"""kube-scheduler's rules for how many nodes to find, where to start, and which node wins a tie."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np

from stowplan.cluster.journal import Rows
from stowplan.cluster.table import BoolArray, Int64Array
from stowplan.errors import StowplanError

_MIN_FEASIBLE = 100
_MIN_PERCENTAGE = 5
#: Bits below a score that hold the tie-break; room for a million nodes.
RANK_BITS = 20


def nodes_to_find(total: int, percentage: int) -> int:
    """After how many feasible nodes the search may stop. 0 percent: fewer in larger clusters."""
    if total < _MIN_FEASIBLE or percentage >= 100:
        return total
    if percentage == 0:
        percentage = max(_MIN_PERCENTAGE, 50 - total // 125)
    return max(total * percentage // 100, _MIN_FEASIBLE)


def first_feasible(ordered: Rows, alive: BoolArray, *, start: int, limit: int) -> tuple[Rows, int]:
    """Feasible rows in search order, and how many rows the search passed.

    The search begins at `start` in `ordered`, goes round, and ends before the feasible row that
    would be one too many. No other row than those in `ordered` may be alive.
    """
    rotated = in_search_order(ordered, start)
    if np.count_nonzero(alive) == len(rotated) <= limit:
        return rotated, len(rotated)
    places = np.flatnonzero(alive[rotated])
    if len(places) > limit:
        return rotated[places[:limit]], int(places[limit])
    return rotated[places], len(rotated)


def first_fitting(
    ordered: Rows, fits: Callable[[int], bool], *, start: int, limit: int
) -> tuple[Rows, int, StowplanError | None]:
    """`first_feasible`, one row after the other, up to a row on which a plugin fails.

    Also returns the failure; None if the search ended otherwise.
    """
    found: list[int] = []
    failure: StowplanError | None = None
    passed = 0
    for row in in_search_order(ordered, start).tolist():
        try:
            is_fit = fits(row)
        except StowplanError as problem:
            failure = problem
            break
        if is_fit and len(found) == limit:
            break
        if is_fit:
            found.append(row)
        passed += 1
    return np.array(found, np.intp), passed, failure


def in_search_order(ordered: Rows, start: int) -> Rows:
    """The rows in the order of a search that begins at `start` and wraps around."""
    begin = start % max(len(ordered), 1)
    return np.concatenate([ordered[begin:], ordered[:begin]]) if begin else ordered


def chosen_place(totals: Int64Array, *, seed: int | None, turn: int) -> int:
    """Index of the winner among feasible nodes in search order.

    Without a seed a tie is decided as upstream decides it. With one, each of the tied has the same
    chance, and equal seed, turn and totals give the same winner.
    """
    if seed is None:
        return best_place(totals)
    tied = np.flatnonzero(totals == totals.max())
    if len(tied) == 1:
        return int(tied[0])
    return int(tied[Random(f"{seed}/{turn}").randrange(len(tied))])


def drawn_place(totals: Int64Array, drawn: BoolArray, *, seed: int, turn: int) -> int:
    """The winner where extenders have scored.

    Upstream gives each node that one has scored a random number, and of several with the highest
    score the one with the largest wins; those without a number come last.
    """
    tied = np.flatnonzero(totals == totals.max())
    lots = tied[drawn[tied]]
    if len(lots):
        return int(lots[Random(f"{seed}/{turn}").randrange(len(lots))])
    return int(tied[np.argmin(heap_ranks(len(totals))[tied])])


def best_place(totals: Int64Array) -> int:
    """Index of the winner among feasible nodes in search order.

    Upstream keeps nodes in a binary heap that knows only their scores: of several with the highest
    score, the one that comes first in the heap's pre-order wins.
    """
    return int(np.argmax((totals << RANK_BITS) - heap_ranks(len(totals))))


_ranks: Int64Array = np.zeros(0, np.int64)


def heap_ranks(size: int) -> Int64Array:
    """Pre-order rank of the first `size` places of a binary heap; grown by doubling.

    A place's path from the root is the binary form of its 1-based number without the leading 1;
    pre-order is the order of those strings. Only the order among ranks matters, so the table for
    a larger heap serves a smaller one.
    """
    global _ranks  # noqa: PLW0603 - a memo of a pure function
    if size > len(_ranks):
        length = 1 << max(size - 1, 1).bit_length()
        paths = sorted(range(length), key=lambda place: bin(place + 1)[3:])
        ranks = np.empty(length, np.int64)
        ranks[paths] = np.arange(length)
        _ranks = ranks
    return _ranks[:size]
