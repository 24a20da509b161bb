"""The demo's record of each pod's history, and of all events as text.

Its inputs are the demo's own informer (so a placement counts when the API server reports it) and
the scheduler's outcomes, which have the scores. Nothing here does I/O; `on_happening` is called for
each event.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from stowplan.api.objects import Condition, Pod
from stowplan.clock import Clock
from stowplan.demo.cluster import STAYS_PENDING
from stowplan.scheduler.decision import Decision
from stowplan.scheduler.outcome import Failure, Placement

#: Placements in this many seconds make the rate.
RATE_WINDOW_S: Final = 10.0
_REMEMBERED: Final = 200


class NewsKind(Enum):
    """The kind of a happening."""

    PLACED = "placed"
    PENDING = "pending"
    FINISHED = "finished"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Happening:
    """One line for the reader; `at` is seconds since the demo began."""

    at: float
    kind: NewsKind
    text: str


@dataclass(slots=True, eq=False)
class Sighting:
    """A pod as last seen, and since when."""

    pod: Pod
    seen_at: float
    placed_at: float | None = None
    ended_at: float | None = None
    #: Where the decision stood: score and how many nodes fit.
    verdict: str = ""
    #: The PodScheduled condition's text, while the pod waits.
    reason: str = ""

    @property
    def is_waiting(self) -> bool:
        return not self.pod.spec.node_name and not self.pod.is_finished

    @property
    def stays_pending(self) -> str:
        """The reason why the pod is expected to stay pending; "" if it is not."""
        return (self.pod.metadata.annotations or {}).get(STAYS_PENDING, "")


class Chronicle:
    """Pods by UID, and the latest happenings."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began = clock.monotonic()
        self.pods: dict[str, Sighting] = {}
        self.happenings: deque[Happening] = deque(maxlen=_REMEMBERED)
        self.on_happening: Callable[[Happening], None] | None = None
        #: `namespace/name` of every pod that was seen on a node, also if it has gone since.
        self.ever_placed: set[str] = set()
        self.placed = 0
        self.finished = 0
        self._placed_at: deque[float] = deque()
        self._verdicts: dict[str, str] = {}

    @property
    def elapsed(self) -> float:
        return self._clock.monotonic() - self._began

    @property
    def rate(self) -> float:
        """Pods placed a second, lately."""
        now = self.elapsed
        while self._placed_at and self._placed_at[0] < now - RATE_WINDOW_S:
            self._placed_at.popleft()
        return len(self._placed_at) / min(max(now, 1.0), RATE_WINDOW_S)

    def waiting(self) -> list[Sighting]:
        """Pods without a node: first those that should have one, each kind oldest first."""
        found = [sighting for sighting in self.pods.values() if sighting.is_waiting]
        return sorted(found, key=lambda sighting: (bool(sighting.stays_pending), sighting.seen_at))

    def tell(self, kind: NewsKind, text: str) -> None:
        happening = Happening(self.elapsed, kind, text)
        self.happenings.append(happening)
        if self.on_happening is not None:
            self.on_happening(happening)

    # The scheduler's word

    def outcome(self, outcome: Placement | Failure) -> None:
        """Keep how a pod was decided until its binding is seen."""
        if isinstance(outcome, Placement):
            self._verdicts[outcome.pod.uid] = verdict(outcome.decision)
        else:
            self._verdicts.pop(outcome.pod.uid, None)

    # The API server's word

    def add(self, pod: Pod) -> None:
        self.pods[pod.uid] = Sighting(pod, self.elapsed)
        self._look(self.pods[pod.uid])

    def update(self, old: Pod, new: Pod) -> None:
        sighting = self.pods.get(new.uid)
        if sighting is None:  # deleted and recreated between two lists
            self.pods.pop(old.uid, None)
            self.add(new)
            return
        sighting.pod = new
        self._look(sighting)

    def delete(self, pod: Pod) -> None:
        sighting = self.pods.pop(pod.uid, None)
        self._verdicts.pop(pod.uid, None)
        if sighting is not None and sighting.ended_at is None:
            node = pod.spec.node_name
            self.tell(NewsKind.OTHER, f"deleted {pod.key}" + (f" from {node}" if node else ""))

    def _look(self, sighting: Sighting) -> None:
        pod = sighting.pod
        if pod.spec.node_name and sighting.placed_at is None:
            self._placed(sighting)
        elif sighting.is_waiting:
            self._waits(sighting)
        if pod.is_finished and sighting.ended_at is None:
            sighting.ended_at = self.elapsed
            self.finished += 1
            ran = sighting.ended_at - (sighting.placed_at or sighting.seen_at)
            self.tell(
                NewsKind.FINISHED, f"finished {pod.key} on {pod.spec.node_name} after {ran:.1f}s"
            )

    def _placed(self, sighting: Sighting) -> None:
        pod = sighting.pod
        sighting.placed_at = self.elapsed
        sighting.reason = ""
        sighting.verdict = self._verdicts.pop(pod.uid, "")
        self.ever_placed.add(pod.key)
        self.placed += 1
        self._placed_at.append(sighting.placed_at)
        why = f" ({sighting.verdict})" if sighting.verdict else ""
        self.tell(NewsKind.PLACED, f"placed {pod.key} on {pod.spec.node_name}{why}")

    def _waits(self, sighting: Sighting) -> None:
        condition = _scheduled_condition(sighting.pod)
        if condition is None or condition.message in ("", sighting.reason):
            return
        sighting.reason = condition.message
        expected = " (expected to stay pending)" if sighting.stays_pending else ""
        self.tell(NewsKind.PENDING, f"pending {sighting.pod.key}: {condition.message}{expected}")


def verdict(decision: Decision) -> str:
    """`score 187, 9 of 12 nodes fit`; kube-scheduler scores nothing where there is no choice."""
    if decision.feasible_nodes == 1:
        return f"the only one of {decision.evaluated_nodes} nodes that fits"
    fit = f"{decision.feasible_nodes} of {decision.evaluated_nodes} nodes fit"
    if decision.scores is None:
        return fit
    return f"score {decision.scores.top(1)[0].total}, {fit}"


def _scheduled_condition(pod: Pod) -> Condition | None:
    for condition in pod.status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition
    return None
