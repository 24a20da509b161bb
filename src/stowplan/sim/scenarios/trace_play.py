"""Play a trace on a scenario's cluster: objects first, then each event at its time, to the end.

What must stay true: time is the cluster's alone; on a virtual cluster the same trace and seed give
the same timeline.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from stowplan.errors import ConfigError, NotFound, StowplanError
from stowplan.sim.scenarios.cluster import Cluster, change_node
from stowplan.sim.scenarios.node_names import no_such_node
from stowplan.sim.scenarios.timeline import SKIPPED_ROWS, EntryKind
from stowplan.sim.scenarios.trace_objects import TraceObjects
from stowplan.sim.scenarios.trace_pods import TracePods
from stowplan.sim.traces.model import Arrival, Disruption, Event, Removal, Revision, Trace

#: Events between two reports of progress.
_STRIDE = 100
#: Shorter waits count as none: timers are not finer, and sums of floats are not exact.
_MOMENT_S = 1e-6
#: How long to wait for pods that have not ended when the last one was due.
_GRACE_S = 60.0
#: kube-controller-manager leaves so many finished pods in place, its terminated-pod-gc-threshold.
_FINISHED_KEPT = 12_500


@dataclass(frozen=True, slots=True)
class TraceProgress:
    """How far a trace has come."""

    #: Seconds since its beginning, in the cluster's time.
    at: float
    #: Pods that have arrived, of all that will.
    arrived: int
    pods: int
    #: Pods that have come to their own end.
    finished: int
    #: Pods that have come again after they were lost.
    replaced: int
    #: Pods among those that have arrived that end by themselves.
    ending: int = 0

    @property
    def share(self) -> float:
        """The part of the work that is done, 0 to 1: arrivals, and ends as often as so far."""
        if not self.arrived:
            return 0.0
        per_pod = 1 + self.ending / self.arrived
        return min((self.arrived + self.finished) / (max(self.pods, 1) * per_pod), 1.0)


async def play_trace(
    cluster: Cluster,
    trace: Trace,
    *,
    on_progress: Callable[[TraceProgress], None] | None = None,
    replaces_lost: bool = True,
    keeps_finished: int = _FINISHED_KEPT,
) -> TraceProgress:
    """Play until every event has happened and every bound pod with a duration has ended; a
    recording until it was stopped.

    Pods that do not fit are left pending. Of the finished pods only the latest `keeps_finished`
    stay in the cluster.
    """
    player = _Player(
        cluster, trace, on_progress, replaces_lost=replaces_lost, keeps_finished=keeps_finished
    )
    return await player.play()


class _Player:
    """One trace being played."""

    def __init__(
        self,
        cluster: Cluster,
        trace: Trace,
        on_progress: Callable[[TraceProgress], None] | None,
        *,
        replaces_lost: bool,
        keeps_finished: int,
    ) -> None:
        self._cluster = cluster
        self._trace = trace
        self._on_progress = on_progress
        self._objects = TraceObjects(cluster, skips_refused=trace.skips_refused)
        self._pods = TracePods(
            cluster,
            self._objects,
            replaces_lost=replaces_lost,
            keeps_finished=keeps_finished,
            on_change=self._pod_ended,
        )
        #: What `_wait` waits for; a plain future, because an asyncio.Event looks up the running
        #: loop each time it is waited for.
        self._loop = asyncio.get_running_loop()
        self._woken = self._loop.create_future()
        self._began = 0.0

    async def play(self) -> TraceProgress:
        cluster = self._cluster
        if broken := self._trace.reading.broken:
            cluster.recording.counts[SKIPPED_ROWS] += broken
        gaps = self._trace.reading.gaps
        cluster.recording.add_gaps(gaps)
        if self._trace.reading.left_out or broken or gaps:
            for line in self._trace.reading.summary().splitlines():
                cluster.say(line)
        if not self._trace.nodes and not await cluster.list("Node"):
            raise ConfigError("there is no node; give the trace `nodes`, or create some first")
        cluster.recording.pod_listeners.append(self._pods.hear)
        try:
            rejected = ""
            for manifest in self._trace.objects():
                if not await self._objects.accepts(manifest) and manifest["kind"] == "Node":
                    rejected = rejected or manifest["metadata"]["name"]
            if rejected and not await cluster.list("Node"):
                raise ConfigError(
                    f"the API server rejects every node, such as {rejected}; the warnings say why."
                    " Fix: correct the nodes"
                )
            # A pod must not be tried before the scheduler knows all of its cluster.
            await cluster.settle()
            await self._check_listed()
            self._began = cluster.now()
            for number, event in enumerate(self._trace.events()):
                await self._until(self._began + event.at)
                await self._happen(event)
                if number % _STRIDE == 0:
                    self._report()
            if self._trace.ends_at is None:
                await self._last_pods()
            else:
                await self._until(self._began + self._trace.ends_at)
                await cluster.settle()
        finally:
            cluster.recording.pod_listeners.remove(self._pods.hear)
        return self._report()

    async def _check_listed(self) -> None:
        """Refuse a disruption of a node that is not there: the experiment would be void."""
        if not self._trace.listed:
            return
        there = [node["metadata"]["name"] for node in await self._cluster.list("Node")]
        for each, where in self._trace.listed:
            if each.node not in there:
                raise ConfigError(_no_such_node(each, there), where=where)

    async def _until(self, due: float) -> None:
        """Let time pass; create pods that are lost meanwhile again at that moment. Then delete
        finished pods.
        """
        while (pause := due - self._cluster.now()) > _MOMENT_S:
            await self._wait(pause)
        await self._pods.collect()

    async def _wait(self, pause_s: float) -> None:
        """Wait for the end of the pause or a wake-up, and create lost pods again."""
        if not self._pods.lost:
            self._woken = self._loop.create_future()
            timer = self._loop.call_later(pause_s, self._wake)
            await self._woken
            timer.cancel()
        await self._pods.replace_lost()

    def _pod_ended(self, kind: EntryKind) -> None:
        if kind is EntryKind.FINISHED and self._pods.finished % _STRIDE == 0:
            self._report()
        if self._pods.lost or not self._pods.running:
            self._wake()

    def _wake(self) -> None:
        if not self._woken.done():
            self._woken.set_result(None)

    async def _last_pods(self) -> None:
        """Wait until no running pod will end; give up if pods are long overdue."""
        while True:
            while self._pods.running or self._pods.lost:
                if self._pods.lost:
                    await self._pods.replace_lost()
                    continue
                # Others may have begun since, and will end later.
                patience_s = self._pods.latest_end + _GRACE_S - self._cluster.now()
                if patience_s <= _MOMENT_S:
                    left = len(self._pods.running)
                    self._cluster.say(f"{left} pods still run that should have ended")
                    return
                await self._wait(patience_s)
                await self._pods.collect()
                self._report()
            await self._cluster.settle()
            if not self._pods.running and not self._pods.lost:
                return

    async def _happen(self, event: Event) -> None:
        match event:
            case Arrival(manifest={"kind": "Pod"}):
                await self._pods.arrive(event)
            case Revision(manifest={"kind": "Pod"}):
                await self._pods.revise(event.manifest)
            case Removal(kind="Pod"):
                await self._pods.remove(event)
            case Arrival():
                await self._objects.accepts(event.manifest)
            case Revision():
                await self._objects.revise(event.manifest)
            case Removal():
                await self._remove(event)
            case Disruption():
                await self._disrupt(event)

    async def _remove(self, event: Removal) -> None:
        """Remove an object; the pods of a node come again elsewhere."""
        if event.kind == "Node":
            with suppress(NotFound):
                await self._cluster.drain(event.name)
        await self._pods.claim_goes(event)
        await self._cluster.delete(event.kind, event.name, namespace=event.namespace)

    async def _disrupt(self, event: Disruption) -> None:
        try:
            await change_node(self._cluster, event.kind, event.node)
        except NotFound:
            there = [node["metadata"]["name"] for node in await self._cluster.list("Node")]
            raise StowplanError(_no_such_node(event, there)) from None

    def _report(self) -> TraceProgress:
        progress = TraceProgress(
            at=self._cluster.now() - self._began,
            arrived=self._pods.arrived,
            pods=self._trace.pods,
            finished=self._pods.finished,
            replaced=self._pods.replaced,
            ending=self._pods.ending,
        )
        if self._on_progress is not None:
            self._on_progress(progress)
        return progress


def _no_such_node(event: Disruption, there: Sequence[str]) -> str:
    return f"`{event.kind}`: {no_such_node(event.node, there, event.at)}"
