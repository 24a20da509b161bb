"""What the benchmark sees from outside: binds and events as they arrive, and CPU time used.

Called by `run`. What must stay true: watching costs the API server the same whoever binds. So it
asks for metadata only, an encoding that no contestant's own watch shares.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import msgspec

from stowplan.api.kubeconfig import ClusterConfig
from stowplan.api.tls import build_context
from stowplan.controlplane.processes import ControlPlaneError

NAMESPACE = "default"
PODS_PATH = f"/api/v1/namespaces/{NAMESPACE}/pods"
EVENTS_PATH = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"
#: A pod that is there to wake a contestant up; its event does not count.
WARM_UP = "warm-up"
_METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class _Metadata(msgspec.Struct, rename="camel"):
    name: str = ""
    resource_version: str = ""


class _Object(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class _Change(msgspec.Struct):
    type: str
    object: _Object


_decode_change = msgspec.json.Decoder(_Change).decode


class Observer:
    """Notes when each pod was bound and when each pod's event arrived."""

    def __init__(self) -> None:
        self.bound: dict[str, float] = {}
        self.events: dict[str, float] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def check(self) -> None:
        """Raise if something was missed."""
        for task in self._tasks:
            if task.done():
                try:
                    task.result()
                except (aiohttp.ClientError, msgspec.DecodeError) as error:
                    raise ControlPlaneError(f"the benchmark cannot watch: {error}") from error

    @asynccontextmanager
    async def watching(self, config: ClusterConfig) -> AsyncIterator[None]:
        headers = {"Authorization": f"Bearer {config.token}", "Accept": _METADATA_ONLY}
        async with aiohttp.ClientSession(
            base_url=config.server,
            connector=aiohttp.TCPConnector(ssl=build_context(config)),
            headers=headers,
            timeout=aiohttp.ClientTimeout(total=None),
            raise_for_status=True,
        ) as session:
            self._tasks = [
                # Once it is bound a pod fits the selector, which counts as being added.
                asyncio.create_task(
                    self._watch(session, PODS_PATH, "spec.nodeName!=", self.note_pod)
                ),
                asyncio.create_task(self._watch(session, EVENTS_PATH, "", self.note_event)),
            ]
            try:
                yield
            finally:
                for task in self._tasks:
                    task.cancel()
                await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _watch(
        self,
        session: aiohttp.ClientSession,
        path: str,
        selector: str,
        note: Callable[[str, float], None],
    ) -> None:
        """Follow for ever. A busy API server cuts watches off, so go on from where it was."""
        version = ""  # at first: all there is, then what comes
        while True:
            params = {"watch": "1", "fieldSelector": selector, "resourceVersion": version}
            async with session.get(path, params=params) as stream:
                async for line in stream.content:
                    change = _decode_change(line)
                    if change.type == "ERROR":
                        raise ControlPlaneError(f"watch of {path}: {line.decode().strip()}")
                    version = change.object.metadata.resource_version
                    if change.type == "ADDED":
                        note(change.object.metadata.name, time.monotonic())

    def note_pod(self, name: str, now: float) -> None:
        self.bound.setdefault(name, now)

    def note_event(self, name: str, now: float) -> None:
        # An event is called after its pod: pod-00001.18a3b...
        pod = name.rpartition(".")[0]
        if pod != WARM_UP:
            self.events.setdefault(pod, now)


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


def machine_cpu_seconds() -> float:
    """CPU time that everything on this machine has used since it was started."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    idle = int(fields[3]) + int(fields[4])  # with waiting for disks
    guests = sum(int(field) for field in fields[8:10])  # counted in user time already
    return (sum(int(field) for field in fields) - idle - guests) / _TICKS_PER_S
