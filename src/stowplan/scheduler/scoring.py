"""PreScore and Score: the weighted scores of the rows that passed the filters.

Part of the cycle, and as pure: the same table, pod and profile give the same sheet. `score` is
the long way; `quick_choice` takes from shapes (`framework.shapes`) what they hold, and says the
same.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import TypeAlias

import numpy as np

from stowplan.cluster.journal import Rows
from stowplan.cluster.table import Int64Array
from stowplan.errors import PluginError, StowplanError
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import ScoreStep, as_status, describe
from stowplan.framework.profile import Profile
from stowplan.framework.shapes import Accepted, Scored, Shapes
from stowplan.scheduler.decision import ScoreSheet
from stowplan.scheduler.ranking import Ranking, is_found_again, normalized
from stowplan.scheduler.selection import chosen_place

#: Plugins and their weighted scores of the feasible rows.
Weighted: TypeAlias = "list[tuple[ScoreStep, Int64Array]]"


def pre_score(profile: Profile, cycle: Cycle, rows: Rows) -> None:
    """Let plugins look at the rows to be scored, and say that they have nothing to score."""
    watch = cycle.watch
    for plugin, method in profile.pre_scores:
        try:
            answer = (
                method(cycle, rows) if watch is None else watch.run(plugin, method, cycle, rows)
            )
        except StowplanError:
            raise
        except Exception as problem:
            raise PluginError(plugin, "PreScore", describe(problem)) from problem
        if answer is None:
            continue
        status = as_status(answer, plugin, "PreScore")
        if status.is_skip:
            cycle.skip_score.add(plugin)
        elif not status.is_success:
            raise PluginError(plugin, "PreScore", status.message)


def score(profile: Profile, cycle: Cycle, rows: Rows) -> ScoreSheet:
    """Every plugin's weighted score of every row, and the sums."""
    sheet = ScoreSheet(cycle.table, rows, np.zeros(len(rows), np.int64))
    for step, weighted in _weighted(_running(profile, cycle), profile, cycle, rows):
        sheet.by_plugin.append((step.name, weighted))
        sheet.totals += weighted
    return sheet


def quick_choice(
    profile: Profile, cycle: Cycle, rows: Rows, accepted: Accepted, turn: int
) -> tuple[int, Callable[[], ScoreSheet]]:
    """The winner's place, and the sheet of scores, which is good until the next decision.

    Raises StowplanError where only the long way tells what is wrong.
    """
    steps = _running(profile, cycle)
    scored, others = profile.shapes.scored(steps, cycle, accepted)
    stamp, seed = profile.shapes.turn, profile.tie_break_seed
    levels = _weighted(others, profile, cycle, rows)
    totals: Callable[[], Int64Array]
    if scored.is_kept and is_found_again(rows, accepted):
        ranking: Ranking | None = scored.memo
        if ranking is None or ranking.rows is not rows or not ranking.follow(cycle.table, scored):
            ranking = scored.memo = Ranking(rows, scored, cycle)
        more = _sum_of(levels)
        totals = partial(ranking.totals, more)
        if seed is None:
            place = ranking.best_place(more)
        else:
            place = chosen_place(totals(), seed=seed, turn=turn)
        levels = ranking.levels + levels
    else:
        levels += normalized(scored, rows, cycle)
        sums = scored.sums.take(rows)
        for _, level in levels:
            sums += level
        place = chosen_place(sums, seed=seed, turn=turn)
        totals = lambda: sums  # noqa: E731
    # Held by the profile alone, so that decisions that wait to be bound hold no arrays.
    profile.shapes.last = partial(_sheet, cycle, rows, steps, scored, levels, totals)
    return place, partial(_read, profile.shapes, stamp)


def _sum_of(levels: Weighted) -> Int64Array | None:
    """None where there is nothing to add up."""
    if len(levels) < 2:
        return levels[0][1] if levels else None
    return reduce(operator.add, (level for _, level in levels))


def _read(shapes: Shapes, stamp: int) -> ScoreSheet:
    if shapes.turn != stamp:
        raise LookupError("the scores of a decision are good until the next one")
    sheet: ScoreSheet = shapes.last()
    return sheet


def _sheet(
    cycle: Cycle,
    rows: Rows,
    steps: Sequence[ScoreStep],
    scored: Scored,
    levels: Weighted,
    totals: Callable[[], Int64Array],
) -> ScoreSheet:
    """Put together what was added up, in the plugins' order."""
    found = dict(levels)
    for step, part in scored.parts:
        found[step] = np.zeros(len(rows), np.int64)
        if part is not None:
            found[step] += part.take(rows) * step.weight
    return ScoreSheet(cycle.table, rows, totals(), [(step.name, found[step]) for step in steps])


def _running(profile: Profile, cycle: Cycle) -> list[ScoreStep]:
    return [step for step in profile.scores if step.name not in cycle.skip_score]


def _weighted(steps: Sequence[ScoreStep], profile: Profile, cycle: Cycle, rows: Rows) -> Weighted:
    # All score before any normalises: of several that break, upstream names one that scores.
    raw = [(step, _raw_scores(step, profile, cycle, rows)) for step in steps]
    scores = [(step, step.normalize(cycle, scores)) for step, scores in raw]
    return [(step, step.checked(final) * step.weight) for step, final in scores]


def _raw_scores(step: ScoreStep, profile: Profile, cycle: Cycle, rows: Rows) -> Int64Array:
    if step.is_cached:
        return profile.columns.scores(step, cycle)[rows]
    table = cycle.table
    raw = np.zeros(table.capacity, np.int64)
    # All rows in the order of slots are quicker than the same in the order of the search.
    step.fill(cycle, table.used_slots if len(rows) == len(table.names) else rows, raw)
    return raw.take(rows)
