"""Record the timeline: every change of pods and nodes, and every decision.

Its source are the scheduler's own informers (`Witness` wraps the scheduler's handlers), so it sees
what the scheduler sees, at the same moment, at no cost. Without a scheduler the scenario has
informers of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from stowplan.api.objects import Node, Pod
from stowplan.scheduler.engine import Engine, Failure, Placement
from stowplan.scheduler.event_handlers import EventHandlers
from stowplan.sim.scenarios.own_names import MARK
from stowplan.sim.scenarios.timeline import Entry, EntryKind, Expectation


class Recording:
    """Collect entries as they come and call `on_entry` with each."""

    def __init__(
        self,
        now: Callable[[], float],
        *,
        on_entry: Callable[[Entry], None] | None = None,
        keeps_entries: bool = True,
        prefix: str = "",
    ) -> None:
        """With a `prefix`, record only the scenario's own objects (see `own_names`)."""
        self.entries: list[Entry] = []
        self.expectations: list[Expectation] = []
        self.counts: Counter[str] = Counter()
        #: Pods that the scenario deleted, to distinguish them from finished ones.
        self.deleted_on_purpose: set[str] = set()
        #: Seconds since the scenario began, in the cluster's time.
        self.now = now
        #: Pods that ever had a node, and those that were ever tried, by namespace/name.
        self.bound: set[str] = set()
        self.attempted: set[str] = set()
        #: Further callbacks for each entry, for as long as they are registered.
        self.listeners: list[Callable[[Entry], None]] = []
        self._prefix = prefix
        self._on_entry = on_entry
        self._keeps_entries = keeps_entries

    def add(self, kind: EntryKind, subject: str, text: str, **details: Any) -> None:
        entry = Entry(self.now(), kind, subject, text, details)
        if self._keeps_entries:
            self.entries.append(entry)
        if self._on_entry is not None:
            self._on_entry(entry)
        for listener in self.listeners:
            listener(entry)

    # Decisions

    def decided(self, outcome: Placement | Failure) -> None:
        """The scheduler's `on_outcome`."""
        subject = f"pod {outcome.pod.key}"
        self.counts["attempts"] += 1
        self.attempted.add(outcome.pod.key)
        if isinstance(outcome, Placement):
            self.counts["placements"] += 1
            decision = outcome.decision
            self.add(
                EntryKind.DECIDED,
                subject,
                f"goes to {outcome.node}",
                node=outcome.node,
                evaluated=decision.evaluated_nodes,
                feasible=decision.feasible_nodes,
            )
            return
        if not outcome.is_pending:
            return
        self.counts["failures"] += 1
        self.add(EntryKind.UNSCHEDULABLE, subject, outcome.message, reason=outcome.reason)
        if outcome.eviction is None:
            return
        for victim in outcome.eviction.victims:
            self.counts["preemptions"] += 1
            self.add(
                EntryKind.PREEMPTED,
                f"pod {victim.key}",
                f"must leave {outcome.eviction.node} for {outcome.pod.key}",
                node=outcome.eviction.node,
                preemptor=outcome.pod.key,
            )

    # Changes

    def pod_added(self, pod: Pod) -> None:
        if not pod.metadata.namespace.startswith(self._prefix):
            return
        self.add(EntryKind.CREATED, f"pod {pod.key}", "created")
        if pod.spec.node_name:
            self._bound(pod)
        elif any(each.type == "PodScheduled" for each in pod.status.conditions or ()):
            self.attempted.add(pod.key)  # gated, says the API server

    def pod_updated(self, old: Pod, new: Pod) -> None:
        if not new.metadata.namespace.startswith(self._prefix):
            return
        if new.spec.node_name and not old.spec.node_name:
            self._bound(new)
        if new.is_terminating and not old.is_terminating:
            self.add(EntryKind.CHANGED, f"pod {new.key}", "is terminating")

    def pod_removed(self, pod: Pod) -> None:
        """Note a pod that was deleted or has finished; the scheduler treats both alike."""
        if not pod.metadata.namespace.startswith(self._prefix):
            return
        is_done = pod.is_finished or not (
            pod.is_terminating or pod.key in self.deleted_on_purpose or not pod.spec.node_name
        )
        self.deleted_on_purpose.discard(pod.key)
        kind = EntryKind.FINISHED if is_done else EntryKind.DELETED
        self.counts[kind.value] += 1
        self.add(kind, f"pod {pod.key}", kind.value, node=pod.spec.node_name)

    def _bound(self, pod: Pod) -> None:
        self.counts["bound"] += 1
        self.bound.add(pod.key)
        self.attempted.add(pod.key)
        node = pod.spec.node_name
        self.add(EntryKind.BOUND, f"pod {pod.key}", f"bound to {node}", node=node)

    def node_added(self, node: Node) -> None:
        if self._is_ours(node):
            self.add(EntryKind.CREATED, f"node {node.name}", "created")

    def _is_ours(self, node: Node) -> bool:
        return not self._prefix or (node.metadata.labels or {}).get(MARK) == self._prefix

    def node_updated(self, old: Node, new: Node) -> None:
        if old.spec.unschedulable != new.spec.unschedulable and self._is_ours(new):
            text = "cordoned" if new.spec.unschedulable else "uncordoned"
            self.add(EntryKind.CHANGED, f"node {new.name}", text)

    def node_removed(self, node: Node) -> None:
        if self._is_ours(node):
            self.add(EntryKind.DELETED, f"node {node.name}", "deleted")


class Witness(EventHandlers):
    """The scheduler's handlers; each event is recorded first."""

    def __init__(self, engine: Engine, recording: Recording) -> None:
        super().__init__(engine)
        self._recording = recording

    def add_pod(self, pod: Pod) -> None:
        self._recording.pod_added(pod)
        super().add_pod(pod)

    def update_pod(self, old: Pod, new: Pod) -> None:
        self._recording.pod_updated(old, new)
        super().update_pod(old, new)

    def delete_pod(self, pod: Pod) -> None:
        self._recording.pod_removed(pod)
        super().delete_pod(pod)

    def add_node(self, node: Node) -> None:
        self._recording.node_added(node)
        super().add_node(node)

    def update_node(self, old: Node, new: Node) -> None:
        self._recording.node_updated(old, new)
        super().update_node(old, new)

    def delete_node(self, node: Node) -> None:
        self._recording.node_removed(node)
        super().delete_node(node)
