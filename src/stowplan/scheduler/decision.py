"""One attempt's outcome: the record that events, conditions, logs, metrics and explanations read.

There is no second explanation logic: every text that says why a pod went somewhere or nowhere
comes from its `Decision`. Success keeps arrays, not a dict per node; failure keeps a `Diagnosis`.
"""

from __future__ import annotations

from dataclasses import dataclass

from stowplan.api.objects import Pod
from stowplan.framework.cycle import Cycle
from stowplan.framework.diagnosis import Diagnosis
from stowplan.framework.plugin import Effect, Eviction
from stowplan.framework.score_sheet import BuildSheet, ScoreSheet
from stowplan.framework.status import Status

NO_NODES = "no nodes available to schedule pods"


@dataclass(slots=True)
class Decision:
    """The outcome of one attempt."""

    cycle: Cycle
    profile: str
    status: Status
    #: The chosen node; None when there is none.
    node: str | None = None
    #: The text of the failure, as events and the condition show it.
    message: str = ""
    diagnosis: Diagnosis | None = None
    #: What filters said on the way to the chosen node, to be completed (`framework.feasible`)
    #: before the table changes; None once the attempt is recorded.
    search: Diagnosis | None = None
    #: The scores, or a function that builds them when they are read.
    sheet: ScoreSheet | BuildSheet | None = None
    evaluated_nodes: int = 0
    feasible_nodes: int = 0
    #: Where the next attempt starts to look at nodes.
    cursor: int = 0
    table_version: int = 0
    #: What PostFilter plugins said; None if none was asked.
    post_filter: Status | None = None
    #: From PostFilter: None leaves the pod's nomination alone, "" clears it.
    nominated_node: str | None = None
    #: From PostFilter: the pods to evict, and from which node.
    eviction: Eviction | None = None
    #: From PostFilter: requests that make room otherwise.
    effect: Effect | None = None

    @property
    def pod(self) -> Pod:
        return self.cycle.pod

    @property
    def scores(self) -> ScoreSheet | None:
        """Scores of the feasible nodes, if they were scored; valid until the next decision."""
        return self.sheet() if callable(self.sheet) else self.sheet

    @property
    def unschedulable_plugins(self) -> set[str]:
        return self.diagnosis.unschedulable_plugins if self.diagnosis is not None else set()

    @property
    def pending_plugins(self) -> set[str]:
        return self.diagnosis.pending_plugins if self.diagnosis is not None else set()
