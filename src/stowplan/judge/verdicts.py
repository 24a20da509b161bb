"""A decision as the answer that `stowplan decide` prints: docs/decide.md has the format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from dataclasses import replace
from typing import Any, Final, TypeAlias

import numpy as np

from stowplan.cluster.journal import Rows
from stowplan.framework.diagnosis import Diagnosis
from stowplan.framework.score_sheet import ScoreSheet
from stowplan.framework.status import Code, Status
from stowplan.judge.device_details import device_details
from stowplan.judge.refusal import QuestionRefused
from stowplan.scheduler.decision import Decision

Json: TypeAlias = dict[str, Any]
#: Yields where a scheduler that shares the thread may go on; returns an answer.
Steps: TypeAlias = Generator[None, None, Json]

EXCLUDED = "ExcludedByPreFilter"
#: Nodes that one step tells of.
PIECE: Final = 500
#: What a summary lists at most.
_MOST_BEST = 10
_MOST_VERDICTS = 50
_SUCCESS: Json = {"code": Code.SUCCESS.label}


def verdicts(decision: Decision) -> Json:
    """An answer without its id. Must be called before the table changes."""
    return _result(verdict_steps(decision))


def _result(steps: Steps) -> Json:
    try:
        while True:
            next(steps)
    except StopIteration as finished:
        answer: Json = finished.value
        return answer


def verdict_steps(decision: Decision) -> Steps:
    """`verdicts` in steps of some hundred nodes; the table may change after the first one."""
    if decision.diagnosis is None:
        raise QuestionRefused(decision.message)
    table = decision.cycle.table
    if decision.diagnosis.candidates is None:
        if not len(table):
            return {"nodes": {}}
        return {"prefilter": _rejection(decision.diagnosis.absent), "nodes": {}}
    devices = device_details(decision)
    sheet, scored = decision.scores, None
    nodes = _node_steps(decision.diagnosis)
    next(nodes)
    if sheet is not None:
        sheet = replace(
            sheet,
            rows=sheet.rows.copy(),
            totals=sheet.totals.copy(),
            by_plugin=[(plugin, weighted.copy()) for plugin, weighted in sheet.by_plugin],
        )
        scored = _score_steps(sheet)
        next(scored)
    yield
    said: Json = {"nodes": (yield from nodes)}
    if scored is not None:
        said |= yield from scored
    return said | devices


def summary_steps(decision: Decision) -> Steps:
    """`summary`, which is one step."""
    yield from ()
    return summary(decision)


def summary(decision: Decision) -> Json:
    """The answer in a size that does not grow with the cluster: counts instead of nodes."""
    diagnosis = decision.diagnosis
    if diagnosis is None:
        raise QuestionRefused(decision.message)
    said: Json = {"total": diagnosis.total_nodes, "feasible": decision.feasible_nodes}
    said |= device_details(decision)
    sheet = decision.scores
    if sheet is not None:
        highest = sheet.totals.max()
        names = [sheet.table.names[row] for row in sheet.rows[sheet.totals == highest].tolist()]
        return said | {
            "best": sorted(names)[:_MOST_BEST],
            "bestCount": len(names),
            "score": int(highest),
            "rejected": _rejected(diagnosis),
        }
    is_empty = not diagnosis.total_nodes
    said["message"] = decision.message if is_empty else diagnosis.message()
    if diagnosis.candidates is None and not is_empty:
        said["prefilter"] = _rejection(diagnosis.absent)
    return said | {"rejected": _rejected(diagnosis)}


def _rejected(diagnosis: Diagnosis) -> list[Json]:
    """How many nodes each verdict has, the commonest first."""
    counts: Counter[tuple[str, str, tuple[str, ...]]] = Counter()
    for status, rows in diagnosis.groups():
        counts[status.code.label, status.plugin, tuple(status.reasons)] += len(rows)
    if diagnosis.candidates is not None:
        left_out = int(np.count_nonzero(diagnosis.cycle.table.valid & ~diagnosis.candidates))
        if left_out:
            counts[EXCLUDED, "", ()] += left_out
    shown = counts.most_common(_MOST_VERDICTS)
    return [
        {"nodes": count, "code": code, "plugin": plugin, "reasons": list(reasons)}
        for (code, plugin, reasons), count in shown
    ]


def _node_steps(diagnosis: Diagnosis) -> Steps:
    """Verdicts by node. The first step copies what changes with the table."""
    table = diagnosis.cycle.table
    assert diagnosis.candidates is not None
    names = list(table.names)
    groups: list[tuple[Json, Rows]] = [
        (_SUCCESS, table.order.copy()),
        ({"code": EXCLUDED}, np.flatnonzero(table.valid & ~diagnosis.candidates)),
        *((_verdict(status), rows) for status, rows in diagnosis.groups()),
    ]
    yield
    nodes: Json = {}
    done = 0
    for said, rows in groups:
        for start in range(0, len(rows), PIECE):
            piece = rows[start : start + PIECE].tolist()
            for row in piece:
                nodes[names[row]] = said
            done += len(piece)
            if done >= PIECE:
                done = 0
                yield
    return nodes


def _verdict(status: Status) -> Json:
    said: Json = {"code": status.code.label}
    if status.plugin:
        said["plugin"] = status.plugin
    if status.reasons:
        said["reasons"] = list(status.reasons)
    return said


def _rejection(status: Status) -> Json:
    return {"code": status.code.label, "plugin": status.plugin, "reasons": list(status.reasons)}


def scores(sheet: ScoreSheet) -> Json:
    """The scores of all feasible nodes by plugin, their totals, and the best nodes."""
    return _result(_score_steps(sheet))


def _score_steps(sheet: ScoreSheet) -> Steps:
    """`scores` of a sheet that does not change. The first step copies the names."""
    names = [sheet.table.names[row] for row in sheet.rows.tolist()]
    yield
    by_node: dict[str, dict[str, int]] = {}
    totals: dict[str, int] = {}
    plugins = [plugin for plugin, _ in sheet.by_plugin]
    for start in range(0, len(names), PIECE):
        piece = slice(start, start + PIECE)
        columns = [weighted[piece].tolist() for _, weighted in sheet.by_plugin]
        of_node = zip(*columns, strict=True) if columns else ((),) * len(names[piece])
        for name, parts in zip(names[piece], of_node, strict=True):
            by_node[name] = dict(zip(plugins, parts, strict=True))
        totals.update(zip(names[piece], sheet.totals[piece].tolist(), strict=True))
        yield
    best = sorted(names[place] for place in np.flatnonzero(sheet.totals == sheet.totals.max()))
    return {"scores": by_node, "totals": totals, "best": best}
