"""The work that decisions cost, counted, and the limit at which a decision is deferred.

What takes time in proportion to a pod's size (a counter for each term, a column for each key) is
built in pieces that are cached; the code that builds them calls `Work.spend` after each piece.
While a pod is decided, `spend` raises `DecisionDeferred` above the limit. The engine then puts the
pod back into the queue, other pods get their turn, and the next try finds the finished pieces.

Work is counted in array elements and not timed, so that simulations are deterministic and tests
can count. Outside a decision (informer events, `judge`, tests) there is no limit.

What must stay true: call `spend` only when everything is consistent and the piece is in its cache,
because the call may not return. A piece must cost far less than `DECISION_WORK`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from typing import Final

#: A microsecond of Python in array elements: a numpy call, or ten turns of a short loop. One
#: element of a gather, a comparison or a sum takes about a nanosecond.
STEP: Final = 1_000
#: What a decision may spend before it is deferred: about 50 ms.
DECISION_WORK: Final = 50_000_000


class DecisionDeferred(BaseException):
    """The decision has spent its share.

    Not an `Exception`, as with `asyncio.CancelledError`: code that reports or works around a
    broken plugin must let it pass.
    """


class Work:
    """A counter with a limit that holds during a decision."""

    __slots__ = ("_limit", "spent")

    def __init__(self) -> None:
        #: Elements so far; only grows.
        self.spent = 0
        self._limit: float = inf

    def spend(self, elements: int) -> None:
        """Count work that was done; raises DecisionDeferred above the limit."""
        self.spent += elements
        if self.spent > self._limit:
            self._limit = inf
            raise DecisionDeferred

    def limit(self, elements: float) -> None:
        """A decision begins: defer it when it spends more than this."""
        self._limit = self.spent + elements

    @contextmanager
    def at_most(self, elements: float) -> Iterator[None]:
        """Limit a part of a decision further. Once it is deferred, there is no limit any more."""
        before = self._limit
        self._limit = min(before, self.spent + elements)
        yield
        self._limit = before

    def unlimit(self) -> None:
        """The decision is over, or must not be interrupted any more."""
        self._limit = inf
