"""`stowplan static` without `--daemon`: look once, place what can be placed, say what was done.

Nodes and pods are listed once and every pending pod of ours is tried once. A StatefulSet makes its
next pod only when the last one is ready, so it takes several runs. What the API server refuses or
leaves unanswered is in the summary and makes the run fail; a pod that merely waits does not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from stowplan.api.client import ApiClient
from stowplan.api.objects import Pod
from stowplan.errors import NotFound, StowplanError
from stowplan.scheduler.engine import Engine
from stowplan.scheduler.outcome import Failure, Placement
from stowplan.scheduler.process import SchedulerProcess
from stowplan.static.binder import StaticBinder
from stowplan.static.credentials import find_cluster
from stowplan.static.daemon import USER_AGENT, means
from stowplan.static.events_only import EventsOnly
from stowplan.static.lines import log
from stowplan.static.narrator import Narrator, what_it_waits_for
from stowplan.static.pins import DEFAULT_SCHEDULER
from stowplan.static.rights import check_rights
from stowplan.static.settings import StaticSettings, make_engine

#: For binds, and for finding out what became of those that got no answer.
_PATIENCE_S: Final = 60.0
#: Where plugins may wait for volumes to be made.
_PATIENCE_WITH_VOLUMES_S: Final = 660.0


@dataclass(slots=True)
class Summary:
    """What became of each pod; texts by `namespace/name`."""

    scheduler: str
    placed: dict[str, str] = field(default_factory=dict)
    waiting: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def lines(self) -> list[str]:
        parts = {"placed": self.placed, "waiting": self.waiting, "failed": self.failed}
        total = sum(len(pods) for pods in parts.values())
        if not total:
            is_default = self.scheduler == DEFAULT_SCHEDULER
            hint = "; --name sets the scheduler" if is_default else ""
            return [f"No pod of scheduler {self.scheduler} waits for a node{hint}"]
        counts = ", ".join(f"{len(pods)} {what}" for what, pods in parts.items())
        found = "1 pod" if total == 1 else f"{total} pods"
        return [
            f"{found} of scheduler {self.scheduler}: {counts}",
            *(
                f"  {what:<8} {pod} {text}"
                for what, pods in parts.items()
                for pod, text in sorted(pods.items())
            ),
        ]

    def check(self) -> None:
        """Raises where the API server did not do its part."""
        if self.failed:
            pod, why = min(self.failed.items())
            raise StowplanError(
                f"{len(self.failed)} of {len(self.failed) + len(self.placed)} pods could not be "
                f"placed; {pod} {why}"
            )


async def run_one_shot(settings: StaticSettings) -> Summary:
    """Raises where the cluster cannot be read."""
    engine, binder = make_engine(settings)
    cluster = find_cluster(settings.kubeconfig, settings.incluster_base_path)
    ledger = _Ledger(engine, binder, settings)
    patience_s = _PATIENCE_WITH_VOLUMES_S if settings.respect_node_state else _PATIENCE_S
    async with ApiClient(cluster, user_agent=USER_AGENT) as client:
        process = SchedulerProcess(
            engine, client, on_outcome=ledger.tried, reporter=EventsOnly, means=means(settings)
        )
        await check_rights(client, engine)
        log.debug("Running scheduler")
        await process.run_once(patience_s)
    return ledger.summary()


class _Ledger:
    """Notes what is tried and refused; the rest is known when all is over."""

    def __init__(self, engine: Engine, binder: StaticBinder, settings: StaticSettings) -> None:
        self._engine = engine
        self._settings = settings
        self._narrator = Narrator(engine, settings.labels)
        self._outcomes: dict[str, Placement | Failure] = {}
        self._problems: dict[str, StowplanError] = {}
        self._bound: set[str] = set()
        binder.on_failure = self._refused
        binder.on_bound = self._has_node

    def tried(self, outcome: Placement | Failure) -> None:
        self._narrator(outcome)
        self._outcomes[outcome.pod.uid] = outcome

    def _refused(self, pod: Pod, problem: StowplanError) -> None:
        self._problems[pod.uid] = problem

    def _has_node(self, pod: Pod) -> None:
        self._bound.add(pod.uid)

    def summary(self) -> Summary:
        summary = Summary(self._settings.name)
        for outcome in self._outcomes.values():
            if isinstance(outcome, Placement):
                self._add_placement(summary, outcome)
            elif outcome.is_pending:
                why = what_it_waits_for(outcome, self._settings.labels)
                summary.waiting[outcome.pod.key] = f"stays pending: {why}"
        for queued in self._engine.queue.pending().gated:
            summary.waiting[queued.key] = "stays pending: it has scheduling gates"
        return summary

    def _add_placement(self, summary: Summary, placement: Placement) -> None:
        pod = placement.pod
        problem = self._problems.get(pod.uid)
        if placement.is_lost or isinstance(problem, NotFound):
            return  # it was deleted, or placed by another scheduler: nothing to report
        if pod.uid in self._bound:
            summary.placed[pod.key] = f"on node {placement.node}"
        else:
            why = problem or "no answer in time"
            summary.failed[pod.key] = f"on node {placement.node}: {why}"
