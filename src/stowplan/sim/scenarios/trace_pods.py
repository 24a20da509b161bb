"""The pods of a trace on a scenario's cluster: which there are, and under which names.

In the recorded or generated cluster a controller replaced each lost pod. So pods that are
preempted, drained or lost with their node come back here, under a new name and with their whole
duration. What must stay true: a pod costs a name and a reference while it lives, and nothing
afterwards; events of a pod that was removed do not count for another one of its name.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from stowplan.api.resources import PODS
from stowplan.errors import AlreadyExists, ApiError, NotFound
from stowplan.loader.json_text import load_json
from stowplan.logs import get_logger, kv
from stowplan.sim.scenarios.cluster import Cluster
from stowplan.sim.scenarios.timeline import EntryKind
from stowplan.sim.scenarios.trace_objects import TraceObjects
from stowplan.sim.traces.model import Arrival, Json, Removal
from stowplan.sim.traces.pod_changes import changeable, changed, resized

log = get_logger(__name__)

#: Replacements of lost pods keep so much of the name.
_KEPT_NAME: Final = 240


@dataclass(slots=True)
class _Living:
    """A pod of the trace that is in the cluster."""

    arrival: Arrival
    name: str
    lives: int = 0


class TracePods:
    """The living pods; `hear` follows the recording of the scenario."""

    def __init__(
        self,
        cluster: Cluster,
        objects: TraceObjects,
        *,
        replaces_lost: bool,
        keeps_finished: int,
        on_change: Callable[[EntryKind], None],
    ) -> None:
        """`on_change` is called when a pod has finished or is lost."""
        self._cluster = cluster
        self._objects = objects
        self._replaces_lost = replaces_lost
        self._keeps_finished = keeps_finished
        self._on_change = on_change
        #: Keys of finished pods, in the order of their ends.
        self._ended: dict[str, None] = {}
        self._living: dict[str, _Living] = {}
        #: Keys of pods that the trace has removed, until their deletion is heard. Another pod may
        #: have the name by then.
        self._leaving: set[str] = set()
        #: Keys of pods that have come again, by the key at first.
        self._renamed: dict[str, str] = {}
        #: Keys of pods that run for some time and then end; when the last of them will.
        self.running: set[str] = set()
        self.latest_end = 0.0
        #: Pods that have lost their node and have not come again.
        self.lost: list[_Living] = []
        #: Numbers so far: pods that arrived, those of them that end by themselves, those that have
        #: ended, and those that came again.
        self.arrived = self.ending = self.finished = self.replaced = 0

    async def arrive(self, event: Arrival) -> None:
        metadata = event.manifest["metadata"]
        key = self._key(metadata)
        before = self._living.get(key)  # if the replacement of another pod has the name
        self._living[key] = _Living(event, metadata["name"])
        if await self._objects.accepts(event.manifest):
            self.arrived += 1
            self.ending += event.run_s is not None
        elif before is None:
            del self._living[key]
        else:
            self._living[key] = before

    async def remove(self, event: Removal) -> None:
        """Remove a pod at once: its grace period was over when its deletion was recorded."""
        first_key = f"{self._cluster.place(event.namespace)}/{event.name}"
        self.lost = [each for each in self.lost if self._first_key(each) != first_key]
        key, living = self._present(first_key)
        self._renamed.pop(first_key, None)
        namespace, name = key.split("/")
        if living is not None:
            del self._living[key]
            self._leaving.add(key)
            self.running.discard(key)
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

    async def revise(self, changes: Json) -> None:
        """Change a pod, and what comes again if it is lost; the API server may refuse."""
        changes = changeable(changes)
        first_key = self._key(changes["metadata"])
        key, living = self._present(first_key)
        lost = (each for each in self.lost if self._first_key(each) == first_key)
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

    async def replace_lost(self) -> None:
        """Create the pods again that have lost their node."""
        while self.lost:
            await self._replace(self.lost.pop(0))

    async def _replace(self, lost: _Living) -> None:
        manifest = lost.arrival.manifest
        spec = {key: value for key, value in manifest["spec"].items() if key != "nodeName"}
        self.replaced += 1
        while True:
            lost.lives += 1
            name = f"{lost.name[:_KEPT_NAME]}-r{lost.lives}"
            metadata = {**manifest["metadata"], "name": name}
            key = self._key(metadata)
            if key not in self._living:
                self._living[key] = lost
                self._renamed[self._first_key(lost)] = key
                try:
                    await self._objects.create({**manifest, "metadata": metadata, "spec": spec})
                    return
                except AlreadyExists:  # the trace has pods of such names, too
                    del self._living[key]

    async def collect(self) -> None:
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

    def hear(self, kind: EntryKind, key: str, at: float) -> None:
        """Handle a pod's event: bound, finished or lost."""
        if key in self._leaving:
            if kind is not EntryKind.BOUND:
                self._leaving.remove(key)
            return
        living = self._living.get(key)
        if kind is EntryKind.BOUND:
            if living is not None and living.arrival.run_s is not None:
                self.running.add(key)
                self.latest_end = max(self.latest_end, at + living.arrival.run_s)
            return
        self.running.discard(key)
        if living is not None:
            del self._living[key]
            if kind is EntryKind.FINISHED:
                if self._renamed:
                    self._renamed.pop(self._first_key(living), None)
                self.finished += 1
                self._ended[key] = None
            elif self._replaces_lost:
                self.lost.append(living)
        self._on_change(kind)

    def _key(self, metadata: Json) -> str:
        return f"{self._cluster.place(metadata.get('namespace', ''))}/{metadata['name']}"

    def _first_key(self, living: _Living) -> str:
        return self._key(living.arrival.manifest["metadata"])
