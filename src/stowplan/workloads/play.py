"""Play a workload on a cluster, operation by operation.

The benchmark and simulators call it with a `Cluster` and an `Observer`. Invariants:
every write, wait and pause goes through the cluster, so that a virtual one is in charge
of time; objects are made one at a time while the cluster takes them; whatever runs in the
background has ended when `play` returns or raises.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import count as numbers
from typing import Protocol

from stowplan.api.resources import PODS
from stowplan.errors import ConfigError, StowplanError
from stowplan.logs import get_logger, kv
from stowplan.workloads.model import (
    AllocResourceClaims,
    Barrier,
    Churn,
    ChurnMode,
    CreateAny,
    CreateNamespaces,
    CreateNodes,
    CreatePods,
    CreateResourceDriver,
    DeletePods,
    Operation,
    Sleep,
    Stage,
    StartCollectingMetrics,
    StopCollectingMetrics,
    UpdateAny,
    Workload,
)
from stowplan.workloads.objects import (
    Made,
    Names,
    any_writes,
    churn_write,
    driver_writes,
    namespace_write,
    namespace_writes,
    node_writes,
    pod_writes,
    update_writes,
)
from stowplan.workloads.writes import Chain, Write, deletion

__all__ = ["Chain", "Cluster", "Measurement", "Observer", "WorkloadError", "Write", "play"]

log = get_logger(__name__)


class WorkloadError(StowplanError):
    """A workload could not be played to its end."""


class Cluster(Protocol):
    """What a workload needs of a cluster. Failures are raised as StowplanError."""

    def now(self) -> float:
        """Seconds, from whatever clock this cluster lives by."""

    async def sleep(self, seconds: float) -> None:
        """Pass so much of the cluster's time."""

    async def write(self, chains: Iterable[Chain]) -> None:
        """Do all of it, return when all is done.

        Chains are started in order and may run side by side, as many as the cluster likes; the
        writes of one chain happen in order. `chains` is lazy: take from it only what is to be
        sent soon. Deleting what is gone is done already. Background tasks call this while an
        earlier call is under way, and may be cancelled in it.
        """

    async def delete_pods(
        self, namespace: str, labels: Mapping[str, str], *, grace_period_s: int | None = None
    ) -> None:
        """Delete all pods of the namespace that carry these labels, as DeleteCollection does."""

    async def pod_names(self, namespace: str, labels: Mapping[str, str]) -> list[str]:
        """The pods of the namespace that carry these labels, now."""

    async def allocate_claims(self, namespace: str) -> None:
        """Allocate each resource claim that is not, of a namespace or of all, on a random node."""

    async def wait_for_pods(self, namespace: str, names: Collection[str], stage: Stage) -> None:
        """Until each of these pods has reached the stage, at some time.

        A pod counts for good once it had a node: it may have been preempted or deleted since.
        How long is too long is the cluster's decision; it raises then.
        """


@dataclass(frozen=True, slots=True)
class Measurement:
    """What is being measured: the scheduling of these pods, as long as it lasts."""

    #: The namespace of a `createPods` that collects metrics, else the name the file gives it.
    label: str
    namespaces: tuple[str, ...]
    labels: Mapping[str, str] = field(default_factory=dict)


class Observer(Protocol):
    """Callbacks for what happens in `play`; they must raise nothing but StowplanError."""

    def operation_begins(self, number: int, operation: Operation) -> None:
        """Operations are numbered from 0, as in `workload.operations`."""

    def operation_ended(self, number: int, operation: Operation) -> None: ...

    async def measuring_begins(self, measurement: Measurement) -> None:
        """Just before the first of the measured pods is created, which waits for it to return."""

    def measuring_ends(self, measurement: Measurement) -> None:
        """Just after the last of them was seen scheduled."""


async def play(workload: Workload, cluster: Cluster, *, observer: Observer) -> None:
    """Run all operations in order.

    Raises ConfigError if the workload cannot be played, WorkloadError (from what the cluster
    raised) if an operation fails, in the background too.
    """
    if workload.cannot_play:
        raise ConfigError(workload.cannot_play, where=f"{workload.file}, {workload.title}")
    try:
        async with asyncio.TaskGroup() as background:
            player = _Player(workload, cluster, observer, background)
            await player.run()
            player.end()
    except BaseExceptionGroup as problems:
        raise problems.exceptions[0] from problems.exceptions[0].__cause__


class _Player:
    """One run of one workload: what it has created so far and what runs in the background."""

    def __init__(
        self,
        workload: Workload,
        cluster: Cluster,
        observer: Observer,
        background: asyncio.TaskGroup,
    ) -> None:
        self._workload = workload
        self._cluster = cluster
        self._observer = observer
        self._background = background
        self._tasks: list[asyncio.Task[None]] = []
        self._names = Names()
        self._namespaces: set[str] = set()
        self._nodes: list[str] = []
        #: Pods by namespace that no operation has waited for yet.
        self._pending: dict[str, list[Made]] = {}
        self._measurement: Measurement | None = None

    async def run(self) -> None:
        for number, operation in enumerate(self._workload.operations):
            self._observer.operation_begins(number, operation)
            work = partial(self._operate, number, operation)
            await self._blaming(number, operation, work)
            self._observer.operation_ended(number, operation)

    def end(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _blaming(
        self, number: int, operation: Operation, work: Callable[[], Awaitable[None]]
    ) -> None:
        """Do the work; a failure says which operation it belongs to."""
        try:
            await work()
        except ConfigError:
            raise  # says where it comes from: a template
        except StowplanError as problem:
            which = f"{self._workload.title}, operation {number} ({operation.opcode})"
            raise WorkloadError(f"{which}: {problem}") from problem

    async def _operate(self, number: int, operation: Operation) -> None:
        cluster = self._cluster
        match operation:
            case CreateNodes():
                await cluster.write(node_writes(operation, self._names, self._nodes.append))
            case CreateNamespaces():
                await cluster.write(namespace_writes(operation))
                self._namespaces.update(
                    f"{operation.prefix}-{index}" for index in range(operation.count)
                )
            case CreatePods():
                await self._create_pods(operation)
            case CreateAny():
                await self._have_namespace(operation.namespace)
                await cluster.write(any_writes(operation, self._names))
            case CreateResourceDriver():
                await cluster.write(driver_writes(operation, self._nodes))
            case AllocResourceClaims():
                await cluster.allocate_claims(operation.namespace)
            case UpdateAny():
                await self._have_namespace(operation.namespace)
                await self._paced(update_writes(operation, self._names), operation.per_second)
            case DeletePods():
                await self._delete_pods(number, operation)
            case Churn():
                await self._have_namespace(operation.namespace)
                self._in_background(number, operation, partial(self._churn, operation))
            case Barrier():
                await self._wait_at(operation)
            case Sleep():
                await cluster.sleep(operation.seconds)
            case StartCollectingMetrics():
                measurement = Measurement(operation.name, operation.namespaces, operation.labels)
                await self._measure(measurement)
            case StopCollectingMetrics():
                self._stop_measuring()

    def _in_background(
        self, number: int, operation: Operation, work: Callable[[], Awaitable[None]]
    ) -> None:
        blamed = self._blaming(number, operation, work)
        self._tasks.append(self._background.create_task(blamed))

    async def _have_namespace(self, namespace: str) -> None:
        if namespace and namespace not in self._namespaces:
            await self._cluster.write([namespace_write(namespace)])
            self._namespaces.add(namespace)

    async def _measure(self, measurement: Measurement) -> None:
        self._measurement = measurement
        await self._observer.measuring_begins(measurement)

    def _stop_measuring(self) -> None:
        assert self._measurement is not None, "checked when the workload was read"
        self._observer.measuring_ends(self._measurement)
        self._measurement = None

    async def _create_pods(self, operation: CreatePods) -> None:
        await self._have_namespace(operation.namespace)
        if operation.collect_metrics:
            await self._measure(Measurement(operation.namespace, (operation.namespace,)))
        if operation.steady_state_s is not None:
            await self._keep_creating(operation, operation.steady_state_s)
        else:
            made = await self._create_batch(operation)
            if operation.skip_wait:
                self._pending.setdefault(operation.namespace, []).extend(made)
            else:
                await self._scheduled(operation.namespace, made)
        if operation.collect_metrics:
            self._stop_measuring()

    async def _create_batch(self, operation: CreatePods) -> list[Made]:
        made: list[Made] = []
        await self._cluster.write(pod_writes(operation, self._names, made.append))
        return made

    async def _scheduled(
        self, namespace: str, pods: Iterable[Made], stage: Stage = Stage.SCHEDULED
    ) -> None:
        # Upstream counts whatever is scheduled in the namespace, so that pods of an earlier
        # operation end the wait too soon; here an operation waits for its own.
        await self._cluster.wait_for_pods(namespace, [pod.name for pod in pods], stage)

    async def _keep_creating(self, operation: CreatePods, duration_s: float) -> None:
        """Batch after batch, each deleted when all of it is scheduled, until the time is up."""
        scheduled_any = False

        async def batches() -> None:
            nonlocal scheduled_any
            while True:
                made = await self._create_batch(operation)
                if not scheduled_any:
                    await self._scheduled(operation.namespace, made[:1])
                    scheduled_any = True
                await self._scheduled(operation.namespace, made)
                await self._cluster.delete_pods(operation.namespace, {}, grace_period_s=0)

        await self._for_a_while(duration_s, batches())
        if not scheduled_any:
            problem = f"no pod at all was scheduled within {duration_s:g} s"
            raise WorkloadError(f"{problem}: something is wrong, or the time is too short")

    async def _for_a_while(self, seconds: float, work: Coroutine[None, None, None]) -> None:
        """Work that never ends by itself, ended by the cluster's clock."""
        working = asyncio.ensure_future(work)
        clock = asyncio.ensure_future(self._cluster.sleep(seconds))
        try:
            await asyncio.wait((working, clock), return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                working.result()
        finally:
            working.cancel()
            clock.cancel()
            await asyncio.gather(working, clock, return_exceptions=True)

    async def _wait_at(self, barrier: Barrier) -> None:
        unknown = sorted(set(barrier.namespaces) - self._namespaces)
        if unknown:
            raise WorkloadError(f"no operation has created the namespace {unknown[0]}")
        for namespace in barrier.namespaces or sorted(self._pending):
            pods = [
                pod
                for pod in self._pending.get(namespace, ())
                if barrier.labels.items() <= pod.labels.items()
            ]
            await self._scheduled(namespace, pods, barrier.stage)
        if barrier.stage is Stage.SCHEDULED:
            for namespace in barrier.namespaces or list(self._pending):
                self._pending.pop(namespace, None)

    async def _delete_pods(self, number: int, operation: DeletePods) -> None:
        work: Callable[[], Awaitable[None]]
        if operation.per_second:
            found = await self._cluster.pod_names(operation.namespace, operation.labels)
            chains = [[deletion(PODS, operation.namespace, name)] for name in found]
            work = partial(self._paced, chains, operation.per_second)
        else:
            work = partial(self._cluster.delete_pods, operation.namespace, operation.labels)
        if operation.skip_wait:
            self._in_background(number, operation, work)
        else:
            await work()

    async def _paced(self, chains: Iterable[Chain], per_second: int) -> None:
        if not per_second:
            await self._cluster.write(chains)
            return
        began = self._cluster.now()
        for number, chain in enumerate(chains, start=1):
            await self._until(began + number / per_second)
            await self._cluster.write([chain])

    async def _until(self, due: float) -> None:
        await self._cluster.sleep(max(due - self._cluster.now(), 0.0))

    async def _churn(self, churn: Churn) -> None:
        """Never ends when recreating; what cannot be created is tried again next time."""
        slots: list[dict[int, Write]] = [{} for _ in churn.templates]
        recreating = churn.mode is ChurnMode.RECREATE
        began = self._cluster.now()
        for number in numbers():
            if not recreating and churn.number and number >= churn.number:
                return
            await self._until(began + (number + 1) * churn.interval_s)
            for template, slot in zip(churn.templates, slots, strict=True):
                place = number % churn.number if recreating else number
                there = slot.pop(place, None)
                if there is not None:
                    gone = deletion(there.resource, there.namespace, there.name)
                    await self._cluster.write([[gone]])
                    continue
                write = churn_write(template, self._names, churn.namespace)
                try:
                    await self._cluster.write([[write]])
                except ConfigError:
                    raise
                except StowplanError as problem:
                    log.info("Churn could not create", extra=kv(name=write.name, err=str(problem)))
                    continue
                if recreating:
                    slot[place] = write
