"""InterPodAffinity: keeps pods near some pods and away from others.

Required terms filter (`filtering`), preferred ones score (`scoring`). Both ask the table for counts
that it keeps anyway: pods by selector (`cluster.counters`) and the terms that standing pods carry
(`cluster.affinity_terms`), so a decision never walks over pods. A pod that has no terms, and that
no standing pod's term speaks of, is skipped. A pod that is placed may change the verdict on a whole
domain: kept columns of Filter serve while it does not (`surroundings`), those of Score are never
kept. `overlays` tell of nominated pods and victims.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from stowplan.api.labels import join_errors
from stowplan.api.objects import Pod
from stowplan.api.resources import NAMESPACES
from stowplan.cluster.pod_affinity import pod_terms, prefers
from stowplan.cluster.pod_info import PodInfo
from stowplan.cluster.table import Int32Array, Int64Array
from stowplan.cluster.views import NodeView, Overlay
from stowplan.config.plugin_args import InterPodAffinityArgs
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import RowSet, takes_slices
from stowplan.framework.handle import Handle
from stowplan.framework.plugin import NOT_KEPT, Need, Plugin, Reads
from stowplan.framework.status import SKIP, Status, error, unresolvable
from stowplan.plugins.inter_pod_affinity import filtering, scoring
from stowplan.plugins.inter_pod_affinity.filtering import FilterNotes
from stowplan.plugins.inter_pod_affinity.hints import after_node_change, after_pod_change
from stowplan.plugins.inter_pod_affinity.scoring import ScoreNotes
from stowplan.plugins.inter_pod_affinity.terms import KnownNamespaces
from stowplan.queue.events import ActionType, ClusterEvent, EventHint


class InterPodAffinity(Plugin):
    name = "InterPodAffinity"
    Args = InterPodAffinityArgs
    looks_up = (NAMESPACES,)
    overlays = True
    reads = Reads.POD_SPECS
    score_reads = Reads.ANYTHING
    verdicts = filtering.VERDICTS
    needs = (
        Need(
            "filter",
            "preFilter",
            'error reading "PreFilterInterPodAffinity" from cycleState: not found',
        ),
        Need(
            "score",
            "preScore",
            'failed to read "PreScoreInterPodAffinity" from cycleState: not found',
        ),
    )

    def __init__(
        self, args: InterPodAffinityArgs | None = None, handle: Handle | None = None
    ) -> None:
        super().__init__(args, handle)
        args = args or InterPodAffinityArgs()
        self._hard_affinity_weight = args.hard_pod_affinity_weight
        self._ignores_preferences_of_others = args.ignore_preferred_terms_of_existing_pods
        self._namespaces = KnownNamespaces((handle or Handle()).catalog[NAMESPACES])

    # Filter

    def pre_filter(self, cycle: Cycle) -> Status | None:
        terms = pod_terms(cycle.pod)
        if terms.errors:
            return unresolvable(f"parsing pod: {join_errors(terms.errors)}")
        carried = cycle.table.affinity_terms.required_anti
        if not (terms.required or terms.required_anti or len(carried)):
            return SKIP
        notes = filtering.prepare(cycle.table, cycle.pod, terms, self._namespaces)
        if not notes.is_needed:
            return SKIP
        cycle.write(FilterNotes, notes)
        return None

    def sign(self, info: PodInfo) -> Hashable:
        return ()

    def surroundings(self, cycle: Cycle) -> Hashable:
        notes = cycle.get(FilterNotes)
        return NOT_KEPT if notes is None else filtering.surroundings(cycle.table, notes)

    @takes_slices
    def filter_columns(
        self, cycle: Cycle, rows: RowSet, out: Int32Array, overlay: Overlay | None
    ) -> None:
        table = cycle.table
        notes: FilterNotes = cycle.read(FilterNotes)
        out[rows] = filtering.judge_rows(table, notes, rows)
        if overlay is not None:
            asked = table.live_rows if isinstance(rows, slice) else rows
            for row in np.intersect1d(overlay.rows, asked).tolist():
                out[row] = filtering.judge(table, notes, NodeView(table, row, overlay))

    def filter(self, pod: Pod, node: NodeView, cycle: Cycle) -> Status | None:
        verdict = filtering.judge(cycle.table, cycle.read(FilterNotes), node)
        return self.verdicts[verdict - 1] if verdict else None

    # Score

    def pre_score(self, cycle: Cycle, rows: object) -> Status | None:
        pod = cycle.pod
        if self._ignores_preferences_of_others and not prefers(pod.spec.affinity):
            return SKIP
        terms = pod_terms(pod)
        if terms.errors:
            # Only where PreFilter is disabled, as it refuses such a pod.
            return error(f"failed to parse pod: {join_errors(terms.errors)}")
        notes = scoring.prepare(
            cycle.table, pod, terms, self._namespaces, self._hard_affinity_weight
        )
        if not notes.weights:
            return SKIP
        cycle.write(ScoreNotes, notes)
        return None

    @takes_slices
    def score_columns(self, cycle: Cycle, rows: RowSet, out: Int64Array) -> None:
        scoring.score_rows(cycle.table, cycle.read(ScoreNotes), rows, out)

    def score(self, pod: Pod, node: NodeView, cycle: Cycle) -> int:
        return scoring.score(cycle.table, cycle.read(ScoreNotes), node)

    def normalize(self, cycle: Cycle, scores: Int64Array) -> Int64Array:
        return scoring.normalize(scores)

    # Coming back

    def events(self) -> Sequence[EventHint]:
        pod = ActionType.ADD | ActionType.UPDATE_POD_LABEL | ActionType.DELETE
        node = ActionType.ADD | ActionType.UPDATE_NODE_LABEL
        return (
            EventHint(ClusterEvent("Pod", pod), after_pod_change),
            EventHint(ClusterEvent("Node", node), after_node_change),
        )
