"""Weighted scores of the feasible nodes: what Score computed, for explanations and extenders.

The plain scoring pass of `best` fills a `ScoreSheet`. The cached pass needs only the winner, so it
leaves a function that builds the sheet in the profile's `LatestScores`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

import numpy as np

from stowplan.cluster.journal import Rows
from stowplan.cluster.table import BoolArray, Int64Array, NodeTable


@dataclass(frozen=True, slots=True)
class NodeScore:
    """A node's weighted score, in all and by plugin."""

    node: str
    total: int
    by_plugin: dict[str, int]


@dataclass(slots=True)
class ScoreSheet:
    """Weighted scores of the feasible rows, one array per plugin."""

    table: NodeTable
    rows: Rows
    totals: Int64Array
    by_plugin: list[tuple[str, Int64Array]] = field(default_factory=list)
    #: Rows among which a tie is drawn, because an extender scored them; None: no extender did.
    drawn: BoolArray | None = None

    def top(self, count: int) -> list[NodeScore]:
        """The best nodes, highest total first."""
        best = np.argsort(-self.totals, kind="stable")[:count]
        return [self._score(int(place)) for place in best]

    def of(self, row: int) -> NodeScore:
        """The scores of a feasible row."""
        return self._score(int(np.flatnonzero(self.rows == row)[0]))

    def _score(self, place: int) -> NodeScore:
        return NodeScore(
            self.table.names[self.rows[place]],
            int(self.totals[place]),
            {name: int(scores[place]) for name, scores in self.by_plugin},
        )


#: Builds a sheet; raises LookupError after the next decision.
BuildSheet: TypeAlias = Callable[[], ScoreSheet]


class LatestScores:
    """The score sheet of a profile's latest decision, built when it is read.

    Only this object refers to the arrays, so that decisions which wait to be bound hold none.
    """

    __slots__ = ("_number", "build")

    def __init__(self) -> None:
        self._number = 0
        #: None while a decision overwrites the arrays that the sheet would be built from.
        self.build: BuildSheet | None = None

    def replace(self, build: BuildSheet) -> BuildSheet:
        """Keep a function that builds the sheet; returns one that is valid until the next."""
        self._number += 1
        self.build = build
        return partial(self._read, self._number)

    def _read(self, number: int) -> ScoreSheet:
        if self.build is None or self._number != number:
            raise LookupError("the scores of a decision are good until the next one")
        return self.build()
