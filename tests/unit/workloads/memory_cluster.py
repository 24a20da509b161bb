"""A cluster in a dictionary with virtual time, and an observer that remembers, for these tests.

Pods get a node when they are created unless `refuses` says otherwise; `admit` looks again. Time
moves to the next sleeper whenever nothing else can run.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Any

from stowplan.errors import AlreadyExists, ApiError, NotFound
from stowplan.workloads.model import Operation, Stage
from stowplan.workloads.play import Chain, Measurement, Write

Key = tuple[str, str, str]


class MemoryCluster:
    def __init__(self, refuses: Callable[[dict[str, Any]], bool] = lambda pod: False) -> None:
        self.refuses = refuses
        self.objects: dict[Key, dict[str, Any]] = {}
        #: Every request, in order, with the time it came at.
        self.requests: list[tuple[float, Write]] = []
        self.deleted_collections: list[tuple[str, dict[str, str], int | None]] = []
        #: Namespaces whose claims were to be allocated.
        self.allocated: list[str] = []
        self.waits: list[tuple[str, tuple[str, ...], Stage]] = []
        self.fails: Callable[[Write], ApiError | None] = lambda write: None
        self._scheduled: set[tuple[str, str]] = set()
        self._attempted: set[tuple[str, str]] = set()
        self._changed = asyncio.Event()
        self._now = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = count()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Time passes while this is open."""
        moving = asyncio.create_task(self._move_time())
        try:
            yield
        finally:
            moving.cancel()
            with suppress(asyncio.CancelledError):
                await moving

    async def _move_time(self) -> None:
        while True:
            for _ in range(20):  # everything else that can run does so first
                await asyncio.sleep(0)
            if self._sleepers:
                due, _, sleeper = heapq.heappop(self._sleepers)
                self._now = max(due, self._now)
                if not sleeper.done():
                    sleeper.set_result(None)

    def now(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        sleeper = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + seconds, next(self._order), sleeper))
        await sleeper

    async def allocate_claims(self, namespace: str) -> None:
        self.allocated.append(namespace)

    async def write(self, chains: Iterable[Chain]) -> None:
        for chain in chains:
            for write in chain:
                await asyncio.sleep(0)
                self._carry_out(write)

    def _carry_out(self, write: Write) -> None:
        self.requests.append((self._now, write))
        problem = self.fails(write)
        if problem is not None:
            raise problem
        key = (write.resource.plural, write.namespace, write.name)
        if write.resource.namespaced and ("namespaces", "", write.namespace) not in self.objects:
            raise NotFound(f'namespaces "{write.namespace}" not found')
        match write.verb:
            case "create":
                self._create(key, write)
            case "delete":
                self.objects.pop(key, None)
            case "update":
                if key not in self.objects:
                    raise NotFound(f'{write.resource.plural} "{write.name}" not found')
                if not write.subresource:
                    self.objects[key] = write.object

    def _create(self, key: Key, write: Write) -> None:
        if key in self.objects:
            if write.may_exist:
                return
            raise AlreadyExists(f'{write.resource.plural} "{write.name}" already exists')
        self.objects[key] = write.object
        if write.resource.plural == "pods":
            self._attempt(write.namespace, write.name, write.object)
        else:
            self.admit()

    def admit(self) -> None:
        """Look again at the pods without a node."""
        for (plural, namespace, name), pod in self.objects.items():
            if plural == "pods" and (namespace, name) not in self._scheduled:
                self._attempt(namespace, name, pod)

    def _attempt(self, namespace: str, name: str, pod: dict[str, Any]) -> None:
        self._changed.set()
        self._attempted.add((namespace, name))
        if not self.refuses(pod):
            self._scheduled.add((namespace, name))

    async def delete_pods(
        self, namespace: str, labels: Mapping[str, str], *, grace_period_s: int | None = None
    ) -> None:
        self.deleted_collections.append((namespace, dict(labels), grace_period_s))
        for name in await self.pod_names(namespace, labels):
            del self.objects["pods", namespace, name]

    async def pod_names(self, namespace: str, labels: Mapping[str, str]) -> list[str]:
        return [
            name
            for (plural, where, name), pod in self.objects.items()
            if plural == "pods"
            and where == namespace
            and labels.items() <= pod["metadata"].get("labels", {}).items()
        ]

    async def wait_for_pods(self, namespace: str, names: Collection[str], stage: Stage) -> None:
        self.waits.append((namespace, tuple(names), stage))
        reached = self._scheduled if stage is Stage.SCHEDULED else self._attempted
        wanted = {(namespace, name) for name in names}
        while not wanted <= reached:
            self._changed.clear()
            await self._changed.wait()

    def names(self, plural: str, namespace: str = "") -> list[str]:
        return [name for kind, where, name in self.objects if (kind, where) == (plural, namespace)]


class Recorder:
    """An observer that writes down what it is told, in words."""

    def __init__(self, cluster: MemoryCluster | None = None) -> None:
        self.told: list[str] = []
        self.requests_before_measuring = 0
        self._cluster = cluster

    def operation_begins(self, number: int, operation: Operation) -> None:
        self.told.append(f"{number} {operation.opcode}")

    def operation_ended(self, number: int, operation: Operation) -> None:
        self.told.append(f"{number} ended")

    async def measuring_begins(self, measurement: Measurement) -> None:
        self.told.append(f"measuring {measurement.label}")
        if self._cluster is not None:
            self.requests_before_measuring = len(self._cluster.requests)

    def measuring_ends(self, measurement: Measurement) -> None:
        self.told.append(f"measured {measurement.label}")
