"""Cached columns: equal signatures mean equal columns, and a cached column is never stale.

`sign` must cover everything a plugin reads of the pod, and `reads` (with `surroundings`) everything
it reads of the cluster. Otherwise pods are placed by another pod's column, or by a stale one.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from stowplan.api.objects import Pod
from stowplan.errors import StowplanError
from stowplan.framework.columns import ColumnCache
from stowplan.framework.forms import FilterStep, ScoreStep
from stowplan.framework.plugin import Reads
from stowplan.testing.plugin_checks.asking import Asker, PluginAnswers, in_words
from stowplan.testing.plugin_checks.cases import apply, variants
from stowplan.testing.plugin_checks.subject import BREAKS, CheckFailed, NotApplicable, Subject

_HOUR_S = 3600.0


def _check_applies(subject: Subject) -> None:
    plugin = subject.plugin
    if not (hasattr(plugin, "filter_columns") or hasattr(plugin, "score_columns")):
        raise NotApplicable("it has no columns")
    if plugin.reads is Reads.ANYTHING and plugin.score_reads in (None, Reads.ANYTHING):
        raise NotApplicable("its columns are not kept: it declares no `reads`")


def check_signature(subject: Subject) -> None:
    """Pods with equal signatures get equal columns."""
    _check_applies(subject)
    for case in subject.cases:
        cluster, plugin = subject.on(case)
        asker = Asker(plugin, cluster)
        pods = case.askers + case.standing
        for index, pod in enumerate(case.askers):
            mine = _signed(subject, asker, pod)
            if mine is None:
                continue
            for what, twin in variants(pod, pods[(index + 1) % len(pods)]):
                theirs = _signed(subject, asker, twin)
                if theirs is not None and theirs[0] == mine[0]:
                    _compare(subject, pod, what, mine[1], theirs[1])


def _signed(subject: Subject, asker: Asker, pod: Pod) -> tuple[Hashable, PluginAnswers] | None:
    try:
        cycle = asker.start(pod)
        asker.pre_filter(cycle, PluginAnswers())
        steps: list[FilterStep | ScoreStep] = [*asker.filters, *asker.scores]
        signature = next(step.sign(cycle) for step in steps if step.is_cached)
    except StowplanError as problem:
        if "unhashable" in str(problem):
            raise CheckFailed(
                f"{subject.name}.sign answers what cannot be a key: {problem}.",
                "answer texts, numbers and tuples of them; no lists, dicts or sets.",
            ) from problem
        return None
    if signature is None:
        return None
    answers = asker.ask(pod)
    return None if answers.problem else (signature, answers)


def _compare(
    subject: Subject, pod: Pod, what: str, mine: PluginAnswers, theirs: PluginAnswers
) -> None:
    # Skipping is decided per pod, so a column that was not requested need not be the same.
    if mine.pre_filter != theirs.pre_filter or mine.pre_score != theirs.pre_score:
        return
    told = PluginAnswers(
        filter=mine.filter, score=mine.score, normalized=mine.normalized
    ).difference(
        PluginAnswers(filter=theirs.filter, score=theirs.score, normalized=theirs.normalized),
        "for it",
        "for the other",
    )
    if told:
        raise CheckFailed(
            f"{subject.name}.sign leaves something out: {in_words(pod)} and one that differs only"
            f" in {what} have the same signature, but not the same column ({told}).",
            f"let sign tell all that the plugin reads of the pod, {what} too, or answer None: then"
            " columns are not kept.",
        )


def check_kept(subject: Subject) -> None:
    """Check that a column refreshed row by row equals a rebuilt column."""
    _check_applies(subject)
    for case in subject.cases:
        cluster, plugin = subject.on(case)
        asker = Asker(plugin, cluster)
        # One for each pod: that pods share a column wrongly is check_signature's affair.
        caches = [(pod, ColumnCache()) for pod in case.askers[:2]]
        updates = [("add", pod) for pod in case.updates]
        for change in [None, None, *case.changes, *updates]:
            if change is not None:
                apply(change, cluster.cache)
                cluster.clock.advance(_HOUR_S)
            for pod, columns in caches:
                try:
                    _check_kept(subject, asker, columns, pod)
                except BREAKS:
                    continue  # check_answers tells


def _check_kept(subject: Subject, asker: Asker, columns: ColumnCache, pod: Pod) -> None:
    cycle = asker.start(pod)
    rows = asker.pre_filter(cycle, PluginAnswers())
    if rows is None:
        return
    live = asker.cluster.table.live_rows
    fresh: Any
    if subject.name not in cycle.skip_filter:
        for step in asker.filters:
            if step.is_cached:
                fresh = np.zeros(cycle.table.capacity, np.int32)
                step.fill(cycle, cycle.table.used_slots, fresh)
                kept: Any = columns.verdicts(step, cycle)
                _same(subject, asker, "filter_columns", step.reads, live, kept, fresh, pod)
    if asker.pre_score(cycle, rows, PluginAnswers()):
        for score in asker.scores:
            if score.is_cached:
                fresh = np.zeros(cycle.table.capacity, np.int64)
                score.fill(cycle, cycle.table.used_slots, fresh)
                kept = columns.scores(score, cycle)
                _same(subject, asker, "score_columns", score.reads, live, kept, fresh, pod)


def _same(
    subject: Subject,
    asker: Asker,
    method: str,
    reads: Reads,
    rows: Any,
    kept: Any,
    fresh: Any,
    pod: Pod,
) -> None:
    wrong = rows[kept[rows] != fresh[rows]]
    if not len(wrong):
        return
    node = asker.cluster.table.names[int(wrong[0])]
    raise CheckFailed(
        f"{subject.name}.{method}: the column kept for {in_words(pod)} is out of date at node"
        f" {node}: {int(kept[wrong[0]])}, but rebuilt it is {int(fresh[wrong[0]])}."
        f" It declares reads = Reads.{reads.name}.",
        "declare Reads.PODS if the column depends on pods that stand on the node (Reads.POD_SPECS"
        " leaves out their annotations and status), and return from surroundings(cycle) what else"
        " of the cluster it depends on; or leave `reads` out: then columns are not cached.",
    )
