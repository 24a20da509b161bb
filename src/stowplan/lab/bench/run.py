"""One contestant, one workload, one fresh control plane: set up, play, watch, measure.

Called by `session` for each contestant in each round. What must stay true: nothing but the
contestant and the workload's own writes work while the clock runs, and no process is left behind.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import ClientSession

from stowplan.api.kubeconfig import load_cluster_config
from stowplan.errors import StowplanError
from stowplan.lab.bench.contestants import (
    Contestant,
    Start,
    compile_modules,
    environment,
    scheduler_kubeconfig,
)
from stowplan.lab.bench.figures import Run, over_time, percentile, throughput
from stowplan.lab.bench.follow import session
from stowplan.lab.bench.live import WRITERS, BenchError, LiveCluster
from stowplan.lab.bench.observe import (
    PODS_PATH,
    BindObserver,
    cpu_seconds,
    machine_cpu,
    peak_rss_mib,
)
from stowplan.lab.bench.pace import Pace
from stowplan.lab.bench.sender import JSON, Sender, run_interruptibly
from stowplan.lab.controlplane.cluster import ControlPlane
from stowplan.lab.controlplane.components import ADMISSION_OFF_IN_SCHEDULER_PERF
from stowplan.lab.controlplane.gates import apiserver_flags
from stowplan.lab.controlplane.processes import ServerProcess
from stowplan.workloads.model import CreatePods, Operation, Stage, Workload
from stowplan.workloads.play import Measurement, play

_POLL_S = 0.02
_START_S = 60.0
#: No event for so long after the last bind: there are no more.
_EVENTS_IDLE_S = 5.0
_EVENTS_POLL_S = 0.25
#: Fewer than so many in that time: the events of what happened before have been written.
_FEW_EVENTS, _SETTLE_POLL_S = 5, 1.0
_SETTLE_AT_MOST_S = 20.0
#: A profile is written by an orderly end only.
_PROFILE_GRACE_S = 60.0
_PROBE = "first-bind"


@dataclass(frozen=True)
class Conditions:
    """How a workload is to be run, the same for all contestants."""

    workload: Workload
    #: The measured pods are all there when the contestant starts; else they come while it runs.
    backlog: bool = False
    #: Stowplan runs under cProfile and writes it here.
    profile: Path | None = None


def can_wait_in_a_backlog(workload: Workload) -> bool:
    """Preparations, then one operation that creates the measured pods; others may come and go."""
    *before, last = workload.operations
    simple = {
        "createNodes",
        "createNamespaces",
        "createAny",
        "createResourceDriver",
        "createPods",
        "churn",
    }
    return (
        isinstance(last, CreatePods)
        and last.collect_metrics
        and last.steady_state_s is None
        and not last.skip_wait
        and all(each.opcode in simple for each in before)
        and not any(isinstance(each, CreatePods) and each.collect_metrics for each in before)
    )


@dataclass(frozen=True)
class _Usage:
    """A moment, and the CPU seconds used up to it."""

    at: float
    contestant: float
    servers: float
    #: By all that is neither ours nor nice nor the idle task.
    others: float
    #: By processes with a nice value above 0.
    nice: float


class Trial:
    """Runs one contestant; `measure` may be called once. It is the workload's observer."""

    def __init__(
        self,
        contestant: Contestant,
        conditions: Conditions,
        round_number: int,
        say: Callable[[str], None],
    ) -> None:
        self._contestant = contestant
        self._conditions = conditions
        self._workload = conditions.workload
        self._round = round_number
        self._say = say
        self._seen = BindObserver()
        self._pace = Pace()
        self._measurement: Measurement | None = None
        self.is_measuring = False
        self._phase = ""
        self._began: _Usage | None = None

    def measure(self) -> Run:
        """Measure the contestant on a control plane of its own.

        Raises BenchError or ControlPlaneError if something ends or hangs.
        """
        self._say("starting a control plane")
        flags = apiserver_flags(self._workload.feature_gates)
        with ControlPlane(
            disabled_admission_plugins=ADMISSION_OFF_IN_SCHEDULER_PERF, apiserver_flags=flags
        ) as servers:
            self._servers = servers
            if self._workload.has_devices:
                # scheduler_perf runs this controller, too.
                servers.start_controller_manager(controllers="resourceclaim-controller")
            return run_interruptibly(self._measure())

    async def _measure(self) -> Run:
        config = load_cluster_config(kubeconfig=str(self._servers.kubeconfig))
        self._kubeconfig = scheduler_kubeconfig(self._servers)
        async with (
            Sender(config, WRITERS) as sender,
            session(config, JSON) as client,
            self._seen.watching(config),
        ):
            parts = (sender, client, self._seen, self._check, self._contestant.label)
            cluster = _Backlog(self, *parts) if self._conditions.backlog else LiveCluster(*parts)
            await self.start(self._workload.pods)
            try:
                await play(self._workload, cluster, observer=self)
                run = await self._figures(cluster)
                self.stop()
                return await self._with_first_bind(run, sender)
            except StowplanError as problem:
                tail = self._process.tail()
                message = f"{problem}; the log of {self._process.name} ends:\n{tail}"
                raise BenchError(message) from problem
            finally:
                self._pace.end()
                self._process.stop(0.0)

    # -- the contestant's process ---------------------------------------------------------------

    async def start(self, pods: int) -> None:
        workload = self._workload
        start = Start(
            self._servers.directory,
            self._kubeconfig,
            None if workload.is_steady else pods,
            workload.has_devices,
            workload.scheduler_feature_gates,
            workload.emulated_version,
            workload.scheduler_config,
            self._conditions.profile,
        )
        compile_modules()
        command = self._contestant.command(start)
        log = self._servers.directory / "logs" / "contestant.log"
        self._started = time.monotonic()
        self._process = ServerProcess(
            self._contestant.slug, command, log, environment=environment()
        )
        if self.is_measuring:  # of a backlog: its start is part of it
            self._began = self._usage()
        try:
            await self._until_ready(start)
        except BaseException:
            self._process.stop(0.0)
            raise

    async def _until_ready(self, start: Start) -> None:
        while not self._contestant.is_ready(self._process, start):
            self._process.check_running()
            if time.monotonic() - self._started > _START_S:
                problem = f"{self._process.name} was not ready within {_START_S:.0f} s"
                raise BenchError(f"{problem}; its log ends:\n{self._process.tail()}")
            await asyncio.sleep(_POLL_S)

    def stop(self) -> None:
        self._process.stop(0.0 if self._conditions.profile is None else _PROFILE_GRACE_S)

    def _check(self) -> None:
        self._process.check_running()
        self._servers.check_running()
        self._seen.check()
        self._say(f"{self._phase}, {len(self._seen.bound):,} pods bound")

    def _usage(self) -> _Usage:
        servers = sum(cpu_seconds(pid) for pid in self._servers.pids.values())
        machine = machine_cpu()
        return _Usage(
            time.monotonic(),
            cpu_seconds(self._process.pid),
            servers,
            machine.total - cpu_seconds(os.getpid()),
            machine.nice,
        )

    # -- what the workload tells ----------------------------------------------------------------

    def operation_begins(self, number: int, operation: Operation) -> None:
        count = getattr(operation, "count", None)
        self._phase = operation.opcode if count is None else f"{operation.opcode} {count:,}"
        self._say(self._phase)

    def operation_ended(self, number: int, operation: Operation) -> None:
        pass

    async def measuring_begins(self, measurement: Measurement) -> None:
        await self._until_events_rest()
        self._measurement = measurement
        self.is_measuring = True
        if self._conditions.backlog:
            self.stop()  # and started again when the pods are there
        else:
            self._began = self._usage()
        self._pace.begin()

    def measuring_ends(self, measurement: Measurement) -> None:
        self.is_measuring = False
        self._pace.end()

    # -- figures --------------------------------------------------------------------------------

    async def _figures(self, cluster: LiveCluster) -> Run:
        measurement, began = self._measurement, self._began
        if measurement is None or began is None:
            raise BenchError(f"{self._workload.title} has nothing to measure")
        bound = self._seen.bound_in(frozenset(measurement.namespaces), measurement.labels, began.at)
        if not bound:
            raise BenchError(f"no measured pod of {self._workload.title} was bound")
        if self._contestant.writes_events:
            await self._until_events_end(bound)
        ended = self._usage()
        first, last = min(bound.values()), max(bound.values())
        told = {key: at for key, at in self._seen.events.items() if key in bound}
        sent = {key: cluster.sent_at[key] for key in bound if key in cluster.sent_at}
        lags = [max(at - bound[key], 0.0) for key, at in told.items()]
        waits = [bound[key] - at for key, at in sent.items()]
        backlog, per_1000 = self._conditions.backlog, 1000 / len(bound)
        return Run(
            contestant=self._contestant.label,
            round=self._round,
            pods=len(bound),
            pods_per_s=throughput(list(bound.values())),
            took_s=last - began.at,
            created_per_s=throughput(list(sent.values())),
            latency_p50_s=None if backlog else percentile(waits, 0.5),
            latency_p99_s=None if backlog else percentile(waits, 0.99),
            cpu_per_1000=(ended.contestant - began.contestant) * per_1000,
            server_cpu_per_1000=(ended.servers - began.servers) * per_1000,
            peak_rss_mib=peak_rss_mib(self._process.pid),
            first_bind_s=first - self._started if backlog else None,
            events=len(told),
            events_at_last_bind=sum(at <= last for at in told.values()),
            last_event_s=max(max(told.values()) - last, 0.0) if told else None,
            event_lag_p99_s=percentile(lags, 0.99) if lags else None,
            others_cores=max(ended.others - began.others, 0.0) / (ended.at - began.at),
            nice_cores=(ended.nice - began.nice) / (ended.at - began.at),
            fixed_work_s=self._pace.median_s,
            binds_over_time=over_time(list(bound.values())),
        )

    async def _until_events_rest(self) -> None:
        """Wait until the events of earlier pods are written, for a limited time.

        So a contestant writes only the events of measured pods while the clock runs. A workload
        with constant activity never gets there.
        """
        before: int | None = None
        deadline = time.monotonic() + _SETTLE_AT_MOST_S
        while time.monotonic() < deadline:
            there = await self._seen.count_events()
            if before is not None and there - before < _FEW_EVENTS:
                return
            before = there
            self._check()
            await asyncio.sleep(_SETTLE_POLL_S)

    async def _until_events_end(self, bound: Collection[str]) -> None:
        """Wait until the count of events no longer grows, then read them."""
        self._phase = "waiting for events"
        count, grew_at = -1, time.monotonic()
        while time.monotonic() - grew_at < _EVENTS_IDLE_S:
            self._check()
            there = await self._seen.count_events()
            if there != count:
                count, grew_at = there, time.monotonic()
            else:
                await self._seen.read_events()
                if all(key in self._seen.events for key in bound):
                    return
            await asyncio.sleep(_EVENTS_POLL_S)

    async def _with_first_bind(self, run: Run, sender: Sender) -> Run:
        """How long a new process takes to its first bind on what is there now."""
        is_known = run.first_bind_s is not None
        if is_known or not self._contestant.is_scheduler or self._conditions.profile is not None:
            return run
        self._phase = "starting again, for the time to the first bind"
        await sender.call(PODS_PATH, _probe_pod())
        key = f"default/{_PROBE}"
        await self.start(0)
        deadline = self._started + _START_S
        while key not in self._seen.bound:
            if time.monotonic() > deadline:
                return run
            self._check()
            await asyncio.sleep(_POLL_S)
        took = self._seen.bound[key] - self._started
        return msgspec.structs.replace(run, first_bind_s=took)


class _Backlog(LiveCluster):
    """Lets the contestant, which is away while the measured pods are created, start then."""

    def __init__(
        self,
        trial: Trial,
        sender: Sender,
        client: ClientSession,
        observer: BindObserver,
        check: Callable[[], None],
        contestant: str,
    ) -> None:
        super().__init__(sender, client, observer, check, contestant)
        self._trial = trial

    async def wait_for_pods(self, namespace: str, names: Collection[str], stage: Stage) -> None:
        if self._trial.is_measuring:
            await self.wait_for_claims(namespace)
            await self._trial.start(len(names))
        await super().wait_for_pods(namespace, names, stage)


def _probe_pod() -> dict[str, Any]:
    """A pod without requests that tolerates every taint, so it fits on any node."""
    container = {"name": "pause", "image": "registry.k8s.io/pause:3.10.1"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": _PROBE},
        "spec": {"containers": [container], "tolerations": [{"operator": "Exists"}]},
    }
