"""`Algorithm`: what a user writes to have a say in kube-scheduler's decisions.

    class Odd(Algorithm):
        def filter(self, extender_args: ExtenderArgs) -> ExtenderFilterResult:
            odd = [name for name in extender_args.NodeNames if name[-1] in "13579"]
            return ExtenderFilterResult(NodeNames=odd)

        def prioritize(self, extender_args: ExtenderArgs) -> list[HostPriority]:
            return [HostPriority(name, 5) for name in extender_args.NodeNames]

The two methods are the WCA scheduler's; the others have answers that change nothing. `service`
calls them. An algorithm that raises fails the request, not the process.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable
from typing import TYPE_CHECKING, ClassVar

from stowplan.api.extender_protocol import (
    ExtenderArgs,
    ExtenderBindingArgs,
    ExtenderBindingResult,
    ExtenderFilterResult,
    ExtenderPreemptionArgs,
    ExtenderPreemptionResult,
    HostPriority,
)

if TYPE_CHECKING:
    from stowplan.extender.metrics import MetricRegistry


class Algorithm(ABC):
    """Answers kube-scheduler's questions about one pod at a time."""

    #: True for an algorithm that waits for something (a file, a request): it is called in a thread
    #: of its own, so that others are answered meanwhile, and may be called twice at a time.
    runs_in_thread: ClassVar[bool] = False

    @abstractmethod
    def filter(self, extender_args: ExtenderArgs) -> ExtenderFilterResult:
        """Which of the nodes may have the pod."""

    @abstractmethod
    def prioritize(self, extender_args: ExtenderArgs) -> list[HostPriority]:
        """How well each node suits the pod; what is beyond 0 to 10 is cut off on the wire."""

    def preempt(self, extender_args: ExtenderPreemptionArgs) -> ExtenderPreemptionResult:
        """Which nodes remain candidates for preemption, and whose pods go: all, as they are."""
        return ExtenderPreemptionResult(extender_args.NodeNameToMetaVictims)

    def bind(
        self, extender_args: ExtenderBindingArgs
    ) -> ExtenderBindingResult | Awaitable[ExtenderBindingResult]:
        """Bind the pod; asked only where kube-scheduler's configuration has a bindVerb."""
        return ExtenderBindingResult(
            f"{type(self).__name__} does not bind pods: remove bindVerb from the extender's entry "
            "in kube-scheduler's configuration"
        )

    def reschedule(self) -> list[str]:
        """The names of pods that would be better off elsewhere."""
        return []

    def get_metrics_registry(self) -> MetricRegistry | None:
        """What /metrics shows beside the service's own."""
        return None
