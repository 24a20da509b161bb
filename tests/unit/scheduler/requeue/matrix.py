"""What a row of the requeue matrix says, and the few words that rows are written in.

A row is a cluster, pods that wait in it because one plugin rejected them, a change that amounts
to exactly one registered event, and which of the pods come back. A pod that comes back finds a
place then (`placed`) or is rejected once more (`tried`); all others stay where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

import msgspec

from stowplan.api.objects import Node, Pod, Taint
from stowplan.queue.events import ActionType, ClusterEvent, EventHint
from tests.unit.scheduler.requeue.world import World


class Changeable(Protocol):
    """What a row's change is played on: a `World`, or a real cluster."""

    def watch(self) -> None: ...

    def add(self, thing: Any) -> None: ...

    def replace(self, thing: Any) -> None: ...

    def update(self, name: str, **fields: Any) -> None: ...

    def remove(self, thing: Any) -> None: ...

    def node(self, name: str) -> Node: ...


Change: TypeAlias = Callable[[Changeable], None]
Arrival: TypeAlias = Callable[[World, Pod], None]


def tried_in_vain(world: World, pod: Pod) -> None:
    """How a pod comes to wait, as a rule: it is created and rejected."""
    world.add(pod)
    world.attempt_all()


class Pair(NamedTuple):
    """A plugin and one thing that it wants to hear of."""

    plugin: str
    resource: str
    action: ActionType

    def __str__(self) -> str:
        return f"{self.plugin}-{self.resource}-{self.action.name}"

    @property
    def event(self) -> ClusterEvent:
        return ClusterEvent(self.resource, self.action)


@dataclass(frozen=True)
class Row:
    pair: Pair
    what: str
    cluster: tuple[Any, ...]
    waiting: tuple[Pod, ...]
    change: Change
    placed: tuple[str, ...] = ()
    tried: tuple[str, ...] = ()
    arrives: Arrival = tried_in_vain

    def __str__(self) -> str:
        return f"{self.pair}-{self.what.replace(' ', '_')}"

    @property
    def back(self) -> set[str]:
        return {*self.placed, *self.tried}

    @property
    def stay(self) -> set[str]:
        return {pod.metadata.name for pod in self.waiting} - self.back


def pairs_of(plugin: str, registered: Iterable[EventHint]) -> set[Pair]:
    """Registrations one action at a time; `Update` of a kind that has no finer ones is one."""
    found: set[Pair] = set()
    for entry in registered:
        left = entry.event.action
        if left & ActionType.UPDATE == ActionType.UPDATE:
            found.add(Pair(plugin, entry.event.resource, ActionType.UPDATE))
            left &= ~ActionType.UPDATE
        found |= {Pair(plugin, entry.event.resource, bit) for bit in left}
    return found


# What may change


def comes(thing: Any) -> Change:
    return lambda world: world.add(thing)


def goes(thing: Any) -> Change:
    return lambda world: world.remove(thing)


def becomes(thing: Any) -> Change:
    """A node or another object, but not a pod, looks like this now."""
    return lambda world: world.replace(thing)


def updates(name: str, **fields: Any) -> Change:
    """A pod has these fields now."""
    return lambda world: world.update(name, **fields)


def gets_soft_taint(name: str) -> Change:
    """A node gets a taint that keeps no pod away."""

    def change(world: Changeable) -> None:
        old = world.node(name)
        taints = (*(old.spec.taints or ()), Taint(key="soft", effect="PreferNoSchedule"))
        spec = msgspec.structs.replace(old.spec, taints=taints)
        world.replace(msgspec.structs.replace(old, spec=spec))

    return change
