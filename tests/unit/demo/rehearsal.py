"""Plays an opening on the real engine in virtual time: no API server, no waiting."""

from __future__ import annotations

import heapq
from itertools import count
from random import Random
from typing import TypeVar

import msgspec

from stowplan.api.objects import Node, Pod
from stowplan.clock import VirtualClock
from stowplan.config.load import default_config
from stowplan.demo.cluster import PodPlan
from stowplan.demo.story import CreatePod, OpenGate, Story
from stowplan.plugins.registry import in_tree_registry
from stowplan.scheduler.assembly import build_engine
from stowplan.scheduler.engine import Engine
from stowplan.scheduler.event_handlers import EventHandlers
from stowplan.scheduler.outcome import Placement

T = TypeVar("T")
_START_S = 0.5


def new_engine(clock: VirtualClock | None = None) -> Engine:
    return build_engine(
        default_config(), registry=in_tree_registry(), clock=clock or VirtualClock(), rng=Random(1)
    )


def node_from(manifest: dict[str, object]) -> Node:
    return _decoded(manifest, Node)


def pod_from(plan: PodPlan) -> Pod:
    """The pod as the API server would hand it out: with a UID, a scheduler, a priority."""
    manifest = plan.manifest()
    manifest["metadata"]["uid"] = f"uid-{plan.name}"
    manifest["spec"]["schedulerName"] = "default-scheduler"
    manifest["spec"]["priority"] = 100_000 if plan.is_critical else 0
    manifest["status"] = {"phase": "Pending"}
    return _decoded(manifest, Pod)


def _decoded(manifest: dict[str, object], kind: type[T]) -> T:
    return msgspec.json.decode(msgspec.json.encode(manifest), type=kind)


class Rehearsal:
    """`left` and `placements` tell how it went."""

    def __init__(self, story: Story) -> None:
        self.clock = VirtualClock()
        self.engine = new_engine(self.clock)
        self.placements: dict[str, str] = {}
        self.waited: set[str] = set()
        self._handlers = EventHandlers(self.engine)
        self._story = story
        self._order = count()
        self._due: list[tuple[float, int, CreatePod | OpenGate | Pod]] = []
        self._plans: dict[str, PodPlan] = {}
        self._pods: dict[str, Pod] = {}

    @property
    def left(self) -> set[str]:
        """Pods that have no node."""
        return set(self._plans) - set(self.placements)

    def play(self) -> None:
        began = self.clock.monotonic()
        for node in self._story.nodes:
            self._handlers.add_node(node_from(node.manifest()))
        for step in self._story.opening:
            assert isinstance(step, CreatePod | OpenGate)
            self._push(began + step.at, step)
        while self._due:
            at, _, what = heapq.heappop(self._due)
            self.clock.advance(max(0.0, at - self.clock.monotonic()))
            if isinstance(what, CreatePod):
                self._create(what.pod)
            elif isinstance(what, OpenGate):
                self._open(what.name)
            else:
                self._handlers.delete_pod(what)
            self._schedule()

    def _push(self, at: float, what: CreatePod | OpenGate | Pod) -> None:
        heapq.heappush(self._due, (at, next(self._order), what))

    def _create(self, plan: PodPlan) -> None:
        self._plans[plan.name] = plan
        self._pods[plan.name] = pod_from(plan)
        self._handlers.add_pod(self._pods[plan.name])

    def _open(self, name: str) -> None:
        old = self._pods[name]
        spec = msgspec.structs.replace(old.spec, scheduling_gates=None)
        self._pods[name] = msgspec.structs.replace(old, spec=spec)
        self._handlers.update_pod(old, self._pods[name])

    def _schedule(self) -> None:
        while (outcome := self.engine.attempt()) is not None:
            name = outcome.pod.metadata.name
            if not isinstance(outcome, Placement):
                self.waited.add(name)
                continue
            self.engine.permitted(outcome)
            self.engine.bound(outcome)
            self._handlers.update_pod(self._pods[name], outcome.pod)
            self.placements[name] = outcome.node
            run_s = self._plans[name].run_s
            if run_s is not None:
                self._push(self.clock.monotonic() + _START_S + run_s, outcome.pod)
