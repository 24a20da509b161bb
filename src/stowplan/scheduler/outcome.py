"""How a scheduling attempt ends: `Placement`, `Failure` or `Deferral`.

The engine returns them; the loop, the binder, the reporter and simulations read them.
"""

from __future__ import annotations

from dataclasses import dataclass

from stowplan.api.objects import Pod
from stowplan.framework.cycle import Cycle
from stowplan.framework.plugin import Effect, Eviction
from stowplan.framework.profile import Profile
from stowplan.framework.status import Status
from stowplan.framework.waiting import WaitingPod
from stowplan.queue.pod import QueuedPod
from stowplan.scheduler.decision import Decision


@dataclass(slots=True)
class Placement:
    """A pod on its way to a node."""

    queued: QueuedPod
    profile: Profile
    decision: Decision
    #: The pod as it will look when bound.
    pod: Pod
    node: str
    started: float
    #: Set while Permit plugins hold the pod.
    waiting: WaitingPod | None = None
    #: Another scheduler was quicker, and chose the same node.
    is_bound_by_other: bool = False
    #: The API server says that the pod is gone, or stands on another node: nothing is left to do.
    is_lost: bool = False

    @property
    def arguments(self) -> tuple[Cycle, Pod, str]:
        """What every binding point of a plugin is given."""
        return self.decision.cycle, self.pod, self.node


@dataclass(slots=True)
class Failure:
    """A failed attempt, to be reported by event and condition."""

    pod: Pod
    profile: str
    status: Status
    message: str
    #: None leaves the pod's nomination alone, "" clears it.
    nominated_node: str | None = ""
    #: False if the pod is gone or has a node, so that nothing is reported.
    is_pending: bool = True
    decision: Decision | None = None
    #: Pods to evict for this one; the caller evicts them.
    eviction: Eviction | None = None
    #: Requests that make room for this one otherwise; the caller sends them.
    effect: Effect | None = None

    @property
    def reason(self) -> str:
        """Reason of the PodScheduled condition."""
        return "Unschedulable" if self.status.is_rejected else "SchedulerError"


@dataclass(slots=True)
class Deferral:
    """An attempt that goes on later. The pod is active, and there is nothing to report."""

    pod: Pod
