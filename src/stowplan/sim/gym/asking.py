"""An engine that leaves the choice among feasible nodes to its caller.

Everything before and after is the live scheduler's: the queue, PreFilter and Filter, what happens
to a pod that fits nowhere, assume, Reserve and Permit. In between the attempt stands still, as it
does while an extender is asked, until `answer` is called.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

import numpy as np

from stowplan.cluster.journal import Rows
from stowplan.cluster.pod_info import PodInfo
from stowplan.framework.profile import Profile
from stowplan.framework.status import error
from stowplan.scheduler.decision import Decision
from stowplan.scheduler.engine import Engine
from stowplan.scheduler.extender_requests import (
    Answer,
    Failed,
    FilterAnswer,
    FilterRequest,
    Request,
)
from stowplan.scheduler.outcome import Deferral, Failure, Placement

#: What becomes of a pod whose node was not among the feasible ones: an error, so that it is tried
#: again when its backoff is over, without waiting for an event.
_INFEASIBLE = "the agent chose a node that the filters refuse"


@dataclass(frozen=True, slots=True)
class Question:
    """A pod to place, and its feasible rows of the table."""

    info: PodInfo
    feasible: Rows
    #: What the profile's scores would choose.
    scheduler_choice: int


class _Agent:
    """The caller's choice in the form of the cycle: an extender that filters."""

    name = "agent"
    filters = True
    prioritizes = preempts = is_ignorable = False

    def is_interested(self, pod: object) -> bool:
        return True


class AskingEngine(Engine):
    """An engine driven by `ask`, then `answer` if there is a question, and so on."""

    _question: Question
    _attempt: Generator[Request, Answer, Placement | Failure | Deferral | None]

    def ask(self) -> Question | Failure | None:
        """Try the next pod: returns a question, a failure, or None if no pod is ready."""
        self._attempt = self.attempt_steps()
        try:
            next(self._attempt)
        except StopIteration as finished:
            # Not a Placement: that would need the caller's choice.
            failure: Failure | None = finished.value
            return failure
        return self._question

    def answer(self, row: int | None) -> Placement | Failure:
        """Place the pod on a feasible row, or reject it (None), and return the outcome."""
        names = self.cache.table.names
        answer = Failed(_INFEASIBLE) if row is None else FilterAnswer([names[row]])
        try:
            self._attempt.send(answer)
        except StopIteration as finished:
            outcome: Placement | Failure = finished.value
            return outcome
        raise AssertionError("one question a pod")

    def _decide(self, info: PodInfo, profile: Profile) -> Generator[Request, Answer, Decision]:
        decision = yield from super()._decide(info, profile)
        if decision.node is None:
            return decision
        choice = self.cache.table.row_of[decision.node]
        sheet = decision.scores
        feasible = np.array([choice], np.intp) if sheet is None else sheet.rows
        self._question = Question(info, feasible, choice)
        answer = yield FilterRequest(_Agent(), info.pod, ())
        if isinstance(answer, FilterAnswer):
            (decision.node,) = answer.nodes
        else:
            decision.node, decision.sheet = None, None
            decision.status, decision.message = error(_INFEASIBLE), _INFEASIBLE
        return decision
