"""What the ledger keeps of a decision beside its result: reasons, scores, durations, victims.

The engine's decision is valid only until the table changes, so everything is copied, and encoded at
once: a `Details` costs as many bytes of the budget as its JSON has.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec

from stowplan.scheduler.node_names import fold_names

if TYPE_CHECKING:
    from stowplan.cluster.journal import Rows
    from stowplan.cluster.table import NodeTable
    from stowplan.framework.diagnosis import Diagnosis
    from stowplan.scheduler.decision import Decision

#: Best nodes whose scores are kept: the winner and its runners-up.
_BEST: Final = 4
_MOST_REASONS: Final = 20
#: A pod can get a status of its own from every node; no more of them are read.
_MOST_STATUSES: Final = 256
#: Characters of node names that are kept for each reason.
_MOST_NAMES: Final = 2_000
_MOST_VICTIMS: Final = 20
#: Sets of nodes whose short form is remembered: waiting pods get the same refusals again and again.
_MOST_SETS: Final = 64


class Recorded(msgspec.Struct, rename="camel", omit_defaults=True):
    """Base class: fields in lower camel case, and only those that say something."""


class RecordedReason(Recorded):
    """What a plugin said about some nodes."""

    plugin: str
    reason: str
    nodes: int
    #: The nodes as `node_names` folds them, `*` for all; empty if they were not kept.
    names: str = ""
    names_left_out: int = 0


class RecordedScore(Recorded):
    """A node's weighted score, in all and by plugin."""

    node: str
    total: int
    by_plugin: dict[str, int] = {}


class RecordedEviction(Recorded):
    """The preemption plan: the pods to evict, the most important first."""

    node: str
    victims: list[str]
    victims_left_out: int = 0


class Details(Recorded):
    """One decision."""

    #: Nodes that were filtered, and those that passed.
    evaluated_nodes: int = 0
    feasible_nodes: int = 0
    #: Seconds by extension point.
    durations: Mapping[str, float] = {}
    #: How many nodes each plugin refused.
    refused: dict[str, int] = {}
    #: Largest group of nodes first.
    reasons: list[RecordedReason] = []
    #: Highest first.
    scores: list[RecordedScore] = []
    nominated_node: str = ""
    eviction: RecordedEviction | None = None
    #: True if scores or node names were left out, because attempts were too many.
    is_shortened: bool = False


class DetailsReader:
    """Copies what `Details` need from decisions."""

    def __init__(self) -> None:
        #: By rows: the short form of their nodes' names, while the journal of nodes ends there.
        self._folded: dict[bytes, tuple[str, int]] = {}
        self._folded_at = -1

    def scores(self, decision: Decision) -> list[RecordedScore]:
        """The winner first, then its runners-up; empty if nothing was scored."""
        sheet = decision.scores
        if sheet is None:
            return []
        best = [RecordedScore(e.node, e.total, e.by_plugin) for e in sheet.top(_BEST)]
        for place, each in enumerate(best):
            if each.node == decision.node:
                return [each, *best[:place], *best[place + 1 :]]
        # Many nodes share the highest score, and another of them was chosen.
        row = sheet.table.row_of[decision.node or ""]
        won = sheet.of(row)
        return [RecordedScore(won.node, won.total, won.by_plugin), *best[: _BEST - 1]]

    def add_reasons(self, details: Details, decision: Decision, *, has_names: bool) -> None:
        """Add what is known of a decision for no node: its reasons and the preemption plan."""
        details.nominated_node = decision.nominated_node or ""
        if decision.eviction is not None:
            victims = [pod.key for pod in islice(decision.eviction.victims, _MOST_VICTIMS)]
            left_out = len(decision.eviction.victims) - len(victims)
            details.eviction = RecordedEviction(decision.eviction.node, victims, left_out)
        if decision.diagnosis is not None:
            self._add_verdicts(details, decision.diagnosis, has_names=has_names)

    def _add_verdicts(self, details: Details, diagnosis: Diagnosis, *, has_names: bool) -> None:
        table = diagnosis.cycle.table
        absent = diagnosis.absent
        if diagnosis.candidates is None:
            if absent.plugin or absent.reasons:
                count = diagnosis.total_nodes
                details.reasons.append(RecordedReason(absent.plugin, absent.message, count, "*"))
            return
        found: dict[tuple[str, str], list[Rows]] = {}
        seen = 0
        for number, (status, rows) in enumerate(diagnosis.groups()):
            if number >= _MOST_STATUSES:
                details.is_shortened = True
                break
            seen += len(rows)
            details.refused[status.plugin] = details.refused.get(status.plugin, 0) + len(rows)
            for reason in islice(status.reasons, _MOST_REASONS):
                found.setdefault((status.plugin, reason), []).append(rows)
        left = diagnosis.total_nodes - seen
        counted = [
            (sum(map(len, groups)), plugin, reason, groups)
            for (plugin, reason), groups in found.items()
        ]
        if left > 0 and not details.is_shortened and (absent.plugin or absent.reasons):
            details.refused[absent.plugin] = details.refused.get(absent.plugin, 0) + left
            counted.append((left, absent.plugin, absent.message, []))
        counted.sort(key=lambda each: (-each[0], each[1], each[2]))
        if len(counted) > _MOST_REASONS:
            details.is_shortened = True
        for count, plugin, reason, groups in counted[:_MOST_REASONS]:
            names, left_out = "", 0
            if count == diagnosis.total_nodes:
                names = "*"
            elif not has_names:
                details.is_shortened = True
            elif groups:
                names, left_out = self._names(table, groups)
            details.reasons.append(RecordedReason(plugin, reason, count, names, left_out))

    def _names(self, table: NodeTable, groups: list[Rows]) -> tuple[str, int]:
        if table.node_journal.end != self._folded_at or len(self._folded) >= _MOST_SETS:
            self._folded.clear()
            self._folded_at = table.node_journal.end
        key = b"".join(rows.tobytes() for rows in groups)
        known = self._folded.get(key)
        if known is None:
            names = (table.names[row] for rows in groups for row in rows.tolist())
            known = self._folded[key] = fold_names(names, _MOST_NAMES)
        return known
