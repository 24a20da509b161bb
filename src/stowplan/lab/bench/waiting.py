"""What it costs to wait, and how soon the waiting ends: `python -m stowplan.bench.waiting`.

Three figures for Stowplan alone, in under four minutes: from a place becoming free to the bind of
a pod that waited for it; CPU time while many pods wait for what never comes; and the search for
pods to evict, which needs no control plane.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Any

from stowplan.api.client import ApiClient
from stowplan.api.kubeconfig import ClusterConfig, load_cluster_config
from stowplan.api.objects import PodStatus
from stowplan.api.resources import PODS
from stowplan.cluster.pod_info import compile_pod
from stowplan.config.defaults import default_config
from stowplan.lab.bench.as_command import as_command
from stowplan.lab.bench.contestants import STOWPLAN, Start, scheduler_kubeconfig
from stowplan.lab.bench.figures import percentile
from stowplan.lab.bench.observe import NAMESPACE, PODS_PATH, BindObserver, cpu_seconds, machine_cpu
from stowplan.lab.bench.sender import Sender
from stowplan.lab.controlplane.cluster import ControlPlane
from stowplan.lab.controlplane.components import ADMISSION_OFF_IN_SCHEDULER_PERF
from stowplan.lab.controlplane.processes import ControlPlaneError, ServerProcess
from stowplan.plugins.registry import in_tree_registry
from stowplan.scheduler.assembly import build_engine
from stowplan.scheduler.cycle import decide
from stowplan.testing import node, pod

NODES = 1_000
WAITING = 1_000
#: Places that become free, one after the other.
PLACES = 60
#: Between two of them, long enough for the attempts of the pods that lost the race.
PAUSE_S = 0.5
IDLE_NODES = 100
IDLE_PODS = 10_000
IDLE_S = 30.0
SEARCHED_NODES = 5_000
SEARCHES = 20
_PATIENCE_S = 60.0

Row = tuple[str, str]


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _node(number: int) -> dict[str, Any]:
    name = f"node-{number:05}"
    zone = {"topology.kubernetes.io/zone": f"zone-{number % 3}"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name} | zone},
        "status": {
            "capacity": {"cpu": "1", "memory": "32Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def _pod(name: str, **spec: Any) -> dict[str, Any]:
    """A pod that needs a whole node."""
    amounts = {"cpu": "1", "memory": "500Mi"}
    container = {
        "name": "pause",
        "image": "registry.k8s.io/pause:3.10.1",
        "resources": {"requests": amounts, "limits": amounts},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container]} | spec,
    }


class Scene:
    """A control plane with Stowplan on it."""

    def __init__(self, servers: ControlPlane, config: ClusterConfig) -> None:
        self._servers = servers
        self.config = config
        self.observer = BindObserver(event_reason="FailedScheduling")

    async def create(self, objects: Iterator[tuple[str, dict[str, Any]]]) -> None:
        async with Sender(self.config) as sender:
            sender.submit(sender.request(path, body) for path, body in objects)
            await sender.drain()

    def start(self) -> ServerProcess:
        directory = self._servers.directory
        command = STOWPLAN.command(Start(directory, scheduler_kubeconfig(self._servers), 0))
        return ServerProcess("stowplan", command, directory / "logs" / "stowplan.log")

    async def until(self, what: str, is_so: Callable[[], bool], process: ServerProcess) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while not is_so():
            if time.monotonic() > deadline:
                raise ControlPlaneError(f"timed out waiting for {what}:\n{process.tail()}")
            process.check_running()
            self.observer.check()
            await asyncio.sleep(0.001)

    async def until_refused(self, count: int, process: ServerProcess) -> None:
        """Wait until every pod has an event of its failed attempt and the scheduler is idle."""
        events = self.observer.events
        await self.until(f"{count} events", lambda: len(events) >= count, process)
        used = -1.0
        while cpu_seconds(process.pid) - used > 0.03:
            used = cpu_seconds(process.pid)
            await asyncio.sleep(1.0)


def on_control_plane(play: Callable[[Scene], Any]) -> list[Row]:
    with ControlPlane(disabled_admission_plugins=ADMISSION_OFF_IN_SCHEDULER_PERF) as servers:
        config = load_cluster_config(kubeconfig=str(servers.kubeconfig))
        rows: list[Row] = asyncio.run(play(Scene(servers, config)))
        return rows


def _has_grown(seen: dict[str, float], size: int) -> bool:
    return len(seen) > size


async def free_places(scene: Scene) -> list[Row]:
    """Time binds on a full cluster: delete one pod after the other while others wait."""
    say(f"{NODES} full nodes, {WAITING} waiting pods")
    nodes = [_node(number) for number in range(NODES)]
    await scene.create(("/api/v1/nodes", each) for each in nodes)
    full = [
        _pod(f"full-{number:05}", nodeName=each["metadata"]["name"])
        for number, each in enumerate(nodes)
    ]
    await scene.create((PODS_PATH, each) for each in full)
    await scene.create((PODS_PATH, _pod(f"wait-{number:05}")) for number in range(WAITING))
    bound = scene.observer.bound
    took: list[float] = []
    async with scene.observer.watching(scene.config), ApiClient(scene.config) as client:
        process = scene.start()
        try:
            await scene.until_refused(WAITING, process)
            for number in range(PLACES):
                seen = len(bound)
                began = time.monotonic()
                name = f"full-{number:05}"
                await client.delete(PODS, name, namespace=NAMESPACE, grace_period_s=0)
                await scene.until("a bind", partial(_has_grown, bound, seen), process)
                took.append(max(bound.values()) - began)
                if number % 20 == 19:
                    say(f"{number + 1} of {PLACES} places taken")
                await asyncio.sleep(PAUSE_S)
        finally:
            process.stop(0.0)
    title = f"a place becomes free to bind, {NODES} nodes, {WAITING} waiting pods"
    return [
        (f"{title}, p{share}", f"{percentile(took, share / 100) * 1e3:.0f} ms")
        for share in (50, 99)
    ]


async def wait_idle(scene: Scene) -> list[Row]:
    """Measure CPU time while pods wait that fit on no node, and nothing happens."""
    say(f"{IDLE_PODS} pods that fit nowhere")
    await scene.create(("/api/v1/nodes", _node(number)) for number in range(IDLE_NODES))
    selector = {"example.com/none": "such"}
    await scene.create(
        (PODS_PATH, _pod(f"idle-{number:05}", nodeSelector=selector)) for number in range(IDLE_PODS)
    )
    async with scene.observer.watching(scene.config):
        process = scene.start()
        try:
            await scene.until_refused(IDLE_PODS, process)
            say(f"all are refused; sampling for {IDLE_S:.0f} s")
            before, others = cpu_seconds(process.pid), machine_cpu().total
            await asyncio.sleep(IDLE_S)
            used = cpu_seconds(process.pid) - before
            busy = (machine_cpu().total - others - used) / IDLE_S
        finally:
            process.stop(0.0)
    per_minute = used * 60 / IDLE_S
    return [
        (f"CPU while {IDLE_PODS} pods wait idle", f"{per_minute:.2f} s a minute"),
        ("  cores busy with other things meanwhile", f"{busy:.1f} of {os.cpu_count()}"),
    ]


def search_victims(on_each: int) -> Row:
    """One decision for a pod that needs half a node, where every node is full of lesser pods."""
    say(f"{SEARCHED_NODES} nodes with {on_each} pods each")
    engine = build_engine(default_config(), registry=in_tree_registry(), rng=Random(1))
    for number in range(SEARCHED_NODES):
        name = f"n{number}"
        engine.cache.set_node(node(name, cpu=32, zone=f"z{number % 3}"))
        for place in range(on_each):
            began = f"2026-01-01T00:{place:02}:00Z"
            engine.cache.add_pod(
                pod(
                    node=name,
                    cpu=f"{32_000 // on_each}m",
                    priority=place % 3,
                    status=PodStatus(phase="Running", start_time=began),
                )
            )
    important = compile_pod(pod("important", cpu=16, priority=100))
    profile = next(iter(engine.profiles.values()))
    gc.collect()
    gc.freeze()  # as a running scheduler does
    took: list[float] = []
    for _ in range(SEARCHES):
        began_at = time.perf_counter()
        decision = decide(engine.cache.table, important, profile)
        took.append(time.perf_counter() - began_at)
        assert decision.eviction is not None
    title = f"a decision that evicts, {SEARCHED_NODES} nodes, {on_each} pods each, p50 (best)"
    return title, f"{percentile(took, 0.5) * 1e3:.1f} ms ({min(took) * 1e3:.1f} ms)"


def main() -> int:
    try:
        rows = [search_victims(4), search_victims(20)]
        rows += on_control_plane(free_places)
        rows += on_control_plane(wait_idle)
    except ControlPlaneError as problem:
        say(f"Error: {problem}")
        return 1
    width = max(len(title) for title, _ in rows)
    for title, figure in rows:
        print(f"{title:<{width}}  {figure}")
    return 0


if __name__ == "__main__":
    sys.exit(as_command(main, "nothing was kept"))
