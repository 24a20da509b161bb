"""Pods that Permit is holding: assumed, reserved, not yet bound.

The binding cycle waits on a `WaitingPod`; plugins (and deletion, preemption, shutdown) end the
wait by allowing or rejecting it. No event loop here: the waiting caller registers `on_decided`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from stowplan.api.objects import Pod
from stowplan.config.durations import format_duration
from stowplan.framework.status import SUCCESS, Status, error, unschedulable

#: No plugin may hold a pod longer than this.
MAX_WAIT_S = 15 * 60.0


class WaitingPod:
    """One held pod and the plugins that have not allowed it yet."""

    def __init__(
        self, pod: Pod, node: str, deadlines: Mapping[str, float], *, started: float
    ) -> None:
        self.pod = pod
        self.node = node
        self.started = started
        #: Plugin name -> monotonic time at which its wait times out.
        self._deadlines = dict(deadlines)
        #: Seconds that each plugin lets it wait.
        self.timeouts = {plugin: deadline - started for plugin, deadline in deadlines.items()}
        self._status: Status | None = None
        self.on_decided: Callable[[], None] | None = None

    @property
    def status(self) -> Status | None:
        """How the wait ended; None while it goes on."""
        return self._status

    @property
    def pending_plugins(self) -> list[str]:
        return list(self._deadlines)

    @property
    def next_deadline(self) -> float:
        """The earliest time at which a plugin's wait times out."""
        return min(self._deadlines.values())

    def allow(self, plugin: str) -> None:
        """Allow the pod for one plugin; it is bound once all plugins have allowed it."""
        self._deadlines.pop(plugin, None)
        if not self._deadlines:
            self._decide(SUCCESS)

    def reject(self, plugin: str, message: str) -> None:
        """Refuse the pod; it is unreserved and queued again."""
        self._decide(unschedulable(message).by(plugin))

    def preempt(self, plugin: str, message: str) -> bool:
        """Send the pod back to the queue for a more important one; False if it is too late."""
        is_in_time = self._status is None
        self._decide(error(message).by(plugin))
        return is_in_time

    def expire(self, now: float) -> None:
        """Reject the pod if a plugin's time is up."""
        if not self._deadlines:
            return
        plugin, deadline = min(self._deadlines.items(), key=lambda item: item[1])
        if now >= deadline:
            waited = format_duration(deadline - self.started)
            self.reject(
                plugin, f"rejected due to timeout after waiting {waited} at plugin {plugin}"
            )

    def _decide(self, status: Status) -> None:
        if self._status is None:
            self._status = status
            if self.on_decided is not None:
                self.on_decided()


class WaitingPods:
    """All held pods, by UID."""

    def __init__(self) -> None:
        self._pods: dict[str, WaitingPod] = {}

    def add(self, waiting: WaitingPod) -> None:
        self._pods[waiting.pod.uid] = waiting

    def remove(self, uid: str) -> None:
        self._pods.pop(uid, None)

    def get(self, uid: str) -> WaitingPod | None:
        return self._pods.get(uid)

    def __iter__(self) -> Iterator[WaitingPod]:
        return iter(list(self._pods.values()))

    def __len__(self) -> int:
        return len(self._pods)
