"""Play a trace on a scenario's cluster: objects first, then each event at its time, to the end.

In the recorded or generated cluster a controller replaced each lost pod. So pods that are
preempted, drained or lost with their node come back here, under a new name and with their whole
duration. What must stay true: time is the cluster's alone; a pod costs a name and a reference while
it lives, and nothing afterwards; on a virtual cluster the same trace and seed give the same
timeline.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus

from stowplan.api.resources import PODS
from stowplan.errors import AlreadyExists, ApiError, ConfigError, NotFound, StowplanError
from stowplan.loader.json_text import load_json
from stowplan.logs import get_logger, kv
from stowplan.sim.scenarios.cluster import Cluster, change_node
from stowplan.sim.scenarios.node_names import no_such_node
from stowplan.sim.scenarios.timeline import SKIPPED_ROWS, EntryKind
from stowplan.sim.traces.model import Arrival, Disruption, Event, Json, Removal, Revision, Trace
from stowplan.sim.traces.pod_changes import changeable, changed, resized
from stowplan.workloads.kinds import find_resource

log = get_logger(__name__)

#: Events between two reports of progress.
_STRIDE = 100
#: Shorter waits count as none: timers are not finer, and sums of floats are not exact.
_MOMENT_S = 1e-6
#: How long to wait for pods that have not ended when the last one was due.
_GRACE_S = 60.0
#: kube-controller-manager leaves so many finished pods in place, its terminated-pod-gc-threshold.
_FINISHED_KEPT = 12_500
#: Answers of the API server to an object that is not valid, or is there already.
_REFUSALS = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.NOT_FOUND,
    HTTPStatus.CONFLICT,
    HTTPStatus.UNPROCESSABLE_ENTITY,
)
#: Replacements of lost pods keep so much of the name.
_KEPT_NAME = 240
#: Objects that may be there already, from another trace or the scenario itself.
_MAY_EXIST = ("Namespace", "PriorityClass", "StorageClass")


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


@dataclass(slots=True)
class _Living:
    """A pod of the trace that is in the cluster."""

    arrival: Arrival
    name: str
    lives: int = 0


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
        self._replaces_lost = replaces_lost
        self._keeps_finished = keeps_finished
        #: Keys of finished pods, in the order of their ends.
        self._ended: dict[str, None] = {}
        self._living: dict[str, _Living] = {}
        #: Keys of pods that the trace has removed, until their deletion is heard. Another pod may
        #: have the name by then.
        self._leaving: set[str] = set()
        #: Keys of pods that run for some time and then end.
        self._running: set[str] = set()
        self._latest_end = 0.0
        self._lost: list[_Living] = []
        #: Keys of pods that have come again, by the key at first.
        self._renamed: dict[str, str] = {}
        #: What `_wait` waits for; a plain future, because an asyncio.Event looks up the running
        #: loop each time it is waited for.
        self._loop = asyncio.get_running_loop()
        self._woken = self._loop.create_future()
        self._began = 0.0
        self._arrived = self._finished = self._replaced = self._ending = 0

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
        cluster.recording.pod_listeners.append(self._hear)
        try:
            for manifest in self._trace.objects():
                await self._is_accepted(manifest)
            # A pod must not be tried before the scheduler knows all of its cluster.
            await cluster.settle()
            await self._check_listed()
            self._began = cluster.now()
            for number, event in enumerate(self._trace.events()):
                await self._until(self._began + event.at)
                await self._happen(event)
                await self._collect()
                if number % _STRIDE == 0:
                    self._report()
            if self._trace.ends_at is None:
                await self._last_pods()
            else:
                await self._until(self._began + self._trace.ends_at)
                await cluster.settle()
        finally:
            cluster.recording.pod_listeners.remove(self._hear)
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
        """Let time pass; create pods that are lost meanwhile again at that moment."""
        while (pause := due - self._cluster.now()) > _MOMENT_S:
            await self._wait(pause)

    async def _wait(self, pause_s: float) -> None:
        """Wait for the end of the pause or a wake-up, and create lost pods again."""
        if not self._lost:
            self._woken = self._loop.create_future()
            timer = self._loop.call_later(pause_s, self._wake)
            await self._woken
            timer.cancel()
        while self._lost:
            await self._again(self._lost.pop(0))

    def _wake(self) -> None:
        if not self._woken.done():
            self._woken.set_result(None)

    async def _last_pods(self) -> None:
        """Wait until no running pod will end; give up if pods are long overdue."""
        while True:
            while self._running or self._lost:
                # Others may have begun since, and will end later.
                patience_s = self._latest_end + _GRACE_S - self._cluster.now()
                if patience_s <= _MOMENT_S:
                    left = len(self._running)
                    self._cluster.say(f"{left} pods still run that should have ended")
                    return
                await self._wait(patience_s)
                await self._collect()
                self._report()
            await self._cluster.settle()
            if not self._running and not self._lost:
                return

    async def _happen(self, event: Event) -> None:
        match event:
            case Arrival():
                await self._arrive(event)
            case Removal():
                await self._remove(event)
            case Revision():
                await self._revise(event.manifest)
            case Disruption():
                await self._disrupt(event)

    async def _remove(self, event: Removal) -> None:
        """Remove an object with its dependents: a node's pods, or the replacement of a lost pod."""
        if event.kind == "Pod":
            await self._remove_pod(f"{self._cluster.place(event.namespace)}/{event.name}")
            return
        if event.kind == "Node":
            with suppress(NotFound):
                await self._cluster.drain(event.name)
        await self._cluster.delete(event.kind, event.name, namespace=event.namespace)

    async def _remove_pod(self, first_key: str) -> None:
        """Remove a pod at once: its grace period was over when its deletion was recorded."""
        self._lost = [each for each in self._lost if self._first_key(each) != first_key]
        key, living = self._present(first_key)
        self._renamed.pop(first_key, None)
        namespace, name = key.split("/")
        if living is not None:
            del self._living[key]
            self._leaving.add(key)
            self._running.discard(key)
            self._cluster.recording.deleted_on_purpose.add(key)
        elif key in self._ended:
            del self._ended[key]
        else:
            return
        await self._delete_pod(namespace, name)

    def _present(self, first_key: str) -> tuple[str, _Living | None]:
        """The key of a pod now, and the pod itself if it is in the cluster."""
        key = self._renamed.get(first_key, first_key)
        living = self._living.get(key)
        if living is not None and self._first_key(living) != first_key:
            living = None  # the replacement of another pod has its name
        return key, living

    async def _arrive(self, event: Arrival) -> None:
        kind, metadata = event.manifest["kind"], event.manifest["metadata"]
        key = self._key(metadata)
        if kind == "Pod":
            self._living[key] = _Living(event, metadata["name"])
        if not await self._is_accepted(event.manifest):
            self._living.pop(key, None)
            return
        if kind != "Pod":
            return
        self._arrived += 1
        self._ending += event.run_s is not None

    async def _is_accepted(self, manifest: Json) -> bool:
        """Create the object; False if the API server refuses it, and the trace allows that."""
        try:
            await self._create(manifest)
        except ApiError as problem:
            if not self._trace.skips_refused or problem.status not in _REFUSALS:
                raise
            self._cluster.recording.counts[SKIPPED_ROWS] += 1
            name = f"{manifest['kind']} {manifest['metadata']['name']}"
            self._cluster.warn(f"{name} is left out: {problem}")
            return False
        return True

    async def _again(self, lost: _Living) -> None:
        manifest = lost.arrival.manifest
        spec = {key: value for key, value in manifest["spec"].items() if key != "nodeName"}
        self._replaced += 1
        while True:
            lost.lives += 1
            name = f"{lost.name[:_KEPT_NAME]}-r{lost.lives}"
            metadata = {**manifest["metadata"], "name": name}
            key = self._key(metadata)
            if key not in self._living:
                self._living[key] = lost
                self._renamed[self._first_key(lost)] = key
                try:
                    await self._create({**manifest, "metadata": metadata, "spec": spec})
                    return
                except AlreadyExists:  # the trace has pods of such names, too
                    del self._living[key]

    def _key(self, metadata: Json) -> str:
        return f"{self._cluster.place(metadata.get('namespace', ''))}/{metadata['name']}"

    def _first_key(self, living: _Living) -> str:
        return self._key(living.arrival.manifest["metadata"])

    async def _create(self, manifest: Json) -> None:
        if manifest["kind"] == "PersistentVolume":
            manifest = await self._linked(manifest)
        try:
            # Many may come at the same moment: what follows from that begins when all are there.
            await self._cluster.create(manifest, rests=False)
        except AlreadyExists:
            if manifest["kind"] not in _MAY_EXIST:
                raise

    async def _collect(self) -> None:
        """Delete the oldest finished pods, as the controller of real clusters does."""
        while len(self._ended) > self._keeps_finished:
            key = next(iter(self._ended))
            del self._ended[key]
            await self._delete_pod(*key.split("/"))

    async def _delete_pod(self, namespace: str, name: str) -> None:
        """Delete a pod without a grace period; it may be gone."""
        pretend = self._cluster.target.pretend
        if pretend is not None:
            pretend.remove_pod(namespace, name)
            return
        with suppress(NotFound):
            await self._cluster.client.delete(PODS, name, namespace=namespace, grace_period_s=0)

    async def _linked(self, volume: Json) -> Json:
        """The volume with the UID that its claim has in this cluster."""
        claim = volume["spec"].get("claimRef")
        if not claim or claim.get("uid"):
            return volume
        try:
            found = await self._cluster.get(
                "PersistentVolumeClaim", claim["name"], namespace=claim.get("namespace", "")
            )
        except NotFound:
            return volume
        linked = {**claim, "uid": found["metadata"]["uid"]}
        return {**volume, "spec": {**volume["spec"], "claimRef": linked}}

    async def _revise(self, manifest: Json) -> None:
        """Update an object to its new manifest; the API server may refuse."""
        if manifest["kind"] == "Pod":
            await self._revise_pod(manifest)
            return
        resource = find_resource(manifest["apiVersion"], manifest["kind"])
        assert resource is not None, "readers of traces leave out what is not known"
        name, namespace = manifest["metadata"]["name"], manifest["metadata"].get("namespace", "")
        place = self._cluster.place(namespace) if resource.namespaced else ""
        replace = partial(self._cluster.client.replace, resource, name, namespace=place)
        try:
            there = await self._cluster.get(manifest["kind"], name, namespace=place)
            # No resourceVersion: overwrite concurrent changes.
            metadata = {**there["metadata"], **_own(manifest["metadata"])}
            del metadata["resourceVersion"]
            body = {**there, **manifest, "metadata": metadata}
            await replace(body)
            if "status" in manifest:
                await replace(body, subresource="status")
        except ApiError as problem:
            what = f"{manifest['kind']} {name}"
            log.info("Recorded change was refused", extra=kv(object=what, err=str(problem)))

    async def _revise_pod(self, changes: Json) -> None:
        """Change a pod, and what comes again if it is lost; the API server may refuse."""
        changes = changeable(changes)
        first_key = self._key(changes["metadata"])
        key, living = self._present(first_key)
        lost = (each for each in self._lost if self._first_key(each) == first_key)
        known = living or next(lost, None)
        if known is None:
            return
        manifest = known.arrival.manifest
        before = changeable(manifest)
        manifest = resized(changed(manifest, before, changes), before, changes)
        known.arrival = replace(known.arrival, manifest=manifest)
        if living is None:
            return
        namespace, name = key.split("/")
        put = partial(self._cluster.client.replace, PODS, name, namespace=namespace)
        try:
            path = PODS.path(namespace=namespace, name=name)
            there = load_json(await self._cluster.client.request("GET", path))
            del there["metadata"]["resourceVersion"]  # overwrite concurrent changes
            body = changed(there, before, changes)
            if body != there:
                await put(body)
            if (larger := resized(body, before, changes)) != body:
                await put(larger, subresource="resize")
        except ApiError as problem:
            log.info("Recorded change was refused", extra=kv(object=f"Pod {key}", err=str(problem)))

    async def _disrupt(self, event: Disruption) -> None:
        try:
            await change_node(self._cluster, event.kind, event.node)
        except NotFound:
            there = [node["metadata"]["name"] for node in await self._cluster.list("Node")]
            raise StowplanError(_no_such_node(event, there)) from None

    def _hear(self, kind: EntryKind, key: str, at: float) -> None:
        """Handle a pod's event: bound, finished or lost."""
        if key in self._leaving:
            if kind is not EntryKind.BOUND:
                self._leaving.remove(key)
            return
        living = self._living.get(key)
        if kind is EntryKind.BOUND:
            if living is not None and living.arrival.run_s is not None:
                self._running.add(key)
                self._latest_end = max(self._latest_end, at + living.arrival.run_s)
            return
        self._running.discard(key)
        if living is not None:
            del self._living[key]
            if kind is EntryKind.FINISHED:
                if self._renamed:
                    self._renamed.pop(self._first_key(living), None)
                self._finished += 1
                if self._finished % _STRIDE == 0:
                    self._report()
                self._ended[key] = None
            elif self._replaces_lost:
                self._lost.append(living)
        if self._lost or not self._running:
            self._wake()

    def _report(self) -> TraceProgress:
        progress = TraceProgress(
            at=self._cluster.now() - self._began,
            arrived=self._arrived,
            pods=self._trace.pods,
            finished=self._finished,
            replaced=self._replaced,
            ending=self._ending,
        )
        if self._on_progress is not None:
            self._on_progress(progress)
        return progress


def _no_such_node(event: Disruption, there: Sequence[str]) -> str:
    return f"`{event.kind}`: {no_such_node(event.node, there, event.at)}"


def _own(metadata: Json) -> Json:
    return {key: metadata.get(key) for key in ("labels", "annotations")}
