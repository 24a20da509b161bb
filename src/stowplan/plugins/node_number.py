"""NodeNumber: likes nodes whose last digit is the pod's, and makes them wait for it.

The sample plugin of the mini-kube-scheduler: PreScore notes the last digit of the pod's name,
Score gives 10 to nodes with the same digit, Permit holds the pod for as many seconds as the
node's digit says. A name without a digit scores 0 everywhere and is not held.
"""

from __future__ import annotations

from collections.abc import Sequence

from stowplan.api.objects import Pod
from stowplan.cluster.views import NodeView
from stowplan.framework.cycle import Cycle
from stowplan.framework.plugin import Plugin
from stowplan.framework.status import SUCCESS, Status, wait
from stowplan.queue.events import ActionType, ClusterEvent, EventHint

_NOTE = "PreScoreNodeNumber"
_MATCH_SCORE = 10
_TIMEOUT_S = 10.0


class NodeNumber(Plugin):
    name = "NodeNumber"

    def pre_score(self, cycle: Cycle, rows: object) -> None:
        cycle.write(_NOTE, _last_digit(cycle.pod.metadata.name))

    def score(self, pod: Pod, node: NodeView, cycle: Cycle) -> int:
        digit = cycle.read(_NOTE)
        return _MATCH_SCORE if digit is not None and digit == _last_digit(node.name) else 0

    def permit(self, cycle: Cycle, pod: Pod, node: str) -> tuple[Status, float]:
        """Hold the pod for as many seconds as the node's digit says."""
        delay = _last_digit(node)
        if not delay:
            return SUCCESS, 0.0
        self.handle.call_later(float(delay), lambda: self._allow(pod.uid))
        return wait(), _TIMEOUT_S

    def _allow(self, uid: str) -> None:
        waiting = self.handle.waiting.get(uid)
        if waiting is not None:
            waiting.allow(self.name)

    def events(self) -> Sequence[EventHint]:
        return (EventHint(ClusterEvent("Node", ActionType.ADD)),)


def _last_digit(name: str) -> int | None:
    return int(name[-1]) if name and name[-1] in "0123456789" else None
