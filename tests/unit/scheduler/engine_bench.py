"""An engine on virtual time (unless a test needs real time), fed as informers would feed it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from random import Random
from typing import Any

import msgspec

from stowplan.api.objects import Node, Pod
from stowplan.clock import Clock, VirtualClock
from stowplan.cluster.cache import ClusterCache
from stowplan.framework.handle import Handle
from stowplan.framework.plugin import Plugin
from stowplan.scheduler.engine import Engine
from stowplan.scheduler.event_handlers import EventHandlers
from stowplan.scheduler.outcome import Failure, Placement
from tests.unit.scheduler.scheduler_kit import SCHEDULER, defaults, profile_of

_PLACES = ("active", "backoff", "error_backoff", "unschedulable", "gated", "in_flight")


class Bench:
    """The default profile with further plugins, an API server's objects, and the engine."""

    def __init__(
        self, *plugins: Plugin, nodes: Iterable[Node] = (), clock: Clock | None = None
    ) -> None:
        self.clock = VirtualClock()
        self.cache = ClusterCache()
        self.handle = Handle(
            profile=SCHEDULER,
            table=self.cache.table,
            catalog=self.cache.catalog,
            clock=clock or self.clock,
            rng=Random(1),
        )
        chosen = [*defaults(), *plugins]
        for plugin in chosen:
            plugin.handle = self.handle
        #: What the API server has, by namespace/name.
        self.store: dict[str, Pod] = {}
        self.engine = Engine(
            {SCHEDULER: profile_of(*chosen)},
            cache=self.cache,
            clock=clock or self.clock,
            handles={SCHEDULER: self.handle},
            lookup=self.store.get,
        )
        self.handle.activate = self.engine.queue.activate
        self.handlers = EventHandlers(self.engine)
        self.queue = self.engine.queue
        self._versions = count(1)
        for node in nodes:
            self.handlers.add_node(node)

    # The cluster

    def create(self, pod: Pod) -> Pod:
        self.store[pod.key] = pod
        self.handlers.add_pod(pod)
        return pod

    def update(self, pod: Pod, **changes: Any) -> Pod:
        """The pod with other fields of its spec, status or metadata."""
        old = self.store[pod.key]
        version = str(next(self._versions))
        new = changed(old, resource_version=version, **changes)
        self.store[pod.key] = new
        self.handlers.update_pod(old, new)
        return new

    def delete(self, pod: Pod) -> None:
        self.handlers.delete_pod(self.store.pop(pod.key))

    # The scheduler

    def placed(self) -> Placement:
        outcome = self.engine.attempt()
        assert isinstance(outcome, Placement), outcome
        return outcome

    def failed(self) -> Failure:
        outcome = self.engine.attempt()
        assert isinstance(outcome, Failure), outcome
        return outcome

    def where(self, pod: Pod) -> str:
        """The one place of the queue that the pod is in, or "nowhere"."""
        pending = self.queue.pending()
        found = [
            place
            for place in _PLACES
            if any(queued.uid == pod.uid for queued in getattr(pending, place))
        ]
        assert len(found) <= 1, found
        return found[0] if found else "nowhere"

    def attempts(self, result: str) -> int:
        """How many attempts the metrics have seen end in this way."""
        return int(self.engine.metrics.schedule_attempts.at(result, SCHEDULER).value)


def changed(pod: Pod, **changes: Any) -> Pod:
    """The pod with other fields, each put where it belongs."""
    replace = msgspec.structs.replace
    parts: dict[str, dict[str, Any]] = {"metadata": {}, "spec": {}, "status": {}}
    for field, value in changes.items():
        part = next(name for name in parts if field in type(getattr(pod, name)).__struct_fields__)
        parts[part][field] = value
    return Pod(
        metadata=replace(pod.metadata, **parts["metadata"]),
        spec=replace(pod.spec, **parts["spec"]),
        status=replace(pod.status, **parts["status"]) if parts["status"] else pod.status,
    )
