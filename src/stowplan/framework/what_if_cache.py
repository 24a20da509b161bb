"""What-if answers by row, cached for the next pod that the filters cannot tell apart.

A hundred replicas that find no room ask the same of the same rows: would the pod fit beside the
pods nominated there, and which victims would it take? `WhatIf` keeps the answers in the profile's
cache.
Invariant: an answer is valid while the row's node, its pods, their start times and the pods
nominated to it are the same. A filter that reads anything else takes no part
(`FilterStep.follows_rows`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from stowplan.cluster.derived import Derived, DerivedRows
from stowplan.cluster.table import NodeTable
from stowplan.framework.nominees import NOT_SHARED
from stowplan.framework.status import Status

#: Row -> the generation of its nominations (`Nominees.generation`).
Nominations: TypeAlias = Mapping[int, int]

#: Statuses, and how many rows each speaks for.
Counted: TypeAlias = list[tuple[Status, int]]

#: Size of one answer, about; most of it is the tuple of victims.
BYTES_A_ROW: Final = 400


class WhatIfCache(DerivedRows):
    """Answers by row, to pods of one kind and about one thing."""

    __slots__ = ("_answers", "_refusals", "_starts", "_words")

    def __init__(self, table: NodeTable, *, reads_details: bool) -> None:
        super().__init__(table, reads_details=reads_details)
        self._starts: Derived[int] = Derived(None, (table.start_journal,))
        self._answers: dict[int, tuple[int, Any]] = {}
        self._words: dict[Status, Status] = {}
        self._refusals: tuple[list[int], Counted] | None = None

    def follow(self, table: NodeTable) -> bool:
        """Drop the answers of changed rows; False if none is valid any more."""
        began = self._starts.changes(None, (table.start_journal,))
        rows = self.changed_rows(table)
        if rows is None or began is None:
            return False
        for row in (*rows, *began):
            self._answers.pop(row, None)
            self._refusals = None
        self._starts.confirm(None)
        self.confirm_rows(table)
        return True

    def known(self, nominations: Nominations) -> dict[int, Any]:
        """Cached answers of those rows that have one."""
        answers = self._answers
        known = {}
        for row, generation in nominations.items():
            answer = answers.get(row)
            if answer is not None and answer[0] == generation:
                known[row] = answer[1]
        return known

    def refusals(self, rows: list[int]) -> Counted | None:
        """What exactly these rows said, if all of them refused without nominations."""
        known = self._refusals
        return known[1] if known is not None and known[0] == rows else None

    def learn_refusals(self, rows: list[int], said: Counted) -> None:
        """Cache the answers of rows that all refuse, for a pod that asks the same rows again."""
        self._refusals = rows, said

    def learn(self, nominations: Nominations, said: Mapping[int, Any]) -> None:
        """Cache answers. Equal statuses become one object, by which a diagnosis groups rows."""
        for row, answer in said.items():
            if isinstance(answer, Status):
                answer = self._words.setdefault(answer, answer)
            if nominations[row] != NOT_SHARED:
                self._answers[row] = nominations[row], answer
