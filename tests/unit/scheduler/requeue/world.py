"""A cluster on virtual time whose every change goes the way of an informer's callback.

The engine is the one that `stowplan run` builds: the whole default profile, and further plugins
where a test brings some. `happened` is what the queue was told since the last `watch`.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from random import Random
from typing import Any

from stowplan.api.objects import Node, Pod
from stowplan.api.resources import CATALOGED, Resource
from stowplan.clock import VirtualClock
from stowplan.config.load import parse_config
from stowplan.framework.plugin import Plugin
from stowplan.framework.registry import Registry
from stowplan.plugins.registry import IN_TREE
from stowplan.queue.events import ClusterEvent
from stowplan.queue.hints import Audience
from stowplan.queue.pod import QueuedPod
from stowplan.scheduler.assembly import build_engine
from stowplan.scheduler.event_handlers import EventHandlers
from stowplan.scheduler.outcome import Failure, Placement
from tests.unit.scheduler.engine_bench import changed
from tests.unit.scheduler.scheduler_kit import SCHEDULER

_KINDS: dict[type, Resource[Any]] = {resource.type: resource for resource in CATALOGED}
_CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {multiPoint: {enabled: [MORE]}}}]
"""
_PLACES = ("active", "backoff", "error_backoff", "unschedulable", "gated", "in_flight")


class World:
    def __init__(self, things: Iterable[Any] = (), *more: type[Plugin]) -> None:
        """A cluster of these things; `more` plugins come after the default ones."""
        self.clock = VirtualClock()
        self.pods: dict[str, Pod] = {}
        self._nodes: dict[str, Node] = {}
        self._versions = count(1)
        enabled = "".join(f"{{name: {plugin.name}}}, " for plugin in more)
        self.engine = build_engine(
            parse_config(_CONFIG.replace("MORE", enabled)),
            registry=Registry((*IN_TREE, *more)),
            clock=self.clock,
            rng=Random(1),
            lookup=lambda key: self.pods.get(key.partition("/")[2]),
        )
        self.handlers = EventHandlers(self.engine)
        self.queue = self.engine.queue
        self.handle = self.engine.handles[SCHEDULER]
        self.happened: list[ClusterEvent] = []
        self.watch()
        for thing in things:
            self.add(thing)

    def plugin(self, name: str) -> Plugin:
        return self.engine.profiles[SCHEDULER].plugins[name]

    def watch(self) -> None:
        """Take down every event that the queue looks up an audience for."""
        self.happened = []
        table = self.queue._hints
        look_up = type(table).audience

        def audience(event: ClusterEvent) -> Audience:
            self.happened.append(event)
            return look_up(table, event)

        table.audience = audience  # type: ignore[method-assign]  # one instance is watched

    # What happens in the cluster

    def add(self, thing: Any) -> None:
        if isinstance(thing, Node):
            self._nodes[thing.name] = thing
            self.handlers.add_node(thing)
        elif isinstance(thing, Pod):
            assert thing.metadata.name not in self.pods, "one name, one pod: rows speak of names"
            self.pods[thing.metadata.name] = thing
            self.handlers.add_pod(thing)
        else:
            self.handlers.set_object(_KINDS[type(thing)], thing)

    def replace(self, thing: Any) -> None:
        """A node or another object as it is now; pods change by `update`."""
        if isinstance(thing, Node):
            old, self._nodes[thing.name] = self._nodes[thing.name], thing
            self.handlers.update_node(old, thing)
        else:
            self.handlers.set_object(_KINDS[type(thing)], thing)

    def update(self, name: str, **fields: Any) -> None:
        """A pod with other fields of its metadata, spec or status."""
        old = self.pods[name]
        new = changed(old, resource_version=str(next(self._versions)), **fields)
        self.pods[name] = new
        self.handlers.update_pod(old, new)

    def remove(self, thing: Any) -> None:
        """A pod or node by its name, anything else as it is."""
        if isinstance(thing, str) and thing in self.pods:
            self.handlers.delete_pod(self.pods.pop(thing))
        elif isinstance(thing, str):
            self.handlers.delete_node(self._nodes.pop(thing))
        else:
            self.handlers.delete_object(_KINDS[type(thing)], thing)

    def node(self, name: str) -> Node:
        return self._nodes[name]

    # The scheduler

    def attempt_all(self) -> dict[str, Placement | Failure]:
        """Try pods until the queue has none, and the outcome of each one's last attempt."""
        outcomes: dict[str, Placement | Failure] = {}
        while (outcome := self.engine.attempt()) is not None:
            outcomes[outcome.pod.metadata.name] = outcome
            if isinstance(outcome, Placement):
                self.engine.bound(outcome)
            assert len(outcomes) < 1000
        return outcomes

    def queued(self, name: str) -> QueuedPod:
        found = self.queue.get(self.pods[name])
        assert found is not None, f"{name} is not in the queue"
        return found

    def where(self, name: str) -> str:
        """The one place of the queue that the pod is in, or "nowhere"."""
        pending = self.queue.pending()
        uid = self.pods[name].uid
        found = [
            place
            for place in _PLACES
            if any(queued.uid == uid for queued in getattr(pending, place))
        ]
        assert len(found) <= 1, found
        return found[0] if found else "nowhere"
