"""PreScore and Score: the weighted scores of the rows that passed the filters.

Part of the cycle, and as pure: the same table, pod and profile give the same sheet.
"""

from __future__ import annotations

import numpy as np

from stowplan.cluster.journal import Rows
from stowplan.cluster.table import Int64Array
from stowplan.errors import PluginError
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import ScoreStep, as_status, call
from stowplan.framework.profile import Profile
from stowplan.scheduler.decision import ScoreSheet


def pre_score(profile: Profile, cycle: Cycle, rows: Rows) -> None:
    """Let plugins look at the rows to be scored, and say that they have nothing to score."""
    for plugin in profile.at("preScore"):
        answer = call(plugin.pre_score, plugin.name, "PreScore", cycle, rows)
        status = as_status(answer, plugin.name, "PreScore")
        if status.is_skip:
            cycle.skip_score.add(plugin.name)
        elif not status.is_success:
            raise PluginError(plugin.name, "PreScore", status.message)


def score(profile: Profile, cycle: Cycle, rows: Rows) -> ScoreSheet:
    """Every plugin's weighted score of every row, and the sums."""
    # All score before any normalises: of several that break, upstream names one that scores.
    raw = [
        (step, _raw_scores(step, profile, cycle, rows))
        for step in profile.scores
        if step.name not in cycle.skip_score
    ]
    normalized = [(step, step.normalize(cycle, scores)) for step, scores in raw]
    sheet = ScoreSheet(cycle.table, rows, np.zeros(len(rows), np.int64))
    for step, scores in normalized:
        weighted = step.checked(scores) * step.weight
        sheet.by_plugin.append((step.name, weighted))
        sheet.totals += weighted
    return sheet


def _raw_scores(step: ScoreStep, profile: Profile, cycle: Cycle, rows: Rows) -> Int64Array:
    if step.is_cached:
        return profile.columns.scores(step, cycle)[rows]
    raw = np.zeros(cycle.table.capacity, np.int64)
    step.fill(cycle, rows, raw)
    return raw[rows]
