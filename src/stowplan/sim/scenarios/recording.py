"""Record the timeline: every change of pods and nodes, and every decision.

Its source are the scheduler's own informers (`Witness` wraps the scheduler's handlers), so it sees
what the scheduler sees, at the same moment, at no cost. Without a scheduler the scenario has
informers of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from sys import intern
from typing import Any, Final

import msgspec

from stowplan.api.objects import Node, Pod
from stowplan.cluster.pod_info import Request, compile_pod, same_footprint
from stowplan.scheduler.engine import Engine
from stowplan.scheduler.event_handlers import EventHandlers
from stowplan.scheduler.outcome import Failure, Placement
from stowplan.sim.results.observing import RunObserver
from stowplan.sim.results.run import Gap
from stowplan.sim.scenarios.drawing import Drawing
from stowplan.sim.scenarios.explanation import Explainer, scores_in_words
from stowplan.sim.scenarios.figures import Measurement
from stowplan.sim.scenarios.own_names import MARK
from stowplan.sim.scenarios.timeline import GAPS, Entry, EntryKind, Expectation

#: Entries that an explanation belongs to.
_ATTEMPTS: Final = (EntryKind.DECIDED, EntryKind.UNSCHEDULABLE)


class Recording:
    """Collect entries as they come and call `on_entry` with each."""

    def __init__(
        self,
        now: Callable[[], float],
        *,
        on_entry: Callable[[Entry], None] | None = None,
        keeps_entries: bool = True,
        prefix: str = "",
        draws: bool = False,
        observer: RunObserver | None = None,
    ) -> None:
        """With a `prefix`, record only the scenario's own objects (see `own_names`)."""
        self.entries: list[Entry] = []
        self.expectations: list[Expectation] = []
        self.counts: Counter[str] = Counter()
        self.drawing = Drawing() if draws else None
        self._observer = observer
        #: Explains the latest decision, where that was asked for.
        self.explainer: Explainer | None = None
        self.measurement = Measurement(now, keeps_course=keeps_entries)
        #: Pods that had to leave, and for which pod, by namespace/name.
        self.victims: dict[str, str] = {}
        #: Pods that the scenario deleted, to distinguish them from finished ones.
        self.deleted_on_purpose: set[str] = set()
        #: Seconds since the scenario began, in the cluster's time.
        self.now = now
        #: Pods that ever had a node, and those that were ever tried, by namespace/name.
        self.bound: set[str] = set()
        self.attempted: set[str] = set()
        #: Pods that ever existed, by namespace/name, with their labels; and names of nodes.
        self.seen_pods: dict[str, Mapping[str, str]] = {}
        self.seen_nodes: set[str] = set()
        #: Nodes of an existing cluster that the scenario did not create; figures leave them out.
        self._foreign_nodes: set[str] = set()
        #: One object for equal labels.
        self._labels: dict[tuple[tuple[str, str], ...], Mapping[str, str]] = {}
        #: Called when a pod is bound, has finished or is deleted: with the entry's kind, the pod's
        #: namespace/name and the time.
        self.pod_listeners: list[Callable[[EntryKind, str, float], None]] = []
        #: What a pod takes from its node. Replaced where that is known without compiling the pod.
        self.held_by: Callable[[Pod], Request] = _held_by
        #: The warnings of the run (`Outcome.warnings`).
        self.warnings: list[str] = []
        self._prefix = prefix
        self._on_entry = on_entry
        self._keeps_entries = keeps_entries

    def add_gaps(self, gaps: Sequence[tuple[float, str]]) -> None:
        """Count gaps of the recording that is played: times, and notes."""
        if gaps:
            self.counts[GAPS] += len(gaps)
            if self._observer is not None:
                self._observer.gaps += [Gap(at, note) for at, note in gaps]

    def close(self) -> None:
        """Record nothing more: the scenario's own cleanup is not part of it."""
        self._on_entry, self._keeps_entries, self.drawing = None, False, None

    def add(self, kind: EntryKind, subject: str, text: str, **details: Any) -> None:
        self._add(Entry(self.now(), kind, subject, text, details))

    def _add(self, entry: Entry) -> None:
        if self._keeps_entries:
            self.entries.append(entry)
        if self._on_entry is not None:
            if self.explainer is not None and entry.kind in _ATTEMPTS:
                details = {**entry.details, **self.explainer.latest}
                entry = msgspec.structs.replace(entry, details=details)
            self._on_entry(entry)

    # Decisions

    def decided(self, outcome: Placement | Failure) -> None:
        """The scheduler's `on_outcome`."""
        key = intern(outcome.pod.key)
        subject = f"pod {key}"
        self.counts["attempts"] += 1
        self.attempted.add(key)
        if isinstance(outcome, Placement):
            self.counts["placements"] += 1
            decision = outcome.decision
            if self.drawing is not None:
                self.drawing.scored(key, scores_in_words(decision))
            node = outcome.node
            details = {
                "node": node,
                "evaluated": decision.evaluated_nodes,
                "feasible": decision.feasible_nodes,
            }
            self._add(Entry(self.now(), EntryKind.DECIDED, subject, f"goes to {node}", details))
            return
        if not outcome.is_pending:
            return
        self.counts["failures"] += 1
        self.add(EntryKind.UNSCHEDULABLE, subject, outcome.message, reason=outcome.reason)
        if outcome.eviction is None:
            return
        for victim in outcome.eviction.victims:
            self.counts["preemptions"] += 1
            self.victims[victim.key] = key
            if self._observer is not None:
                self._observer.pod_preempted(victim.key)
            self.add(
                EntryKind.PREEMPTED,
                f"pod {victim.key}",
                f"must leave {outcome.eviction.node} for {key}",
                node=outcome.eviction.node,
                preemptor=key,
            )

    # Changes

    def pod_added(self, pod: Pod) -> None:
        if not pod.metadata.namespace.startswith(self._prefix):
            return
        labels, key = pod.metadata.labels or {}, intern(pod.key)
        self.seen_pods[key] = self._labels.setdefault(tuple(labels.items()), labels)
        self.counts["created"] += 1
        self.deleted_on_purpose.discard(key)  # that was another pod of this name
        self.measurement.pod_created(key)
        if self._observer is not None:
            self._observer.pod_created(pod)
        if self.drawing is not None:
            self.drawing.pod_created(pod)
        self._add(Entry(self.measurement.at, EntryKind.CREATED, f"pod {key}", "created"))
        if pod.spec.node_name:
            self._bound(pod, by_scheduler=False)
        elif (said := pod.status.conditions) and any(each.type == "PodScheduled" for each in said):
            self.attempted.add(key)  # gated, says the API server

    def pod_updated(self, old: Pod, new: Pod) -> None:
        if not new.metadata.namespace.startswith(self._prefix):
            return
        if new.spec.node_name and not old.spec.node_name:
            self._bound(new, by_scheduler=True)
        elif not same_footprint(old, new):
            self.measurement.pod_resized(new.key, self.held_by(new))
            if self._observer is not None:
                self._observer.pod_resized(new)
        if new.is_terminating and not old.is_terminating:
            self.add(EntryKind.CHANGED, f"pod {new.key}", "is terminating")

    def pod_removed(self, pod: Pod) -> None:
        """Note a pod that was deleted or has finished; the scheduler treats both alike."""
        if not pod.metadata.namespace.startswith(self._prefix):
            return
        key = pod.key
        node = pod.spec.node_name
        is_done = pod.is_finished or not (
            pod.is_terminating or key in self.deleted_on_purpose or not node
        )
        self.deleted_on_purpose.discard(key)
        kind = EntryKind.FINISHED if is_done else EntryKind.DELETED
        text = kind.value
        self.counts[text] += 1
        self.measurement.pod_gone(key)
        if self._observer is not None:
            self._observer.pod_gone(key)
        self._add(Entry(self.measurement.at, kind, f"pod {key}", text, {"node": node}))
        self._tell(kind, key)

    def _bound(self, pod: Pod, *, by_scheduler: bool) -> None:
        key = intern(pod.key)
        self.counts["bound"] += 1
        self.bound.add(key)
        node = pod.spec.node_name
        measurement = self.measurement
        if node in self._foreign_nodes:
            measurement.pod_bound(key, "", (), by_scheduler=by_scheduler)
        else:
            measurement.pod_bound(key, node, self.held_by(pod), by_scheduler=by_scheduler)
        if self._observer is not None and by_scheduler:
            self._observer.pod_bound(pod)
        self.attempted.add(key)
        text = f"bound to {node}"
        self._add(Entry(measurement.at, EntryKind.BOUND, f"pod {key}", text, {"node": node}))
        self._tell(EntryKind.BOUND, key)

    def _tell(self, kind: EntryKind, key: str) -> None:
        for listener in self.pod_listeners:
            listener(kind, key, self.measurement.at)

    def node_added(self, node: Node) -> None:
        self.seen_nodes.add(node.name)
        if self._is_ours(node):
            self._seen(node)
        else:
            self._foreign_nodes.add(node.name)
        if self.drawing is not None:
            self.drawing.node_created(node)
        if self._is_ours(node):
            self.add(EntryKind.CREATED, f"node {node.name}", "created")

    def _is_ours(self, node: Node) -> bool:
        return not self._prefix or (node.metadata.labels or {}).get(MARK) == self._prefix

    def _seen(self, node: Node) -> None:
        self.measurement.node_seen(node)
        if self._observer is not None:
            self._observer.node_seen(node)

    def node_updated(self, old: Node, new: Node) -> None:
        if self._is_ours(new):
            self._seen(new)
        if old.spec.unschedulable != new.spec.unschedulable and self._is_ours(new):
            text = "cordoned" if new.spec.unschedulable else "uncordoned"
            self.add(EntryKind.CHANGED, f"node {new.name}", text)

    def node_removed(self, node: Node) -> None:
        self._foreign_nodes.discard(node.name)
        if self._is_ours(node):
            self.measurement.node_gone(node.name)
            if self._observer is not None:
                self._observer.node_gone(node.name)
            self.add(EntryKind.DELETED, f"node {node.name}", "deleted")


def _held_by(pod: Pod) -> Request:
    return compile_pod(pod).held


class Witness(EventHandlers):
    """The scheduler's handlers; each event is recorded, too."""

    def __init__(self, engine: Engine, recording: Recording) -> None:
        super().__init__(engine)
        self._recording = recording
        recording.held_by = engine.cache.held_by

    def add_pod(self, pod: Pod) -> None:
        self._recording.pod_added(pod)
        super().add_pod(pod)

    def update_pod(self, old: Pod, new: Pod) -> None:
        if new.is_finished:
            # The scheduler's handler calls `delete_pod`, which records the pod's end.
            self._recording.pod_updated(old, new)
            super().update_pod(old, new)
        else:
            # Afterwards the cache knows what the pod holds.
            super().update_pod(old, new)
            self._recording.pod_updated(old, new)

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
