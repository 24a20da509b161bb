"""A decision as the answer that `stowplan decide` prints: docs/decide.md has the format."""

from __future__ import annotations

from collections import Counter
from typing import Any, TypeAlias

import numpy as np

from stowplan.framework.diagnosis import Diagnosis
from stowplan.framework.score_sheet import ScoreSheet
from stowplan.framework.status import Code, Status
from stowplan.judge.refusal import QuestionRefused
from stowplan.scheduler.decision import Decision

Json: TypeAlias = dict[str, Any]

EXCLUDED = "ExcludedByPreFilter"
#: What a summary lists at most.
_MOST_BEST = 10
_MOST_VERDICTS = 50
_SUCCESS: Json = {"code": Code.SUCCESS.label}


def verdicts(decision: Decision) -> Json:
    """An answer without its id. Must be called before the table changes."""
    if decision.diagnosis is None:
        raise QuestionRefused(decision.message)
    table = decision.cycle.table
    if decision.diagnosis.candidates is None:
        if not len(table):
            return {"nodes": {}}
        return {"prefilter": _rejection(decision.diagnosis.absent), "nodes": {}}
    said: Json = {"nodes": _nodes(decision.diagnosis)}
    if decision.scores is not None:
        said |= scores(decision.scores)
    return said


def summary(decision: Decision) -> Json:
    """The answer in a size that does not grow with the cluster: counts instead of nodes."""
    diagnosis = decision.diagnosis
    if diagnosis is None:
        raise QuestionRefused(decision.message)
    said: Json = {"total": diagnosis.total_nodes, "feasible": decision.feasible_nodes}
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


def _nodes(diagnosis: Diagnosis) -> Json:
    table = diagnosis.cycle.table
    assert diagnosis.candidates is not None
    names = table.names
    nodes: Json = {names[row]: _SUCCESS for row in table.order.tolist()}
    for row in np.flatnonzero(table.valid & ~diagnosis.candidates).tolist():
        nodes[names[row]] = {"code": EXCLUDED}
    for status, rows in diagnosis.groups():
        said = _verdict(status)
        for row in rows.tolist():
            nodes[names[row]] = said
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
    names = [sheet.table.names[row] for row in sheet.rows.tolist()]
    by_node: dict[str, dict[str, int]] = {name: {} for name in names}
    for plugin, weighted in sheet.by_plugin:
        for name, score in zip(names, weighted.tolist(), strict=True):
            by_node[name][plugin] = score
    totals = dict(zip(names, sheet.totals.tolist(), strict=True))
    highest = max(totals.values())
    best = sorted(name for name, total in totals.items() if total == highest)
    return {"scores": by_node, "totals": totals, "best": best}
