"""Constant load on a cluster: pods come and go, nodes flap, pods are preempted.

Run by `soak` beside the scheduler under test; plays users, controllers and kubelets by plain
requests, and watches what becomes of them. What must stay true: after `settle` nothing is left to
do but for the scheduler, so a pod that is not bound then is the scheduler's fault.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

import aiohttp
import msgspec

from stowplan.api.kubeconfig import ClusterConfig
from stowplan.lab.bench.churn_objects import (
    SLOT_KEY,
    SLOTS,
    Json,
    NodeLayout,
    PodKind,
    PodMaker,
    kind_of,
    node_name,
)
from stowplan.lab.bench.follow import METADATA_ONLY, Followed, follow, session
from stowplan.lab.bench.sender import JSON, Sender, SendError
from stowplan.lab.controlplane.processes import ControlPlaneError
from stowplan.loader.json_text import json_decoder

PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"
_EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
_MERGE = "application/merge-patch+json"
_AT_ONCE: Json = {"gracePeriodSeconds": 0}
_TICK_S = 0.02
#: Unanswered creations; with more the server is too slow for the requested rate.
_MOST_IN_FLIGHT = 128
_SLOT_S = 5.0
_FLAP_EVERY_S = 2.0
_FLAP_S = 5.0
_GATE_S = 3.0
_HIGH_LIFE_S = 5.0
#: One important pod among so many arrivals.
_HIGH_EVERY = 100
_FEWEST_HIGH_PER_S = 0.5
_PATIENCE_S = 120.0


class _Meta(msgspec.Struct, rename="camel"):
    name: str = ""
    resource_version: str = ""
    deletion_timestamp: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _Pod(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    spec: _Spec = msgspec.field(default_factory=_Spec)


class _Change(msgspec.Struct):
    type: str
    object: _Pod


_decode = json_decoder(_Change)


@dataclass
class Tally:
    """Counts so far, and the waits since they were last read."""

    created: int = 0
    bound: int = 0
    deleted: int = 0
    preempted: int = 0
    #: Of those preempted.
    never_bound: int = 0
    bind_waits: list[float] = field(default_factory=list)
    event_lags: list[float] = field(default_factory=list)

    def take_waits(self) -> tuple[list[float], list[float]]:
        waits = self.bind_waits, self.event_lags
        self.bind_waits, self.event_lags = [], []
        return waits


class ChurnLoad:
    """`run` for a while, then `settle`, both inside `watching`."""

    def __init__(
        self, sender: Sender, layout: NodeLayout, *, rate: float, population: int, seed: int
    ) -> None:
        self.tally = Tally()
        #: Created and not seen bound, with the time of creation.
        self.waiting: dict[str, float] = {}
        self._sender = sender
        self._layout = layout
        self._rate = rate
        self._population = population
        self._maker = PodMaker(layout, seed)
        self._rng = Random(seed)
        #: Node by pod, oldest first: those that leave in their turn, and those that are crowded.
        self._staying: dict[str, str] = {}
        self._crowd: dict[str, str] = {}
        self._placed: set[str] = set()
        self._leaving: set[str] = set()
        #: Of pods whose event has not come.
        self._bound_at: dict[str, float] = {}
        self._flapping: set[int] = set()
        self._slot_node = -1
        self._is_busy = False
        self._in_flight = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None

    # Life

    @asynccontextmanager
    async def watching(self, config: ClusterConfig) -> AsyncIterator[None]:
        """Watch the pods inside the block; stop all background tasks at its end."""
        async with session(config, JSON) as whole, session(config, METADATA_ONLY) as names:
            self._spawn(self._watch_pods(whole))
            self._spawn(self._watch_events(names))
            try:
                yield
            finally:
                for task in self._tasks:
                    task.cancel()
                await asyncio.gather(*self._tasks, return_exceptions=True)

    async def run(self, seconds: float) -> None:
        """Keep the cluster busy."""
        for _ in range(self._layout.crowd_places):
            self._arrive(self._maker.make(PodKind.LOW))
        ends = time.monotonic() + seconds
        self._is_busy = True
        self._spawn(self._open_slots())
        self._spawn(self._flap_nodes())
        await asyncio.gather(
            self._arrivals(self._rate, ends, self._maker.arrival),
            self._arrivals(
                max(self._rate / _HIGH_EVERY, _FEWEST_HIGH_PER_S),
                ends,
                lambda: self._maker.make(PodKind.HIGH),
            ),
        )
        self._is_busy = False

    async def settle(self) -> None:
        """Wait until every pod is bound, or none has been bound for long."""
        progress, since = -1, time.monotonic()
        while self.waiting or self._flapping or self._has_high():
            self.check()
            if self.tally.bound != progress:
                progress, since = self.tally.bound, time.monotonic()
            if time.monotonic() - since > _PATIENCE_S:
                return
            await asyncio.sleep(0.1)

    def check(self) -> None:
        """Raise the error of a background task, if there is one."""
        self._sender.check()
        if self._failure is not None:
            raise ControlPlaneError(f"the churn has ended: {self._failure}") from self._failure

    def _has_high(self) -> bool:
        return any(kind_of(name) is PodKind.HIGH for name in self._crowd)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None:
            self._failure = self._failure or problem

    # What users do

    async def _arrivals(self, rate: float, ends: float, make: Callable[[], Json]) -> None:
        began, came = time.monotonic(), 0
        while (now := time.monotonic()) < ends:
            self.check()
            due = int((now - began) * rate) - came
            room = _MOST_IN_FLIGHT - self._in_flight
            for _ in range(min(due, room)):
                self._arrive(make())
            # Arrivals that the server did not take in time are dropped.
            came += due
            await asyncio.sleep(_TICK_S)

    def _arrive(self, pod: Json) -> None:
        self._in_flight += 1
        self._spawn(self._create(pod))

    async def _create(self, pod: Json) -> None:
        name = pod["metadata"]["name"]
        self.waiting[name] = time.monotonic()
        try:
            await self._sender.call(PODS, pod)
        finally:
            self._in_flight -= 1
        self.tally.created += 1
        if kind_of(name) is PodKind.GATED:
            await asyncio.sleep(_GATE_S)
            await self._patch(f"{PODS}/{name}", {"spec": {"schedulingGates": None}})

    def _remove(self, name: str) -> None:
        if name not in self._leaving:
            self._leaving.add(name)
            self._spawn(self._delete(f"{PODS}/{name}"))

    async def _delete(self, path: str) -> None:
        try:
            await self._sender.call(path, _AT_ONCE, "DELETE")
        except SendError as problem:
            if problem.status != 404:
                raise

    async def _patch(self, path: str, patch: Json) -> None:
        await self._sender.call(path, patch, "PATCH", _MERGE)

    # What becomes of pods

    async def _watch_pods(self, client: aiohttp.ClientSession) -> None:
        version = ""
        while True:
            query = {"watch": "1", "resourceVersion": version}
            async with client.get(PODS, params=query) as stream:
                async for line in stream.content:
                    change = _decode(line)
                    if change.type == "ERROR":
                        raise ControlPlaneError(f"watch of pods: {line.decode().strip()}")
                    version = change.object.metadata.resource_version
                    self._see(change.type, change.object)

    def _see(self, what: str, pod: _Pod) -> None:
        name, node = pod.metadata.name, pod.spec.node_name
        if what == "DELETED":
            self._see_gone(name)
        elif pod.metadata.deletion_timestamp:
            if name not in self._leaving:
                # As a kubelet would, once its containers have ended.
                self.tally.preempted += 1
                self._remove(name)
        elif node and name not in self._placed:
            self._placed.add(name)
            self._see_bound(name, node)

    def _see_bound(self, name: str, node: str) -> None:
        now = time.monotonic()
        kind = kind_of(name)
        since = self.waiting.pop(name, None)
        if since is not None:
            self.tally.bound += 1
            self._bound_at[name] = now
            if kind not in (PodKind.LATE, PodKind.GATED, PodKind.LOW, PodKind.HIGH):
                self.tally.bind_waits.append(now - since)
        if kind in (PodKind.LOW, PodKind.HIGH):
            self._crowd[name] = node
        else:
            self._staying[name] = node
        if kind is PodKind.HIGH:
            asyncio.get_running_loop().call_later(_HIGH_LIFE_S, self._remove, name)
        while len(self._staying) > self._population:
            oldest = next(iter(self._staying))
            del self._staying[oldest]
            self._remove(oldest)

    def _see_gone(self, name: str) -> None:
        self.tally.deleted += 1
        if self.waiting.pop(name, None) is not None:
            # Evicted on the way to its node.
            self.tally.preempted += 1
            self.tally.never_bound += 1
        self._placed.discard(name)
        self._leaving.discard(name)
        self._bound_at.pop(name, None)
        self._staying.pop(name, None)
        self._crowd.pop(name, None)
        if kind_of(name) is PodKind.LOW:
            # As its controller would.
            self._arrive(self._maker.make(PodKind.LOW))

    async def _watch_events(self, client: aiohttp.ClientSession) -> None:
        selector = {"fieldSelector": "reason=Scheduled"}
        async for change in follow(client, _EVENTS, selector, Followed):
            if change.type == "ADDED":
                # An event is called after its pod: plain-0000001.18a3b...
                bound_at = self._bound_at.pop(change.object.metadata.name.rpartition(".")[0], None)
                if bound_at is not None:
                    self.tally.event_lags.append(time.monotonic() - bound_at)

    # What nodes do

    async def _open_slots(self) -> None:
        """Label one node after the other for the pods that wait for a slot."""
        slot = 0
        while True:
            self._slot_node = self._calm_node()
            await self._label(self._slot_node, f"slot-{slot}")
            await asyncio.sleep(_SLOT_S)
            await self._label(self._slot_node, None)
            slot = (slot + 1) % SLOTS

    async def _label(self, number: int, slot: str | None) -> None:
        labels = {"metadata": {"labels": {SLOT_KEY: slot}}}
        await self._patch(f"{NODES}/{node_name(number)}", labels)

    async def _flap_nodes(self) -> None:
        while self._is_busy:
            self._spawn(self._flap(self._calm_node()))
            await asyncio.sleep(_FLAP_EVERY_S)

    async def _flap(self, number: int) -> None:
        self._flapping.add(number)
        how = self._rng.choice((self._cordon, self._taint, self._take_away))
        await how(number, f"{NODES}/{node_name(number)}")
        self._flapping.discard(number)

    async def _cordon(self, _: int, path: str) -> None:
        await self._patch(path, {"spec": {"unschedulable": True}})
        await asyncio.sleep(_FLAP_S)
        await self._patch(path, {"spec": {"unschedulable": None}})

    async def _taint(self, _: int, path: str) -> None:
        taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
        await self._patch(path, {"spec": {"taints": [taint]}})
        await asyncio.sleep(_FLAP_S)
        await self._patch(path, {"spec": {"taints": None}})

    async def _take_away(self, number: int, path: str) -> None:
        await self._delete(path)
        for name in [pod for pod, node in self._staying.items() if node == node_name(number)]:
            self._remove(name)
        await asyncio.sleep(_FLAP_S)
        await self._sender.call(NODES, self._layout.node(number))

    def _calm_node(self) -> int:
        while True:
            number = self._rng.choice(self._layout.ordinary())
            if number not in self._flapping and number != self._slot_node:
                return number
