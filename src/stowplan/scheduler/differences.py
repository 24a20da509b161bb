"""Compares two decisions about the same pod on tables with the same rows.

Used by the self-check. Compared is everything that users can see: status, node, message, how many
nodes were looked at, each node's verdict, each plugin's scores, and the preemption plan. What may
differ (versions, interned ids, the order of columns) is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from stowplan.framework.score_sheet import ScoreSheet
from stowplan.framework.status import Status
from stowplan.scheduler.decision import Decision


@dataclass(frozen=True, slots=True)
class Difference:
    """Something that two decisions do not agree on."""

    what: str
    decided: str
    rebuilt: str

    def __str__(self) -> str:
        decided, rebuilt = self.decided or "nothing", self.rebuilt or "nothing"
        return f"{self.what}: {decided}, should be {rebuilt}"


def differences(decided: Decision, rebuilt: Decision) -> list[Difference]:
    """Where a decision differs from the right one, as a whole."""
    values, expected = _outcome(decided), _outcome(rebuilt)
    return [
        Difference(what, value, expected[what])
        for what, value in values.items()
        if value != expected[what]
    ]


def node_differences(decided: Decision, rebuilt: Decision) -> list[Difference]:
    """Where verdicts and scores of single nodes differ, if both decisions have them."""
    return list(_of_nodes(decided, rebuilt))


def _outcome(decision: Decision) -> dict[str, str]:
    eviction = decision.eviction
    victims = [f"{pod.key} ({pod.uid})" for pod in eviction.victims] if eviction is not None else []
    return {
        "node": decision.node or "",
        "status": _said(decision.status),
        "message": decision.message,
        "feasible nodes": str(decision.feasible_nodes),
        "evaluated nodes": str(decision.evaluated_nodes),
        "next node to look at": str(decision.cursor),
        "plugins that rejected": ", ".join(sorted(decision.unschedulable_plugins)),
        "plugins that wait": ", ".join(sorted(decision.pending_plugins)),
        "nomination": repr(decision.nominated_node),
        "node to evict from": eviction.node if eviction is not None else "",
        "victims": ", ".join(victims),
    }


def _of_nodes(decided: Decision, rebuilt: Decision) -> Iterator[Difference]:
    if decided.diagnosis is not None and rebuilt.diagnosis is not None:
        verdicts, expected = _verdicts(decided), _verdicts(rebuilt)
        for node in {**expected, **verdicts}:
            said, right = verdicts.get(node, "no such node"), expected.get(node, "no such node")
            if said != right:
                yield Difference(f"verdict on node {node}", said, right)
    sheet, right_sheet = decided.scores, rebuilt.scores
    if sheet is not None and right_sheet is not None:
        yield from _of_scores(sheet, right_sheet)


def _verdicts(decision: Decision) -> dict[str, str]:
    """What each node said, by name."""
    diagnosis, table = decision.diagnosis, decision.cycle.table
    assert diagnosis is not None
    candidates = diagnosis.candidates
    said = {
        row: "fits"
        if candidates is not None and candidates[row]
        else _said(diagnosis.overrides.get(row, diagnosis.absent))
        for row in table.order.tolist()
    }
    for status, rows in diagnosis.groups():
        said |= dict.fromkeys(rows.tolist(), _said(status))
    return {table.names[row]: text for row, text in said.items()}


def _said(status: Status) -> str:
    text = ", ".join((status.code.label, *status.reasons))
    return f"{text} ({status.plugin})" if status.plugin else text


def _of_scores(sheet: ScoreSheet, right: ScoreSheet) -> Iterator[Difference]:
    names = right.table.names
    if not np.array_equal(sheet.rows, right.rows):
        feasible, expected = set(sheet.rows.tolist()), set(right.rows.tolist())
        for row in sorted(feasible ^ expected):
            is_known = row < len(names) and names[row]
            name = names[row] if is_known else sheet.table.names[row]
            yield Difference(f"node {name} feasible", _yes(row in feasible), _yes(row in expected))
        if feasible == expected:
            yield Difference("order of nodes", _first_names(sheet), _first_names(right))
        return
    scores, expected_scores = dict(sheet.by_plugin), dict(right.by_plugin)
    for plugin in {**expected_scores, **scores}:
        if plugin not in scores or plugin not in expected_scores:
            was = "scored" if plugin in scores else "skipped"
            yield Difference(f"plugin {plugin}", was, "skipped" if was == "scored" else "scored")
            continue
        given, due = scores[plugin], expected_scores[plugin]
        for place in np.flatnonzero(given != due).tolist():
            name = names[right.rows[place]]
            what = f"weighted score of plugin {plugin} on node {name}"
            yield Difference(what, str(given[place]), str(due[place]))
    for place in np.flatnonzero(sheet.totals != right.totals).tolist():
        name = names[right.rows[place]]
        total, due_total = str(sheet.totals[place]), str(right.totals[place])
        yield Difference(f"total score of node {name}", total, due_total)


def _yes(is_so: bool) -> str:
    return "yes" if is_so else "no"


def _first_names(sheet: ScoreSheet) -> str:
    return ", ".join(sheet.table.names[row] for row in sheet.rows[:5].tolist())
