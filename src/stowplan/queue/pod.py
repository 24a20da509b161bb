"""A pod that waits, with everything the queue remembers of its attempts.

The scheduling cycle gets the `QueuedPod` from `SchedulingQueue.pop`, fills in the plugins that
rejected the pod and hands the same object back to `add_unschedulable`. While a pod is queued only
the queue changes it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from stowplan.api.objects import Pod


def pod_uid(pod: Pod) -> str:
    """What tells two pods of one name apart; a pod that has no UID is known by its name."""
    return pod.uid or pod.key


@dataclass(slots=True, eq=False)
class QueuedPod:
    """Times are seconds of the queue's monotonic clock."""

    pod: Pod
    timestamp: float  # when it was queued first, or came back from its last failed attempt
    sequence: int = 0  # tells apart pods that have the same timestamp: first come, first served
    attempts: int = 0
    initial_attempt_timestamp: float | None = None
    unschedulable_plugins: set[str] = field(default_factory=set)
    pending_plugins: set[str] = field(default_factory=set)
    unschedulable_count: int = 0
    consecutive_errors_count: int = 0
    gating_plugin: str = ""  # the PreEnqueue plugin that keeps it out, asked first next time
    gating_message: str = ""
    deferrals: int = 0  # how often the attempt that is under way was deferred
    deferred_work: int = 0  # what it has spent until then
    attempt_started: float = 0.0
    trace: Any = None  # the record of the attempt that is under way, if attempts are traced
    record: Any = None  # the ledger's entry of the attempt that is under way
    info: Any = None  # the pod as the scheduler has compiled it for its last failed attempt
    reason: tuple[str, str] = ("", "")  # a plugin's, of most nodes, at the last attempt on record
    is_flushed: bool = False  # moved last because no event had helped for too long
    backoff_expiration: float | None = None  # None: not computed since the last attempt
    key: str = field(init=False)
    uid: str = field(init=False)
    scheduler_name: str = field(init=False)

    def __post_init__(self) -> None:
        self.key = self.pod.key
        self.uid = pod_uid(self.pod)
        self.scheduler_name = self.pod.spec.scheduler_name

    @property
    def is_gated(self) -> bool:
        return bool(self.gating_plugin)

    @property
    def rejectors(self) -> set[str]:
        """Plugins to ask whether an event may help; empty after an error."""
        return self.unschedulable_plugins | self.pending_plugins

    def attempt_failed(self) -> bool:
        """Count a failed attempt. True: plugins rejected the pod; False: it was an error."""
        # The caller's sets may be shared with its record of the attempt; a gate adds to ours.
        self.unschedulable_plugins = set(self.unschedulable_plugins)
        self.pending_plugins = set(self.pending_plugins)
        is_rejected = bool(self.unschedulable_plugins or self.pending_plugins)
        if is_rejected:
            self.unschedulable_count += 1
            self.consecutive_errors_count = 0
        else:
            self.consecutive_errors_count += 1
        self.deferrals = self.deferred_work = 0
        self.is_flushed = False
        self.backoff_expiration = None
        return is_rejected

    def clear_rejectors(self) -> None:
        if self.unschedulable_plugins:
            self.unschedulable_plugins = set()
        if self.pending_plugins:
            self.pending_plugins = set()
        self.gating_plugin = ""
        self.gating_message = ""

    def replace_pod(self, pod: Pod) -> None:
        """The same pod as the API server knows it now."""
        self.pod = pod


class Place(StrEnum):
    """The places of the queue."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    IN_FLIGHT = "inFlight"


class Whereabouts(NamedTuple):
    """Where a pod waits; times are seconds of the queue's monotonic clock."""

    place: Place
    queued: QueuedPod
    #: It is not tried before, unless the queue is empty; None: it has no backoff.
    backoff_until: float | None
    #: It is tried then although no event has helped; None: it is next, or only an event helps.
    retry_by: float | None


class PendingCounts(NamedTuple):
    """How many pods are where; `backoff` includes those that back off after an error."""

    active: int
    backoff: int
    unschedulable: int
    gated: int
    in_flight: int


@dataclass(frozen=True, slots=True)
class PendingPods:
    """A listing for people and checks: it copies, so it is not for the hot path."""

    active: list[QueuedPod]
    backoff: list[QueuedPod]
    error_backoff: list[QueuedPod]
    unschedulable: list[QueuedPod]
    gated: list[QueuedPod]
    in_flight: list[QueuedPod]

    @property
    def counts(self) -> PendingCounts:
        return PendingCounts(
            len(self.active),
            len(self.backoff) + len(self.error_backoff),
            len(self.unschedulable),
            len(self.gated),
            len(self.in_flight),
        )
