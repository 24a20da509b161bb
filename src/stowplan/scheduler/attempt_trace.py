"""The record of one traced attempt: extension points, requests to extenders, binding requests.

The engine, the binder and the client of extenders add to it while the attempt runs, from the times
that they measure for metrics. When the attempt has ended, a `Tracer` makes spans of the record
(`server.attempt_spans`). Without a tracer there are no records, and nothing here is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias

from stowplan.clock import Clock
from stowplan.framework.status import Code
from stowplan.queue.pod import QueuedPod
from stowplan.scheduler.decision import Decision

#: A binding can be retried for hours, and a decision be deferred often. What exceeds this number,
#: of points or of calls, is counted instead of kept.
MAX_STEPS: Final = 100

Attribute: TypeAlias = str | int | float


@dataclass(slots=True)
class Step:
    """A part of an attempt, in seconds of the scheduler's monotonic clock."""

    name: str
    began: float
    ended: float
    #: The label of the status with which it ended.
    status: str
    #: Why it failed; "" if it did not.
    problem: str = ""
    #: 0: the tracer chooses one.
    span_id: int = 0
    #: Set for HTTP requests.
    url: str = ""


@dataclass(slots=True, eq=False)
class AttemptTrace:
    """One attempt of a pod. It stays empty if it is not sampled, which `traceparent` says."""

    trace_id: int
    is_sampled: bool
    clock: Clock
    new_span_id: Callable[[], int]
    #: The tracer's own.
    root: Any
    #: What to add to a time of `clock`, in nanoseconds, for the time since 1970.
    epoch_ns: int
    points: list[Step] = field(default_factory=list)
    #: Of extenders, and of plugins that bind; each belongs to the point in which it was made.
    calls: list[Step] = field(default_factory=list)
    left_out: int = 0
    #: Of the whole attempt.
    attributes: dict[str, Attribute] = field(default_factory=dict)

    def decided(self, decision: Decision) -> None:
        """The decision is made; what follows can still fail."""
        self.attributes["scheduler.evaluated_nodes"] = decision.evaluated_nodes
        self.attributes["scheduler.feasible_nodes"] = decision.feasible_nodes
        if decision.node:
            self.attributes["k8s.node.name"] = decision.node
        if decision.nominated_node:
            self.attributes["scheduler.nominated_node"] = decision.nominated_node
        if decision.eviction is not None:
            self.attributes["scheduler.victims"] = len(decision.eviction.victims)

    def point(self, name: str, status: str, began: float, ended: float) -> None:
        """An extension point has run."""
        self._add(self.points, Step(name, began, ended, status))

    def plugin(self, name: str, status: str, began: float, ended: float) -> None:
        """A plugin has been called in the binding cycle, such as to send the binding."""
        self._add(self.calls, Step(name, began, ended, status))

    @contextmanager
    def request(self, verb: str, url: str) -> Iterator[str]:
        """The span of a request to an extender; yields the header `traceparent` for it."""
        span_id, began, problem = self.new_span_id(), self.clock.monotonic(), "cancelled"
        try:
            yield f"00-{self.trace_id:032x}-{span_id:016x}-{int(self.is_sampled):02x}"
            problem = ""
        except Exception as failure:
            problem = str(failure) or type(failure).__name__
            raise
        finally:
            status = Code.ERROR.label if problem else Code.SUCCESS.label
            now = self.clock.monotonic()
            step = Step(f"extender {verb}", began, now, status, problem, span_id, url)
            self._add(self.calls, step)

    def _add(self, steps: list[Step], step: Step) -> None:
        if not self.is_sampled:
            return
        if len(steps) < MAX_STEPS:
            steps.append(step)
        else:
            self.left_out += 1


class Tracer(Protocol):
    """Decides which attempts are traced, and exports them. It must not block."""

    def begin(self, queued: QueuedPod, started: float) -> AttemptTrace:
        """The record of a new attempt."""

    def end(self, trace: AttemptTrace, result: str, message: str) -> None:
        """The attempt is over: `result` is scheduled, unschedulable or error."""
