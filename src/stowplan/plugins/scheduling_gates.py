"""SchedulingGates: a pod with gates does not enter the queue."""

from __future__ import annotations

from collections.abc import Sequence

from stowplan.api.objects import Pod
from stowplan.framework.plugin import Plugin
from stowplan.framework.status import Status, unresolvable
from stowplan.queue.events import ActionType, ClusterEvent, EventHint
from stowplan.queue.topics import OWN_POD


class SchedulingGates(Plugin):
    name = "SchedulingGates"

    def pre_enqueue(self, pod: Pod) -> Status | None:
        gates = pod.spec.scheduling_gates
        if not gates:
            return None
        names = " ".join(gate.name for gate in gates)
        return unresolvable(f"waiting for scheduling gates: [{names}]")

    def events(self) -> Sequence[EventHint]:
        eliminated = ClusterEvent("Pod", ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
        return (EventHint(eliminated, topics=OWN_POD),)
