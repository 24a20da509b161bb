"""Pods and a queue on virtual time, for the tests of the queue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from stowplan.api.objects import Named, ObjectMeta, Pod, PodSpec, PodStatus
from stowplan.clock import VirtualClock
from stowplan.queue import QueuedPod, SchedulingQueue
from stowplan.queue.events import (
    ActionType,
    ClusterEvent,
    EventHint,
    EventResource,
    Hint,
    HintFn,
)

PROFILE = "default-scheduler"
NODE_ADD = ClusterEvent(EventResource.NODE, ActionType.ADD)
NODE_LABEL = ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_LABEL)
POD_DELETE = ClusterEvent(EventResource.POD, ActionType.DELETE)


def make_pod(
    name: str,
    *,
    uid: str = "",
    priority: int | None = None,
    labels: dict[str, str] | None = None,
    gates: Sequence[str] = (),
    nominated: str = "",
    node: str = "",
    profile: str = PROFILE,
) -> Pod:
    return Pod(
        metadata=ObjectMeta(name=name, namespace="ns", uid=uid or f"uid-{name}", labels=labels),
        spec=PodSpec(
            scheduler_name=profile,
            priority=priority,
            node_name=node,
            scheduling_gates=tuple(Named(name=gate) for gate in gates),
        ),
        status=PodStatus(nominated_node_name=nominated),
    )


def relabel(pod: Pod, **labels: str) -> Pod:
    return msgspec.structs.replace(
        pod, metadata=msgspec.structs.replace(pod.metadata, labels=labels)
    )


def annotate(pod: Pod, **annotations: str) -> Pod:
    """A change that no event of its own exists for."""
    return msgspec.structs.replace(
        pod, metadata=msgspec.structs.replace(pod.metadata, annotations=annotations)
    )


def never(pod: Pod, old: object | None, new: object | None) -> Hint:
    return Hint.SKIP


def always(pod: Pod, old: object | None, new: object | None) -> Hint:
    return Hint.QUEUE


def on(event: ClusterEvent, hint: HintFn | None = None) -> EventHint:
    return EventHint(event, hint)


class Bench:
    """A queue whose gates are opened and closed by hand and whose wakeups are counted."""

    def __init__(self, hints: dict[str, Sequence[EventHint]] | None = None, **options: Any) -> None:
        self.clock = VirtualClock(start=1000.0)
        self.gates: dict[str, str] = {}  # pod name -> plugin that keeps it out
        self.asked: list[str] = []  # pods that PreEnqueue was run for
        self.wakeups = 0
        self.queue = SchedulingQueue(
            clock=self.clock,
            pre_enqueue=options.pop("pre_enqueue", self._pre_enqueue),
            hints={PROFILE: {"Fit": [on(NODE_ADD)]} if hints is None else hints},
            **options,
        )
        self.queue.on_ready = self._wake

    def _pre_enqueue(self, queued: QueuedPod) -> tuple[str, str] | None:
        self.asked.append(queued.pod.metadata.name)
        plugin = self.gates.get(queued.pod.metadata.name)
        return None if plugin is None else (plugin, f"{plugin} says no")

    def _wake(self) -> None:
        self.wakeups += 1

    def pop(self) -> QueuedPod:
        queued = self.queue.pop()
        assert queued is not None
        return queued

    def fail(self, queued: QueuedPod, *plugins: str, pending: Sequence[str] = ()) -> QueuedPod:
        """End an attempt: rejected by these plugins, or with an error if there are none."""
        queued.unschedulable_plugins = set(plugins)
        queued.pending_plugins = set(pending)
        self.queue.add_unschedulable(queued)
        return queued

    def rejected(self, pod: Pod, *plugins: str, pending: Sequence[str] = ()) -> QueuedPod:
        """Add a pod to an idle queue and have it rejected."""
        self.queue.add(pod)
        queued = self.pop()
        assert queued.pod is pod
        return self.fail(queued, *plugins, pending=pending)

    def where(self, queued: QueuedPod) -> str:
        """The one place the pod is in, or "nowhere"."""
        pending = self.queue.pending()
        places = [
            place
            for place in (
                "active",
                "backoff",
                "error_backoff",
                "unschedulable",
                "gated",
                "in_flight",
            )
            if any(other is queued for other in getattr(pending, place))
        ]
        assert len(places) <= 1, places
        return places[0] if places else "nowhere"

    def names(self, place: str) -> list[str]:
        return [queued.pod.metadata.name for queued in getattr(self.queue.pending(), place)]

    def pop_names(self) -> list[str]:
        """Pop until nothing is ready."""
        names: list[str] = []
        while (queued := self.queue.pop()) is not None:
            names.append(queued.pod.metadata.name)
        return names
