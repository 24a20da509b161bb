"""One contestant on one fresh control plane: set up, start, watch, measure.

Called by `__main__` for each contestant in each round. What must stay true: nothing but the
contestant works while the clock runs, and no process is left behind.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stowplan.api.kubeconfig import load_cluster_config
from stowplan.bench.contestants import Contestant, Start, scheduler_kubeconfig
from stowplan.bench.observe import (
    PODS_PATH,
    WARM_UP,
    Observer,
    cpu_seconds,
    machine_cpu_seconds,
    peak_rss_mib,
)
from stowplan.bench.raw import Sender
from stowplan.bench.report import Run, percentile, throughput
from stowplan.controlplane.cluster import ControlPlane
from stowplan.controlplane.components import ADMISSION_OFF_IN_SCHEDULER_PERF
from stowplan.controlplane.processes import ControlPlaneError, ServerProcess

ZONES = 3
_POLL_S = 0.02
_PROGRESS_S = 5.0
#: Nothing bound for so long: the contestant has failed.
_STALL_S = 60.0
#: No event for so long after the last bind: there are no more.
_EVENTS_IDLE_S = 5.0
#: A profile is written by an orderly end only.
_PROFILE_GRACE_S = 60.0


@dataclass(frozen=True)
class Workload:
    """Plain pods on equal nodes, the SchedulingBasic of Kubernetes' scheduler_perf."""

    nodes: int
    pods: int
    #: Pods are created while the contestant runs; otherwise all are there when it starts.
    stream: bool = False

    def node(self, number: int) -> dict[str, Any]:
        name = f"node-{number:05}"
        zone = {"topology.kubernetes.io/zone": f"zone-{number % ZONES}"}
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name} | zone},
            "status": {
                "capacity": {"cpu": "4", "memory": "32Gi", "pods": "110"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }

    def pod(self, name: str) -> dict[str, Any]:
        amounts = {"cpu": "100m", "memory": "500Mi"}
        container = {
            "name": "pause",
            "image": "registry.k8s.io/pause:3.10.1",
            "ports": [{"containerPort": 80}],
            "resources": {"requests": amounts, "limits": amounts},
        }
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {"containers": [container]},
        }


class Measurement:
    """Runs one contestant; `measure` may be called once."""

    def __init__(
        self,
        contestant: Contestant,
        workload: Workload,
        *,
        round_number: int,
        say: Callable[[str], None],
        profile: Path | None = None,
    ) -> None:
        self._contestant = contestant
        self._workload = workload
        self._round = round_number
        self._say = say
        self._profile = profile
        self._observer = Observer()
        self._sent_at: dict[str, float] = {}
        self._created_per_s = 0.0

    def measure(self) -> Run:
        """On a control plane of its own; raises ControlPlaneError if something ends or hangs."""
        with ControlPlane(disabled_admission_plugins=ADMISSION_OFF_IN_SCHEDULER_PERF) as servers:
            return asyncio.run(self._measure(servers))

    async def _measure(self, servers: ControlPlane) -> Run:
        config = load_cluster_config(kubeconfig=str(servers.kubeconfig))
        pods = self._workload.pods + (1 if self._workload.stream else 0)  # with the warm-up pod
        start = Start(servers.directory, scheduler_kubeconfig(servers), pods, self._profile)
        async with Sender(config) as sender:
            sender.submit(
                sender.request("/api/v1/nodes", self._workload.node(number))
                for number in range(self._workload.nodes)
            )
            await sender.drain()
            if not self._workload.stream:
                await self._create_pods(sender)
            # Not before the pods are there: the API server grants a watch a buffer by how busy
            # the resource has been until then.
            async with self._observer.watching(config):
                started = time.monotonic()
                process = ServerProcess(
                    self._contestant.key.replace("/", "-"),
                    self._contestant.command(start),
                    servers.directory / "logs" / "contestant.log",
                )
                try:
                    return await self._watch(process, servers, sender, started)
                finally:
                    process.stop(0.0 if self._profile is None else _PROFILE_GRACE_S)

    async def _create_pods(self, sender: Sender) -> None:
        def requests() -> Iterator[bytes]:
            for number in range(self._workload.pods):
                name = f"pod-{number:05}"
                request = sender.request(PODS_PATH, self._workload.pod(name))
                self._sent_at[name] = time.monotonic()
                yield request

        began = time.monotonic()
        sender.submit(requests())
        await sender.drain()
        self._created_per_s = self._workload.pods / (time.monotonic() - began)
        self._say(f"{self._workload.pods} pods created, {self._created_per_s:.0f}/s")

    async def _first_bind(self, process: ServerProcess, sender: Sender) -> float:
        """When the contestant bound its first pod, which is one more where pods come later."""
        if self._workload.stream:
            sender.submit([sender.request(PODS_PATH, self._workload.pod(WARM_UP))])
        await self._until_bound(1, process)
        bound = self._observer.bound
        return bound.pop(WARM_UP) if self._workload.stream else min(bound.values())

    async def _watch(
        self, process: ServerProcess, servers: ControlPlane, sender: Sender, started: float
    ) -> Run:
        bound, events, pods = self._observer.bound, self._observer.events, self._workload.pods
        streamed = self._workload.stream
        server_pids = list(servers.pids.values())

        def usage() -> tuple[float, float, float]:
            """Of the contestant, of kube-apiserver and etcd, and of all that is not ours."""
            server = sum(cpu_seconds(pid) for pid in server_pids)
            others = machine_cpu_seconds() - cpu_seconds(os.getpid())
            return cpu_seconds(process.pid), server, others

        first_bind = await self._first_bind(process, sender)
        began, before = time.monotonic(), usage()
        if streamed:
            await self._create_pods(sender)
        await self._until_bound(pods, process)
        events_at_last_bind = len(events)
        if self._contestant.writes_events:
            await self._grows_to(events, pods, process, _EVENTS_IDLE_S)
        took = time.monotonic() - began
        own, server, others = (
            later - earlier for later, earlier in zip(usage(), before, strict=True)
        )
        last = max(bound.values())
        lags = [max(at - bound[name], 0.0) for name, at in events.items() if name in bound]
        latencies = [at - self._sent_at[name] for name, at in bound.items()]
        return Run(
            contestant=self._contestant.label,
            round=self._round,
            pods=pods,
            pods_per_s=throughput(list(bound.values())),
            created_per_s=self._created_per_s,
            first_bind_s=first_bind - started,
            startup_cpu_s=before[0],
            cpu_per_1000=own / pods * 1000,
            server_cpu_per_1000=server / pods * 1000,
            peak_rss_mib=peak_rss_mib(process.pid),
            events_at_last_bind=events_at_last_bind,
            events=len(events),
            last_event_s=max(events.values()) - last if events else None,
            event_lag_p99_s=percentile(lags, 0.99) if lags else None,
            latency_p50_s=percentile(latencies, 0.5) if streamed else None,
            latency_p99_s=percentile(latencies, 0.99) if streamed else None,
            others_cores=max(others, 0.0) / took,
        )

    async def _until_bound(self, count: int, process: ServerProcess) -> None:
        if not await self._grows_to(self._observer.bound, count, process, _STALL_S):
            problem = f"{process.name} has bound nothing for {_STALL_S:.0f} s"
            raise ControlPlaneError(f"{problem}; its log ends:\n{process.tail()}")

    async def _grows_to(
        self, seen: dict[str, float], count: int, process: ServerProcess, patience_s: float
    ) -> bool:
        """Wait, with a word now and then; False once nothing has come for `patience_s`."""
        size, grew_at, said_at = len(seen), time.monotonic(), time.monotonic()
        while len(seen) < count:
            await asyncio.sleep(_POLL_S)
            process.check_running()
            self._observer.check()
            now = time.monotonic()
            if len(seen) != size:
                size, grew_at = len(seen), now
            if now - grew_at > patience_s:
                return False
            if now - said_at > _PROGRESS_S:
                said_at = now
                bound, events = len(self._observer.bound), len(self._observer.events)
                self._say(f"{bound} of {self._workload.pods} pods bound, {events} events")
        return True
