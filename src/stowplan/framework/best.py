"""PreScore and Score: weigh the feasible nodes and choose the best.

The cycle calls `pre_score` and `find_best` as methods of `Profile`. `find_best` takes the scores
from the caches of `shapes`, where the feasible rows came from them; otherwise, or after a plugin
failed, it runs every plugin (`score`). Both passes choose the same node.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING

import numpy as np

from stowplan.cluster.journal import Rows
from stowplan.cluster.table import Int64Array
from stowplan.errors import PluginError
from stowplan.framework.cycle import Cycle
from stowplan.framework.feasible import Feasible
from stowplan.framework.forms import ScoreStep, as_status, failure_of, row_set
from stowplan.framework.ranking import Weighted, normalized, ranking_of
from stowplan.framework.score_sheet import BuildSheet, ScoreSheet
from stowplan.framework.selection import chosen_place
from stowplan.framework.shapes import FeasibleRows, NoCachedAnswer, WeightedScores
from stowplan.framework.status import SKIP
from stowplan.plugin_failures import describe

if TYPE_CHECKING:
    from stowplan.framework.profile import Profile


@dataclass(slots=True)
class Best:
    """The chosen one of several feasible nodes."""

    #: Its place among the feasible rows.
    place: int
    sheet: ScoreSheet | BuildSheet

    @property
    def scores(self) -> ScoreSheet:
        return self.sheet() if callable(self.sheet) else self.sheet


def pre_score(profile: Profile, cycle: Cycle, rows: Rows) -> None:
    """Run PreScore: plugins prepare for the rows to be scored, or skip Score."""
    watch = cycle.watch
    for plugin, method in profile.pre_scores:
        try:
            if watch is None:
                answer = method(cycle, rows)
            else:
                answer = watch.run(plugin, "PreScore", method, cycle, rows)
        except PluginError:
            raise
        except Exception as problem:
            raise PluginError(plugin, "PreScore", describe(problem)) from problem
        if answer is None:
            continue
        if answer is SKIP:
            # The common case.
            cycle.skip_score.add(plugin)
            continue
        status = as_status(answer, plugin, "PreScore", method)
        if status.is_skip:
            cycle.skip_score.add(plugin)
        elif not status.is_success:
            raise failure_of(plugin, "PreScore", status)


def find_best(profile: Profile, cycle: Cycle, feasible: Feasible, *, turn: int = 0) -> Best:
    """Score the feasible rows and choose one. `turn` numbers decisions that draw ties at random."""
    if feasible.shape is not None:
        try:
            return _from_caches(profile, cycle, feasible, feasible.shape, turn)
        except (NoCachedAnswer, PluginError):
            # Which plugin is named, and whether one fails on a feasible row at all, shows only when
            # all run in order.
            pass
    sheet = score(profile, cycle, feasible.rows)
    return Best(chosen_place(sheet.totals, seed=profile.tie_break_seed, turn=turn), sheet)


def score(profile: Profile, cycle: Cycle, rows: Rows) -> ScoreSheet:
    """Every plugin's weighted score of every row, and the sums."""
    sheet = ScoreSheet(cycle.table, rows, np.zeros(len(rows), np.int64))
    for step, weighted in _weighted(_running(profile, cycle), profile, cycle, rows):
        sheet.by_plugin.append((step.name, weighted))
        sheet.totals += weighted
    return sheet


def _from_caches(
    profile: Profile, cycle: Cycle, feasible: Feasible, shape: FeasibleRows, turn: int
) -> Best:
    rows, seed = feasible.rows, profile.tie_break_seed
    profile.latest_scores.build = None
    steps = _running(profile, cycle)
    scores, others = profile.shapes.weighted_scores(steps, cycle, shape)
    weighted = _weighted(others, profile, cycle, rows)
    totals: Callable[[], Int64Array]
    if scores.is_cached and feasible.search_key is not None:
        ranking = ranking_of(scores, feasible.search_key, rows, cycle)
        more = _sum_of(weighted)
        totals = partial(ranking.totals, more)
        if seed is None:
            place = ranking.best_place(more)
        else:
            place = chosen_place(totals(), seed=seed, turn=turn)
        weighted = ranking.normalized + weighted
    else:
        weighted += normalized(scores, rows, cycle)
        sums = scores.sums.take(rows)
        for _, each in weighted:
            sums += each
        place = chosen_place(sums, seed=seed, turn=turn)
        totals = lambda: sums  # noqa: E731 - the other branch computes them on demand
    build = partial(_sheet, cycle, rows, steps, scores, weighted, totals)
    return Best(place, profile.latest_scores.replace(build))


def _sum_of(weighted: Weighted) -> Int64Array | None:
    """The sum of some arrays; None if there are none."""
    if len(weighted) < 2:
        return weighted[0][1] if weighted else None
    return reduce(operator.add, (each for _, each in weighted))


def _sheet(
    cycle: Cycle,
    rows: Rows,
    steps: Sequence[ScoreStep],
    scores: WeightedScores,
    weighted: Weighted,
    totals: Callable[[], Int64Array],
) -> ScoreSheet:
    """A sheet of what the caches summed, in the plugins' order."""
    found = dict(weighted)
    for step, part in scores.parts:
        found[step] = np.zeros(len(rows), np.int64)
        if part is not None:
            found[step] += part.take(rows) * step.weight
    return ScoreSheet(cycle.table, rows, totals(), [(step.name, found[step]) for step in steps])


def _running(profile: Profile, cycle: Cycle) -> list[ScoreStep]:
    return [step for step in profile.scores if step.name not in cycle.skip_score]


def _weighted(steps: Sequence[ScoreStep], profile: Profile, cycle: Cycle, rows: Rows) -> Weighted:
    # All score before any normalises: if several fail, kube-scheduler names one that scores.
    raw = [(step, _raw_scores(step, profile, cycle, rows)) for step in steps]
    scores = [(step, step.normalize(cycle, scores)) for step, scores in raw]
    return [(step, step.checked(final) * step.weight) for step, final in scores]


def _raw_scores(step: ScoreStep, profile: Profile, cycle: Cycle, rows: Rows) -> Int64Array:
    if step.is_cached:
        return profile.columns.scores(step, cycle)[rows]
    table = cycle.table
    raw = np.zeros(table.capacity, np.int64)
    step.fill(cycle, row_set(table, rows), raw)
    return raw.take(rows)
