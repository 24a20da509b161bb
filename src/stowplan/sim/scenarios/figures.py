"""Figures of a run: waiting times, utilisation and nodes in use, as sums over the cluster's time.

The recording reports every change of pods and nodes to a `Measurement`; `figures` are its result.
Memory grows with the pods that exist at a time; each bound pod leaves one number, and each moment
at which something changed one row of the `Course`.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from stowplan.api.objects import Node
from stowplan.api.quantity import milli_value, value
from stowplan.cluster.pod_info import Request

#: Columns of a course; shares are of what all nodes offer.
COURSE: Final = ("at", "placed", "waiting", "nodes_in_use", "nodes", "cpu", "memory")


@dataclass(frozen=True, slots=True)
class Spread:
    """A quantity over time: its mean, weighted by how long each value lasted, peak and end."""

    mean: float = 0.0
    peak: float = 0.0
    end: float = 0.0


@dataclass(frozen=True, slots=True)
class Waits:
    """Seconds from the creation of a pod to its binding."""

    #: Pods that were bound by the scheduler.
    pods: int = 0
    p50: float = 0.0
    p90: float = 0.0
    p99: float = 0.0
    longest: float = 0.0
    #: Pods that have no node at the end, and how long the oldest of them has waited.
    still: int = 0
    longest_still: float = 0.0


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of a run, from the first pod's creation to the end."""

    waits: Waits = field(default_factory=Waits)
    #: By resource that some pod requested: the requested share of what all nodes offer.
    utilisation: Mapping[str, Spread] = field(default_factory=dict)
    nodes_in_use: Spread = field(default_factory=Spread)
    #: The largest number of nodes at a time.
    nodes: int = 0
    course: Mapping[str, Sequence[float]] = field(default_factory=dict, repr=False)


class _OverTime:
    """The sum of a value over time, and its peak among values that lasted."""

    __slots__ = ("peak", "total")

    def __init__(self) -> None:
        self.total = 0.0
        self.peak = 0.0

    def lasted(self, value: float, seconds: float) -> None:
        self.total += value * seconds
        if value > self.peak:
            self.peak = value

    def spread(self, now: float, seconds: float) -> Spread:
        mean = self.total / seconds if seconds else now
        return Spread(mean, max(self.peak, now), now)


class Measurement:
    """Follows pods and nodes; the module's docstring explains it."""

    def __init__(self, now: Callable[[], float], *, keeps_course: bool = True) -> None:
        self._now = now
        #: The time of the latest event that was counted, and that of the first pod's creation.
        self.at = 0.0
        self._began: float | None = None
        self._keeps_course = keeps_course
        self._course = {name: array("d") for name in COURSE}
        self._waiting: dict[str, float] = {}
        self._waits = array("d")
        self._placed: dict[str, tuple[str, Request]] = {}
        self._held: Counter[str] = Counter()
        self._offers: dict[str, dict[str, int]] = {}
        self._used: Counter[str] = Counter()
        self._offered: Counter[str] = Counter()
        self._in_use = _OverTime()
        self._shares: dict[str, _OverTime] = {}
        self._most_nodes = 0

    # Changes

    def pod_created(self, key: str) -> None:
        self._advance()
        if self._began is None:
            self._began = self.at
        self._waiting[key] = self.at

    def pod_bound(self, key: str, node: str, amounts: Request, *, by_scheduler: bool) -> None:
        """A pod got a node, and holds amounts there; node "": one that is not counted."""
        self._advance()
        created = self._waiting.pop(key, self.at)
        if by_scheduler:
            self._waits.append(self.at - created)
        self._placed[key] = (node, amounts)
        if not node:
            return
        self._held[node] += 1
        for resource, amount in amounts:
            self._used[resource] += amount
            if resource not in self._shares:
                self._shares[resource] = _OverTime()

    def pod_resized(self, key: str, amounts: Request) -> None:
        """A bound pod holds other amounts."""
        node, before = self._placed.get(key, ("", ()))
        if not node or amounts == before:
            return
        self._advance()
        self._placed[key] = (node, amounts)
        for sign, held in ((-1, before), (1, amounts)):
            for resource, amount in held:
                self._used[resource] += sign * amount
                if resource not in self._shares:
                    self._shares[resource] = _OverTime()

    def pod_gone(self, key: str) -> None:
        self._advance()
        created = self._waiting.pop(key, None)
        if created is not None:  # deleted while it waited
            self._waits.append(self.at - created)
        node, amounts = self._placed.pop(key, ("", ()))
        if not node:
            return
        for resource, amount in amounts:
            self._used[resource] -= amount
        self._held[node] -= 1
        if not self._held[node]:
            del self._held[node]

    def node_seen(self, node: Node) -> None:
        """A node was created, or changed."""
        offers = {
            name: milli_value(amount) if name == "cpu" else value(amount)
            for name, amount in (node.status.allocatable or {}).items()
        }
        if self._offers.get(node.name) == offers:
            return
        self._advance()
        self._offered.subtract(self._offers.pop(node.name, {}))
        self._offers[node.name] = offers
        self._offered.update(offers)
        self._most_nodes = max(self._most_nodes, len(self._offers))

    def node_gone(self, name: str) -> None:
        self._advance()
        self._offered.subtract(self._offers.pop(name, {}))

    # Results

    def figures(self) -> Figures:
        """The figures up to now."""
        self._advance()
        if self._keeps_course:
            self._note()
        seconds = self.at - (self.at if self._began is None else self._began)
        return Figures(
            self._waited(),
            {
                name: share.spread(self._share(name), seconds)
                for name, share in sorted(self._shares.items())
                if name != "pods" and self._offered[name]
            },
            self._in_use.spread(len(self._held), seconds),
            self._most_nodes,
            self._course,
        )

    def _waited(self) -> Waits:
        still = len(self._waiting)
        oldest = self.at - min(self._waiting.values()) if still else 0.0
        waits = sorted(self._waits)
        if not waits:
            return Waits(still=still, longest_still=oldest)
        p50, p90, p99 = (percentile(waits, share) for share in (50, 90, 99))
        return Waits(len(waits), p50, p90, p99, waits[-1], still, oldest)

    def _share(self, resource: str) -> float:
        offered = self._offered[resource]
        return self._used[resource] / offered if offered else 0.0

    def _advance(self) -> None:
        """Count the present state for the time that it has lasted."""
        now = self._now()
        seconds = now - self.at
        if seconds <= 0:
            return
        if self._keeps_course:
            self._note()
        if self._began is not None:
            self._in_use.lasted(len(self._held), seconds)
            used, offered = self._used, self._offered
            for name, share in self._shares.items():
                there = offered[name]
                share.lasted(used[name] / there if there else 0.0, seconds)
        self.at = now

    def _note(self) -> None:
        row = (
            self.at,
            len(self._placed),
            len(self._waiting),
            len(self._held),
            len(self._offers),
            self._share("cpu"),
            self._share("memory"),
        )
        for name, number in zip(COURSE, row, strict=True):
            self._course[name].append(number)


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The nearest-rank percentile of sorted numbers."""
    rank = -(-len(ordered) * percent // 100)
    return ordered[max(int(rank), 1) - 1]
