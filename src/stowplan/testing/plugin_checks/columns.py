"""Columns: integers of the right width in every requested row, equal to the per-node results.

The arrays check what a plugin assigns to them, because numpy truncates fractions silently.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stowplan.api.objects import Pod
from stowplan.cluster.journal import Rows
from stowplan.cluster.pod_info import compile_pod
from stowplan.cluster.views import NodeView, Overlay
from stowplan.errors import StowplanError
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import FilterStep, ScoreStep, row_set
from stowplan.framework.status import SUCCESS, Status
from stowplan.testing.plugin_checks.asking import Asker, PluginAnswers, in_words, status_text
from stowplan.testing.plugin_checks.cases import Case
from stowplan.testing.plugin_checks.subject import BREAKS, CheckFailed, NotApplicable, Subject

#: What no plugin writes.
_UNWRITTEN = -7_777
_WHOLE = "calculate in int64: // instead of /."


class _Watched(np.ndarray[Any, Any]):
    """An array that notes when something else than integers is assigned to it."""

    odd: list[str]

    def __array_finalize__(self, source: Any) -> None:
        self.odd = getattr(source, "odd", [])

    def __setitem__(self, key: Any, value: Any) -> None:
        kind = np.asarray(value).dtype
        if kind.kind not in "iub":
            self.odd.append(str(kind))
        super().__setitem__(key, value)


def _watched(size: int, dtype: Any) -> _Watched:
    array = np.full(size, _UNWRITTEN, dtype).view(_Watched)
    array.odd = []
    return array


def check_dtypes(subject: Subject) -> None:
    """Verdict ids and scores are whole numbers, in every row, and in range."""
    plugin = subject.plugin
    if not any(hasattr(plugin, name) for name in ("filter_columns", "score_columns", "score")):
        raise NotApplicable("it has neither scores nor columns")
    for case in subject.cases:
        cluster, made = subject.on(case)
        asker = Asker(made, cluster)
        for pod in case.askers:
            cycle = asker.start(pod)
            try:
                rows = asker.pre_filter(cycle, PluginAnswers())
                if rows is None:
                    continue
                if subject.name not in cycle.skip_filter:
                    for step in asker.filters:
                        rows = _check_verdicts(subject, step, cycle, rows, pod)
                if len(rows) and asker.pre_score(cycle, rows, PluginAnswers()):
                    for score in asker.scores:
                        _check_scores(subject, score, cycle, rows, pod)
            except BREAKS:
                continue  # check_answers tells


def _check_verdicts(subject: Subject, step: FilterStep, cycle: Cycle, rows: Rows, pod: Pod) -> Rows:
    if not hasattr(subject.plugin, "filter_columns"):
        verdicts = np.zeros(cycle.table.capacity, np.int32)
        step.fill(cycle, row_set(cycle.table, rows), verdicts)
        fitting: Rows = rows[verdicts[rows] == 0]
        return fitting
    out = _watched(cycle.table.capacity, np.int32)
    step.fill(cycle, row_set(cycle.table, rows), out)
    what = f"{subject.name}.filter_columns, of {in_words(pod)},"
    _check_written(what, "verdict ids", out, rows, cycle)
    for verdict in np.unique(np.asarray(out)[rows]).tolist():
        if verdict == 0:
            continue
        try:
            status: Any = step.status(cycle, verdict)
        except StowplanError as problem:
            known = len(subject.plugin.verdicts)
            raise CheckFailed(
                f"{what} wrote the verdict {verdict}, which means nothing: {problem}.",
                f"write 0 for a node that fits, and n for verdicts[n - 1]; there are {known}.",
            ) from problem
        if verdict < 0 or not isinstance(status, Status) or not status.is_rejected:
            raise CheckFailed(
                f"{what} wrote the verdict {verdict}, which is not a rejection: {status!r}.",
                "write 0 for a node that fits, and n for verdicts[n - 1].",
            )
    passing: Rows = rows[np.asarray(out)[rows] == 0]
    return passing


def _check_written(what: str, kind: str, out: _Watched, rows: Rows, cycle: Cycle) -> None:
    if out.odd:
        raise CheckFailed(f"{what} wrote {out.odd[0]} where {kind} are whole numbers.", _WHOLE)
    left = rows[np.asarray(out)[rows] == _UNWRITTEN]
    if len(left):
        raise CheckFailed(
            f"{what} left {len(left)} of {len(rows)} rows unwritten, node"
            f" {cycle.table.names[int(left[0])]} among them.",
            "write all of `rows`: out[rows] = ...; what is in the array before is another pod's.",
        )


def _check_scores(subject: Subject, step: ScoreStep, cycle: Cycle, rows: Rows, pod: Pod) -> None:
    name = subject.name
    if hasattr(subject.plugin, "score_columns"):
        out = _watched(cycle.table.capacity, np.int64)
        step.fill(cycle, row_set(cycle.table, rows), out)
        _check_written(f"{name}.score_columns, of {in_words(pod)},", "scores", out, rows, cycle)
        raw: NDArray[np.int64] = np.array(np.asarray(out)[rows])
    else:
        raw = np.zeros(len(rows), np.int64)
        for place, row in enumerate(rows.tolist()):
            said = _said(step, cycle, row)
            if isinstance(said, bool) or not isinstance(said, int | np.integer):
                raise CheckFailed(
                    f"{name}.score answers {said!r} ({type(said).__name__}) for {in_words(pod)} on"
                    f" node {cycle.table.names[row]}; scores are whole numbers.",
                    "answer an int: // instead of /, or round(...).",
                )
            raw[place] = said
    if not step.normalizes:
        return
    scores = step.normalize(cycle, raw)
    if scores.dtype != np.int64:
        raise CheckFailed(
            f"{name}.normalize answers an array of {scores.dtype} for {in_words(pod)};"
            " scores are int64.",
            _WHOLE,
        )


def _said(step: ScoreStep, cycle: Cycle, row: int) -> Any:
    assert step._row is not None
    try:
        return step._row(cycle, NodeView(cycle.table, row))
    except Exception:
        return 0  # check_answers tells


def check_forms(subject: Subject) -> None:
    """Columns and node by node give the same answers, for nodes as they are and as they might be"""
    plugin = subject.plugin
    filters = hasattr(plugin, "filter") and hasattr(plugin, "filter_columns")
    scores = hasattr(plugin, "score") and hasattr(plugin, "score_columns")
    if not filters and not scores:
        raise NotApplicable("it has one form only")
    for case in subject.cases:
        cluster, made = subject.on(case)
        asker = Asker(made, cluster)
        for pod in case.askers:
            try:
                _compare_forms(subject, asker, case, pod, filters=filters, scores=scores)
            except BREAKS:
                continue  # check_answers tells


def _compare_forms(
    subject: Subject, asker: Asker, case: Case, pod: Pod, *, filters: bool, scores: bool
) -> None:
    cycle = asker.start(pod)
    rows = asker.pre_filter(cycle, PluginAnswers())
    if rows is None:
        return
    if filters and subject.name not in cycle.skip_filter:
        step = asker.filters[0]
        overlays: list[tuple[str, Overlay | None]] = [("as it is", None)]
        if subject.plugin.overlays:
            overlays.append(("without half of its pods", _half_gone(asker, case)))
        for state, overlay in overlays:
            _compare_filter(subject, step, cycle, rows, pod, state, overlay)
    if scores and asker.pre_score(cycle, rows, PluginAnswers()):
        score = asker.scores[0]
        out = np.zeros(cycle.table.capacity, np.int64)
        score.fill(cycle, row_set(cycle.table, rows), out)
        for row in rows.tolist():
            alone = score.score_of_row(cycle, row)
            if alone != out[row]:
                raise _disagree(subject, "score", cycle, row, pod, str(out[row]), str(alone), "")


def _half_gone(asker: Asker, case: Case) -> Overlay:
    table = asker.cluster.table
    gone = {
        row: list(table.pods[row].values())[::2]
        for row in table.live_rows.tolist()
        if table.pods[row]
    }
    row = int(table.live_rows[0])
    return Overlay(table, {row: [compile_pod(case.askers[-1])]}, gone)


def _compare_filter(
    subject: Subject,
    step: FilterStep,
    cycle: Cycle,
    rows: Rows,
    pod: Pod,
    state: str,
    overlay: Overlay | None,
) -> None:
    out = np.zeros(cycle.table.capacity, np.int32)
    # The scheduler names the rows of what-if questions one by one.
    step.fill(cycle, rows if overlay else row_set(cycle.table, rows), out, overlay)
    for row in rows.tolist():
        verdict = int(out[row])
        column = step.status(cycle, verdict) if verdict else SUCCESS
        alone = step.status_of_row(cycle, row, overlay)
        if column != alone:
            one, other = status_text(column) or "fits", status_text(alone) or "fits"
            raise _disagree(subject, "filter", cycle, row, pod, one, other, f", {state}")


def _disagree(
    subject: Subject,
    method: str,
    cycle: Cycle,
    row: int,
    pod: Pod,
    column: str,
    alone: str,
    state: str,
) -> CheckFailed:
    node = cycle.table.names[row]
    return CheckFailed(
        f"{subject.name}: {method}_columns says {column!r}, {method} says {alone!r}, of"
        f" {in_words(pod)} and node {node}{state}.",
        "make both forms say the same, reasons included; columns decide, the per-node form explains"
        " and answers what-if questions. Or have one form only.",
    )
