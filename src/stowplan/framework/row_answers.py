"""What rows said to a pod, for the next pod that the filters cannot tell from it.

A hundred replicas that find no room ask the same of the same rows, one after the other: would you
take me beside the pods nominated to you, whom would it cost? `WhatIf` keeps the answers by row in
the profile's cache. What must stay true: an answer holds only as long as the row's node, its
pods, when they began to run, and the list of pods nominated to it are the same; so a filter that
learns from elsewhere has no part in it (`FilterStep.follows_rows`).
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

#: Of an answer about a row, roughly: the victims' tuple is the most of it.
BYTES_A_ROW: Final = 400


class RowAnswers(DerivedRows):
    """Answers by row, to pods of one kind and about one thing."""

    __slots__ = ("_answers", "_starts", "_words")

    def __init__(self, table: NodeTable, *, reads_details: bool) -> None:
        super().__init__(table, reads_details=reads_details)
        self._starts: Derived[int] = Derived(None, (table.start_journal,))
        self._answers: dict[int, tuple[int, Any]] = {}
        self._words: dict[Status, Status] = {}

    def follow(self, table: NodeTable) -> bool:
        """Forget what changed rows said; False: nothing holds any more."""
        began = self._starts.changes(None, (table.start_journal,))
        rows = self.changed_rows(table)
        if rows is None or began is None:
            return False
        for row in (*rows, *began):
            self._answers.pop(row, None)
        return True

    def known(self, nominations: Nominations) -> dict[int, Any]:
        """What those of the rows say that have been asked before."""
        answers = self._answers
        known = {}
        for row, generation in nominations.items():
            answer = answers.get(row)
            if answer is not None and answer[0] == generation:
                known[row] = answer[1]
        return known

    def learn(self, nominations: Nominations, said: Mapping[int, Any]) -> None:
        """What is the same in words becomes the same object, by which a diagnosis groups rows."""
        for row, answer in said.items():
            if isinstance(answer, Status):
                answer = self._words.setdefault(answer, answer)
            if nominations[row] != NOT_SHARED:
                self._answers[row] = nominations[row], answer
