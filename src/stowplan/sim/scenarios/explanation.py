"""Why a decision was made: every feasible node's scores, and the reasons of the other nodes.

`stowplan simulate --with-scores` logs it with each attempt, in the words of `stowplan decide`.
Where the decision itself lacks something (the reasons of other nodes, the score of a single
feasible node), the pod is judged once more on the same table. What must stay true: a run with
explanations decides as one without, unless a plugin keeps state of its own and is asked twice.
"""

from __future__ import annotations

from typing import Any

from stowplan.framework.status import Code
from stowplan.judge.verdicts import scores, verdicts
from stowplan.scheduler.cycle import judge
from stowplan.scheduler.decision import Decision
from stowplan.scheduler.engine import Engine

#: Nodes whose scores a page shows.
_BEST = 3


class Explainer:
    """The `on_decision` of an engine; `latest` explains the latest decision."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.latest: dict[str, Any] = {}

    def __call__(self, decision: Decision) -> None:
        """Explain a decision, before the table changes."""
        sheet = decision.scores
        if sheet is not None and decision.feasible_nodes == len(decision.cycle.table):
            self.latest = {"refused": {}, **scores(sheet)}
            return
        judged = decision
        if decision.node is not None:
            # A sheet that is built later would be that of the judgement.
            decision.sheet = sheet
            judged = self._judged(decision)
        if judged.diagnosis is None:  # a plugin failed, and the message says so
            self.latest = {}
            return
        if sheet is not None:  # with scores of extenders, which are not asked again
            judged.sheet = sheet
        found = verdicts(judged)
        refused = {
            node: verdict
            for node, verdict in found.pop("nodes").items()
            if verdict["code"] != Code.SUCCESS.label
        }
        self.latest = {"refused": refused, **found}

    def _judged(self, decision: Decision) -> Decision:
        cycle = decision.cycle
        assert cycle.what_if is not None
        rng = self._engine.handles[decision.profile].rng
        state = rng.getstate()
        try:
            return judge(
                cycle.table, cycle.info, cycle.what_if.profile, nominated=cycle.what_if.nominated
            )
        finally:
            rng.setstate(state)


def scores_in_words(decision: Decision) -> str:
    """The best nodes with their scores; called before the next decision."""
    sheet = decision.scores
    if sheet is None:
        return f"the only feasible node of {decision.evaluated_nodes:,}"
    first, *others = sheet.top(_BEST)
    parts = " + ".join(f"{name} {score}" for name, score in first.by_plugin.items() if score)
    text = f"score {first.node} {first.total} = {parts or 0}"
    return "; ".join([text, *(f"{each.node} {each.total}" for each in others)])
