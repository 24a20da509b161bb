"""A scenario's cluster as scheduler_perf workloads want it (`stowplan.workloads.play.Cluster`).

`workload_options` says how a target must be set up for them: as scheduler_perf sets up its own,
without kubelets, and with priorities as the pods say. `workload_scenario` makes a scenario of a
workload. What must stay true: time and waiting are the cluster's, so that virtual time works.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from random import Random

import msgspec

from stowplan.api.client import ApiClient
from stowplan.api.resources import PODS
from stowplan.apiserver.kubelet import KubeletOptions
from stowplan.config.feature_gates import FeatureGates, known_gates
from stowplan.config.load import load_config
from stowplan.errors import ConfigError, Conflict, NotFound, StowplanError
from stowplan.plugins.registry import in_tree_registry
from stowplan.sim.scenarios.cluster import Cluster
from stowplan.sim.scenarios.device_allocation import allocate_claims
from stowplan.sim.scenarios.run import Options
from stowplan.sim.scenarios.timeline import EntryKind
from stowplan.workloads.model import Operation, Stage, Workload
from stowplan.workloads.play import Chain, Measurement, Write, play

_METHODS = {"create": "POST", "update": "PUT", "delete": "DELETE"}
#: Writes in a row, where a write takes no time, before their watchers get to run.
_BURST = 50
#: Writes under way at a time where they take time; scheduler_perf has 30.
_WRITERS = 16
#: Seconds of the cluster's time without progress of the awaited pods before giving up. Longer than
#: pods stay in the unschedulable queue without an event.
PATIENCE_S = 400.0


class WorkloadCluster:
    """Runs a workload's operations on a scenario's cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._client: ApiClient = cluster.client
        self._workers = 1 if cluster.target.is_virtual else _WRITERS

    def now(self) -> float:
        return self._cluster.now()

    async def sleep(self, seconds: float) -> None:
        await self._cluster.sleep(seconds)

    async def write(self, chains: Iterable[Chain]) -> None:
        waiting, written = iter(chains), count(1)

        async def work() -> None:
            for chain in waiting:
                for write in chain:
                    await self._send(write)
                if next(written) % _BURST == 0:
                    await self._cluster.target.rest()

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._workers):
                    group.create_task(work())
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None

    async def _send(self, write: Write) -> None:
        body = None if write.verb == "delete" else msgspec.json.encode(write.object)
        try:
            await self._client.request(_METHODS[write.verb], write.path, body=body)
        except Conflict:
            if not (write.verb == "create" and write.may_exist):
                raise
        except NotFound:
            if write.verb != "delete":
                raise  # an object to delete may have been evicted; anything else is an error

    async def delete_pods(
        self, namespace: str, labels: Mapping[str, str], *, grace_period_s: int | None = None
    ) -> None:
        params: dict[str, str | int] = {"labelSelector": _selector(labels)} if labels else {}
        if grace_period_s is not None:
            params["gracePeriodSeconds"] = grace_period_s
        await self._client.request("DELETE", PODS.path(namespace=namespace), params=params)

    async def pod_names(self, namespace: str, labels: Mapping[str, str]) -> list[str]:
        pods = await self._cluster.list("Pod", namespace=namespace, labels=labels)
        return [pod["metadata"]["name"] for pod in pods]

    async def allocate_claims(self, namespace: str) -> None:
        async def read(path: str) -> bytes:
            return await self._client.request("GET", path)

        await allocate_claims(namespace, read, self.write, Random(0))

    async def wait_for_pods(self, namespace: str, names: Collection[str], stage: Stage) -> None:
        recording, target = self._cluster.recording, self._cluster.target
        reached = recording.bound if stage is Stage.SCHEDULED else recording.attempted
        missing = {f"{namespace}/{name}" for name in names}
        progressed_at, left = self.now(), len(missing) + 1
        while True:
            await target.rest()
            missing = {key for key in missing if key not in reached}
            if not missing:
                return
            if len(missing) < left:
                progressed_at, left = self.now(), len(missing)
            elif self.now() - progressed_at > PATIENCE_S:
                raise StowplanError(
                    f"{left} of {len(names)} pods in {namespace} are not {stage.value.lower()}"
                    f" after {PATIENCE_S:g} s without progress, among them {min(missing)}"
                )
            await target.pass_time()


@dataclass(slots=True)
class WorkloadTimeline:
    """Puts a workload's operations on the timeline, and keeps how long its measurements took."""

    cluster: Cluster
    workload: Workload
    #: Label -> seconds of the cluster's time.
    measured_s: dict[str, float] = field(default_factory=dict)
    _began: dict[str, float] = field(default_factory=dict)

    def operation_begins(self, number: int, operation: Operation) -> None:
        count = getattr(operation, "count", None)
        what = operation.opcode if count is None else f"{operation.opcode} {count:,}"
        self.cluster.recording.add(EntryKind.STEP, f"operation {number}", what)

    def operation_ended(self, number: int, operation: Operation) -> None:
        """Record nothing."""

    async def measuring_begins(self, measurement: Measurement) -> None:
        self._began[measurement.label] = self.cluster.now()

    def measuring_ends(self, measurement: Measurement) -> None:
        began = self._began.pop(measurement.label)
        self.measured_s[measurement.label] = self.cluster.now() - began


def workload_options(workload: Workload, options: Options | None = None) -> Options:
    """The options that make a target equal to scheduler_perf's own cluster."""
    options = options or Options()
    config = options.config
    if workload.scheduler_config is not None and config is None:
        config = load_config(workload.scheduler_config)
    registry = options.registry
    known = {name: on for name, on in workload.feature_gates.items() if name in known_gates()}
    if registry is None and known:
        registry = in_tree_registry(FeatureGates(known))
        registry.load_entry_points()
    return replace(
        options,
        registry=registry,
        name=options.name or workload.title,
        config=config,
        kubelet=KubeletOptions(enabled=False),
        as_scheduler_perf=True,
        device_claims=workload.has_devices,
        feature_gates=workload.feature_gates,
    )


def workload_scenario(workload: Workload) -> Callable[[Cluster], Awaitable[None]]:
    """A scenario that plays the workload and does not wait afterwards."""

    async def scenario(cluster: Cluster) -> None:
        if cluster.target.is_shared:
            raise ConfigError("scheduler_perf workloads are not played on an existing cluster")
        await play(workload, WorkloadCluster(cluster), observer=WorkloadTimeline(cluster, workload))

    return scenario


def _selector(labels: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in labels.items())
