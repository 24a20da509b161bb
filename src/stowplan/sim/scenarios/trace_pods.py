"""The pods of a trace on a scenario's cluster: which there are, and under which names.

In the recorded or generated cluster a controller replaced each lost pod. So pods that are
preempted, drained or lost with their node come back here, under a new name and with their whole
duration. A pod that was cleaned up after its end runs to its end here, too, and is deleted then.
What must stay true: a pod costs a name and a reference while it lives, and nothing afterwards;
events of a pod that was removed do not count for another one of its name.
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
from stowplan.sim.traces.clean_ups import CleanUps
from stowplan.sim.traces.model import Arrival, Json, Removal
from stowplan.sim.traces.pod_changes import changeable, changed, resized, revised

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
        #: Keys of finished pods with their keys at first, in the order of their ends; and those of
        #: them to delete.
        self._ended: dict[str, str] = {}
        self._due: list[str] = []
        #: By the keys at first: pods to delete when they have finished.
        self._clean_ups = CleanUps()
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
        await self._make_way(key)
        before = self._living.get(key)  # if the replacement of another pod has the name
        self._living[key] = _Living(event, metadata["name"])
        if await self._objects.accepts(event.manifest):
            self._renamed.pop(key, None)  # of an earlier pod of this name
            self.arrived += 1
            self.ending += event.run_s is not None
        elif before is None:
            del self._living[key]
        else:
            self._living[key] = before

    async def remove(self, event: Removal) -> None:
        """Remove a pod at once: its grace period was over when its deletion was recorded.

        One that is cleaned up and still waits or runs is removed when it has finished.
        """
        first_key = f"{self._cluster.place(event.namespace)}/{event.name}"
        known = self._known(first_key)
        if event.is_clean_up and known is not None:
            self._clean_ups.add(first_key, known.arrival.manifest)
        else:
            await self._remove(first_key)

    async def claim_goes(self, event: Removal) -> None:
        """Remove the pods that were cleaned up before a claim, and still wait."""
        for first_key in self._clean_ups.users_of(event):
            key, _ = self._present(first_key)
            if key not in self.running:
                await self._remove(first_key)

    async def _make_way(self, key: str) -> None:
        """Remove a pod that was cleaned up: another one of its name arrives."""
        if key in self._clean_ups:
            await self._remove(key)

    async def _remove(self, first_key: str) -> None:
        self._clean_ups.discard(first_key)
        self.lost = [each for each in self.lost if self._first_key(each) != first_key]
        key, living = self._present(first_key)
        self._renamed.pop(first_key, None)
        if living is not None:
            del self._living[key]
            self._leaving.add(key)
            self.running.discard(key)
            self._cluster.recording.deleted_on_purpose.add(key)
            await self._delete_pod(key)
        elif self._ended.get(key) == first_key:
            await self._delete_ended(key)

    def _present(self, first_key: str) -> tuple[str, _Living | None]:
        """The key of a pod now, and the pod itself if it is in the cluster and has not finished."""
        key = self._renamed.get(first_key, first_key)
        living = self._living.get(key)
        if living is not None and self._first_key(living) != first_key:
            living = None  # the replacement of another pod has its name
        return key, living

    def _known(self, first_key: str) -> _Living | None:
        """A pod that has not finished: it is in the cluster, or will come again."""
        _, living = self._present(first_key)
        lost = (each for each in self.lost if self._first_key(each) == first_key)
        return living or next(lost, None)

    async def revise(self, changes: Json) -> None:
        """Change a pod, and what comes again if it is lost; the API server may refuse."""
        changes = changeable(changes)
        first_key = self._key(changes["metadata"])
        known = self._known(first_key)
        if known is None:
            return
        manifest = known.arrival.manifest
        before = changeable(manifest)
        key, living = self._present(first_key)
        if living is None:
            known.arrival = replace(known.arrival, manifest=revised(manifest, changes))
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
            manifest = changed(manifest, before, changes)
            known.arrival = replace(known.arrival, manifest=manifest)
            if (larger := resized(body, before, changes)) != body:
                await put(larger, subresource="resize")
                manifest = resized(manifest, before, changes)
                known.arrival = replace(known.arrival, manifest=manifest)
        except ApiError as problem:
            log.info("Recorded change was refused", extra=kv(object=f"Pod {key}", err=str(problem)))

    async def replace_lost(self) -> None:
        """Create the pods again that have lost their node."""
        while self.lost:
            await self._replace(self.lost.pop(0))

    async def _replace(self, lost: _Living) -> None:
        manifest = lost.arrival.manifest
        spec = {key: value for key, value in manifest["spec"].items() if key != "nodeName"}
        first_key = self._first_key(lost)
        while True:
            lost.lives += 1
            name = f"{lost.name[:_KEPT_NAME]}-r{lost.lives}"
            metadata = {**manifest["metadata"], "name": name}
            key = self._key(metadata)
            if key in self._living:
                continue
            self._living[key] = lost
            self._renamed[first_key] = key
            try:
                await self._objects.create({**manifest, "metadata": metadata, "spec": spec})
            except ApiError as problem:
                del self._living[key]
                del self._renamed[first_key]
                if isinstance(problem, AlreadyExists):  # the trace has pods of such names, too
                    continue
                self._clean_ups.discard(first_key)
                if await self._has_namespace(key):
                    self._objects.leave_out({**manifest, "metadata": metadata}, problem)
                return
            self.replaced += 1
            return

    async def _has_namespace(self, key: str) -> bool:
        """False if a pod's namespace is gone or goes, and with it what would replace the pod."""
        with suppress(NotFound):
            found = await self._cluster.get("Namespace", key.split("/")[0])
            return "deletionTimestamp" not in found["metadata"]
        return False

    async def collect(self) -> None:
        """Delete finished pods: those that were cleaned up, and the oldest of very many, as the
        controller of real clusters does.
        """
        due, self._due = self._due, []
        for key in due:
            await self._delete_ended(key)
        while len(self._ended) > self._keeps_finished:
            await self._delete_ended(next(iter(self._ended)))

    async def _delete_ended(self, key: str) -> None:
        """Delete a finished pod, unless that was done."""
        first_key = self._ended.pop(key, None)
        if first_key is not None:
            if self._renamed.get(first_key) == key:
                del self._renamed[first_key]
            await self._delete_pod(key)

    async def _delete_pod(self, key: str) -> None:
        """Delete a pod without a grace period; it may be gone."""
        namespace, name = key.split("/")
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
                self.finished += 1
                first_key = self._ended[key] = self._first_key(living) if living.lives else key
                if self._clean_ups.discard(first_key):
                    self._due.append(key)
            elif self._replaces_lost:
                self.lost.append(living)
            else:
                self._clean_ups.discard(self._first_key(living))
        self._on_change(kind)

    def _key(self, metadata: Json) -> str:
        return f"{self._cluster.place(metadata.get('namespace', ''))}/{metadata['name']}"

    def _first_key(self, living: _Living) -> str:
        return self._key(living.arrival.manifest["metadata"])
