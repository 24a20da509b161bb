"""What the ledger keeps of a decision beside its result: reasons, scores, durations, victims.

The engine's decision is valid only until the table changes, so everything is copied, and encoded at
once: a `Details` costs as many bytes of the budget as its JSON has.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from stowplan.api.quantity import format_quantity
from stowplan.framework.feasible import complete
from stowplan.scheduler.ledger_records import (
    Details,
    RecordedEviction,
    RecordedReason,
    RecordedScore,
)
from stowplan.scheduler.node_names import fold_names

if TYPE_CHECKING:
    from stowplan.cluster.journal import Rows
    from stowplan.cluster.pod_info import PodInfo
    from stowplan.cluster.table import NodeTable
    from stowplan.framework.diagnosis import Diagnosis
    from stowplan.framework.profile import Profile
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


class DetailsReader:
    """Copies what `Details` need from decisions."""

    def __init__(self) -> None:
        #: By rows: the short form of their nodes' names, while the journal of nodes ends there.
        self._folded: dict[bytes, tuple[str, int]] = {}
        self._folded_at = -1

    def read(self, decision: Decision, profile: Profile, *, has_time: bool) -> Details:
        """Everything; without `has_time`, not what takes long."""
        details = Details()
        if has_time:
            details.constraints = _constraints(decision.cycle.info)
        if decision.node is None:
            self._add_failure(details, decision, has_names=has_time)
            return details
        if decision.sheet is not None:  # else a single node was feasible, and not scored
            details.scores = self._scores(decision)
        search = decision.search
        if search is not None and decision.feasible_nodes < search.total_nodes:
            absent = search.absent_count()
            complete(profile, search)
            self._add_verdicts(details, search, absent, has_names=has_time)
        return details

    def _scores(self, decision: Decision) -> list[RecordedScore]:
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

    def _add_failure(self, details: Details, decision: Decision, *, has_names: bool) -> None:
        """Add what is known of a decision for no node: its reasons and the preemption plan."""
        details.nominated_node = decision.nominated_node or ""
        if decision.eviction is not None:
            victims = [pod.key for pod in islice(decision.eviction.victims, _MOST_VICTIMS)]
            left_out = len(decision.eviction.victims) - len(victims)
            details.eviction = RecordedEviction(decision.eviction.node, victims, left_out)
        diagnosis = decision.diagnosis
        if diagnosis is None:
            return
        if diagnosis.candidates is not None:
            self._add_verdicts(details, diagnosis, diagnosis.absent_count(), has_names=has_names)
        elif (absent := diagnosis.absent).plugin or absent.reasons:
            count = diagnosis.total_nodes
            details.refused[absent.plugin] = count
            details.reasons.append(RecordedReason(absent.plugin, absent.message, count, "*"))

    def _add_verdicts(
        self, details: Details, diagnosis: Diagnosis, left: int, *, has_names: bool
    ) -> None:
        """Add what filters said; `left`: how many nodes PreFilter kept from them."""
        table, absent = diagnosis.cycle.table, diagnosis.absent
        found: dict[tuple[str, str], list[Rows]] = {}
        for number, (status, rows) in enumerate(diagnosis.groups()):
            if number >= _MOST_STATUSES:
                details.is_shortened = True
                break
            details.refused[status.plugin] = details.refused.get(status.plugin, 0) + len(rows)
            for reason in islice(status.reasons, _MOST_REASONS):
                found.setdefault((status.plugin, reason), []).append(rows)
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


def quantity(resource: str, amount: int) -> str:
    """A canonical amount as Kubernetes writes it: 1500m, 4Gi, 3."""
    if resource == "cpu":
        return format_quantity(f"{amount}m")
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        for suffix, power in (("Gi", 30), ("Mi", 20), ("Ki", 10)):
            if amount and not amount % (1 << power):
                return f"{amount >> power}{suffix}"
    return str(amount)


def _constraints(info: PodInfo) -> list[str]:
    """The fields of a pod's spec that restrict its place, beside its requests."""
    spec, affinity = info.pod.spec, info.pod.spec.affinity
    fields = {
        "nodeSelector": spec.node_selector,
        "nodeAffinity": affinity and affinity.node_affinity,
        "podAffinity": affinity and affinity.pod_affinity,
        "podAntiAffinity": affinity and affinity.pod_anti_affinity,
        "topologySpreadConstraints": spec.topology_spread_constraints,
        "tolerations": [
            each
            for each in spec.tolerations or ()
            # Admission adds these to every pod, and they do not restrict its place.
            if each.effect != "NoExecute" or not each.key.startswith("node.kubernetes.io/")
        ],
        "hostPorts": info.host_ports,
        "volumes": info.volumes,
        "resourceClaims": spec.resource_claims,
    }
    return [name for name, value in fields.items() if value]
