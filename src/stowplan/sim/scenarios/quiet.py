"""Detect a quiet cluster: one in which nothing more happens without another write.

That is: no pod is about to be tried or bound, no pod is terminating, and the simulated kubelets and
controllers have nothing due. Unschedulable pods that no event has helped do not count as activity,
nor do running pods: a cluster with a job that ends in an hour is quiet now.
"""

from __future__ import annotations

from stowplan.errors import StowplanError
from stowplan.scheduler.process import SchedulerProcess
from stowplan.sim.scenarios.targets import Target

#: Attempts that keep failing for so long, while no object changes, will not succeed.
_BROKEN_AFTER_S = 15.0


class NeverQuiet(StowplanError):
    """The cluster did not become quiet in time."""


class Quiet:
    """Waits for a quiet cluster."""

    def __init__(
        self,
        target: Target,
        process: SchedulerProcess | None,
        *,
        calm_s: float,
        patience_s: float,
    ) -> None:
        self._target = target
        self._process = process
        self._calm_s = calm_s
        self._patience_s = patience_s
        #: A terminating pod, and the version of the pods when it was looked for.
        self._leaving: tuple[int, str] = (-1, "")

    async def settle(self) -> None:
        """Wait until the cluster has been quiet for `calm_s`.

        A pod that a plugin answers with an error status is retried for ever, and counts as
        unschedulable.
        """
        target = self._target
        began = calm_since = changed_at = target.clock.monotonic()
        broken = answered = 0
        seen: tuple[int, ...] = ()
        while True:
            await target.rest()
            activity = self.activity()
            now = target.clock.monotonic()
            versions = self._versions()
            if versions != seen:
                changed_at, broken, answered = now, *self._failures()
            if activity or versions != seen:
                calm_since, seen = now, versions
            if not activity and now - calm_since >= self._calm_s:
                return
            is_stuck = now - changed_at >= _BROKEN_AFTER_S and self._only_retries()
            failures, statuses = self._failures()
            if is_stuck and failures == broken and statuses - answered > 1:
                return
            if now - began > self._patience_s or (is_stuck and failures - broken > 1):
                raise NeverQuiet(self._why(activity, now - began))
            await target.pass_time()

    def _failures(self) -> tuple[int, int]:
        """How often plugins broke, and how often they answered with an error status."""
        if self._process is None:
            return 0, 0
        failures = self._process.engine.failures
        return failures.count, failures.statuses

    def _only_retries(self) -> bool:
        """Whether nothing is under way but further attempts."""
        process, pretend = self._process, self._target.pretend
        is_binding = process is not None and process.loop.binds_in_flight
        return not is_binding and not (pretend is not None and pretend.has_work)

    def _why(self, activity: str, waited_s: float) -> str:
        what = activity or "objects keep changing"
        failure = self._process.engine.failures.latest if self._process is not None else ""
        if failure:
            return f"{failure}; {what} after {waited_s:.0f} s"
        return f"the cluster did not become quiet within {self._patience_s:g} s: {what}"

    def activity(self) -> str:
        """What is going on, in words; "" if nothing is."""
        process = self._process
        if process is not None:
            counts = process.engine.queue.counts
            has_nodes = len(process.engine.cache.table) > 0
            for number, what in (
                (counts.active, "pods are about to be tried"),
                # Without any node, retries cannot succeed.
                (counts.backoff * has_nodes, "pods wait for their next attempt"),
                (process.loop.binds_in_flight, "pods are being bound, or wait for Permit"),
                (process.loop.evictions_in_flight, "preemptions are under way"),
                (process.reporter.unwritten, "conditions are being written"),
            ):
                if number:
                    return f"{number} {what}"
        pretend = self._target.pretend
        if pretend is not None and pretend.has_work:
            return "pods are starting or stopping, or volumes are being bound"
        # Last, because it looks at all pods.
        if process is not None and (leaving := self._terminating_pod(process)):
            return f"pod {leaving} has not left yet"
        return ""

    def _terminating_pod(self, process: SchedulerProcess) -> str:
        version = process.pods.resource_version
        if version != self._leaving[0] or not version:
            pods = process.pods.store.values()
            self._leaving = version, next((pod.key for pod in pods if pod.is_terminating), "")
        return self._leaving[1]

    def _versions(self) -> tuple[int, ...]:
        if self._process is None:
            return ()
        return tuple(each.resource_version for each in self._process.informers.values())
