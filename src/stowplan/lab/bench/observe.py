"""What the benchmark sees from outside: binds as they arrive, events, and CPU time used.

Called by `run` and `live`. What must stay true: the watch costs the API server the same with every
contestant. So it asks for metadata only, an encoding that no contestant's own watch shares. Events
are listed after the run: a watch of them would slow down only the contestants that write events.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import aiohttp
import msgspec

from stowplan.api.kubeconfig import ClusterConfig
from stowplan.lab.bench.follow import (
    METADATA_OF_ALL,
    METADATA_ONLY,
    Followed,
    Metadata,
    follow,
    listed,
    session,
)
from stowplan.lab.controlplane.processes import ControlPlaneError

NAMESPACE = "default"
PODS_PATH = f"/api/v1/namespaces/{NAMESPACE}/pods"
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


_EVENTS_PATH = "/apis/events.k8s.io/v1/events"


class BindObserver:
    """Notes when each pod was bound and when its event arrived, by "namespace/name".

    With an `event_reason` such events are watched, else `read_events` finds them afterwards.
    """

    def __init__(self, event_reason: str = "") -> None:
        self._event_reason = event_reason
        self.bound: dict[str, float] = {}
        self.events: dict[str, float] = {}
        #: Of bound pods, by namespace.
        self.count: Counter[str] = Counter()
        self.labels: dict[str, Mapping[str, str]] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def check(self) -> None:
        """Raise if the watch has missed something."""
        for task in self._tasks:
            if task.done():
                try:
                    task.result()
                except (aiohttp.ClientError, msgspec.DecodeError) as error:
                    raise ControlPlaneError(f"the benchmark cannot watch: {error}") from error

    @asynccontextmanager
    async def watching(self, config: ClusterConfig) -> AsyncIterator[None]:
        async with session(config, METADATA_ONLY) as client:
            self._client = client
            self._tasks = [asyncio.create_task(self._watch_pods(client))]
            if self._event_reason:
                self._tasks.append(asyncio.create_task(self._watch_events(client)))
            try:
                yield
            finally:
                for task in self._tasks:
                    task.cancel()
                await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _watch_pods(self, client: aiohttp.ClientSession) -> None:
        # Once it is bound a pod fits the selector, which counts as being added.
        selector = {"fieldSelector": "spec.nodeName!="}
        async for change in follow(client, "/api/v1/pods", selector, Followed):
            if change.type == "ADDED":
                self.note_pod(change.object.metadata, time.monotonic())

    async def _watch_events(self, client: aiohttp.ClientSession) -> None:
        selector = {"fieldSelector": f"reason={self._event_reason}"}
        async for change in follow(client, _EVENTS_PATH, selector, Followed):
            if change.type == "ADDED":
                self.note_event(change.object.metadata, time.monotonic())

    async def count_events(self) -> int:
        """The number of events of any kind, at next to no cost."""
        there, about = await listed(
            self._client, _EVENTS_PATH, {"limit": "1"}, accept=METADATA_OF_ALL
        )
        return len(there) + about.remaining_item_count

    async def read_events(self) -> None:
        """Read the events of binds and note when each arrived.

        The API server keeps when each came to the second; it counts as the end of that second.
        """
        selector = {"fieldSelector": "reason=Scheduled"}
        there, _ = await listed(self._client, _EVENTS_PATH, selector, accept=METADATA_OF_ALL)
        since = time.time() - time.monotonic()
        for event in there:
            assert event.creation_timestamp is not None
            self.note_event(event, event.creation_timestamp.timestamp() + 1.0 - since)

    def note_pod(self, pod: Metadata, now: float) -> None:
        key = f"{pod.namespace}/{pod.name}"
        if key not in self.bound:
            self.bound[key] = now
            self.count[pod.namespace] += 1
            self.labels[key] = pod.labels

    def note_event(self, event: Metadata, now: float) -> None:
        # An event is called after its pod: pod-00001.18a3b...
        pod = event.name.rpartition(".")[0]
        self.events.setdefault(f"{event.namespace}/{pod}", now)

    def bound_in(
        self, namespaces: frozenset[str], selector: Mapping[str, str], since: float
    ) -> dict[str, float]:
        """The pods of these namespaces, with these labels, that were bound since then."""
        return {
            key: at
            for key, at in self.bound.items()
            if at >= since
            and key.partition("/")[0] in namespaces
            and selector.items() <= self.labels[key].items()
        }


# -- what a process has used ----------------------------------------------------------------------


def cpu_seconds(pid: int) -> float:
    """CPU time of a process and its descendants so far, by the kernel's accounts."""
    process = Path(f"/proc/{pid}")
    # The name, in parentheses, may hold anything; what follows is numbers.
    fields = (process / "stat").read_text().rpartition(")")[2].split()
    own = sum(int(field) for field in fields[11:15]) / _TICKS_PER_S
    # A child belongs to the thread that started it.
    children = [file.read_text().split() for file in process.glob("task/*/children")]
    return own + sum(cpu_seconds(int(child)) for its in children for child in its)


def peak_rss_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    peak = next(line for line in lines if line.startswith("VmHWM:"))
    return int(peak.split()[1]) / 1024


class MachineCpu(NamedTuple):
    """CPU seconds that everything on this machine has used since it was started."""

    #: Without processes with a nice value above 0, because they yield to the contestants. Kernel
    #: time on their behalf cannot be separated and counts. If this process is nice itself, so are
    #: the contestants: no process yields to them, and everything counts.
    total: float
    #: CPU seconds of those nice processes. They disturb less than others, but each context switch
    #: takes time and evicts the contestants' data from the processor's caches.
    nice: float


def machine_cpu() -> MachineCpu:
    return read_cpu(Path("/proc/stat").read_text(), leave_out_nice=os.nice(0) <= 0)


def read_cpu(stat: str, *, leave_out_nice: bool) -> MachineCpu:
    """Parse the first line of /proc/stat; proc(5) has its columns."""
    columns = stat.split("\n", 1)[0].split()[1:9]  # what guests use is in user and nice already
    user, nice, system, _idle, _iowait, irq, softirq, steal = (
        int(ticks) / _TICKS_PER_S for ticks in columns
    )
    total = user + system + irq + softirq + steal
    return MachineCpu(total, nice) if leave_out_nice else MachineCpu(total + nice, 0.0)
