"""A console with a real engine behind it, without an API server: for tests and for pictures.

Objects come from the builders, so names and labels may be what no API server accepts. Pods are
decided by the engine; what a scheduler would write to them is put into the objects.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from random import Random

from msgspec.structs import replace

from stowplan.api.objects import Condition, Node, Pod
from stowplan.clock import SystemClock
from stowplan.config.defaults import default_config
from stowplan.console.mirror import MirroringHandlers, mirror_of
from stowplan.console.serving import Console
from stowplan.scheduler.assembly import build_engine
from stowplan.scheduler.ledger import Ledger
from stowplan.scheduler.outcome import Placement
from stowplan.testing import node, pod

ZONE = "topology.kubernetes.io/zone"


class ShiftedClock:
    """The machine's time, and what a test adds to it."""

    def __init__(self, began_s_ago: float) -> None:
        self._clock = SystemClock()
        self._ago = began_s_ago
        self.shift = 0.0

    def monotonic(self) -> float:
        return self._clock.monotonic() + self.shift

    def boottime(self) -> float:
        return self._clock.boottime() + self.shift

    def time(self) -> float:
        return self._clock.time() - self._ago + self.shift


class Stage:
    """Nodes and pods, decided as they come; `console()` shows them."""

    def __init__(self, *, with_engine: bool = True, began_s_ago: float = 0.0) -> None:
        self.clock = ShiftedClock(began_s_ago)
        self.engine = build_engine(default_config(), clock=SystemClock())
        self.engine.ledger = Ledger(self.engine.clock)
        self.mirror = mirror_of(default_config())
        self.mirror.is_synced = lambda: True
        self.handlers = MirroringHandlers(self.engine, self.mirror)
        self._with_engine = with_engine
        self.console = self._new_console()

    def _new_console(self) -> Console:
        return Console(self.mirror, self.engine if self._with_engine else None, self.clock)

    def add_nodes(self, nodes: Iterable[Node]) -> None:
        for each in nodes:
            self.handlers.add_node(each)

    def add_pods(self, pods: Iterable[Pod]) -> None:
        """Let the engine try the pods that have no node."""
        for each in pods:
            self.handlers.add_pod(each)
        while (outcome := self.engine.attempt()) is not None:
            if isinstance(outcome, Placement):
                self.engine.bound(outcome)
                placed = replace(outcome.pod, status=replace(outcome.pod.status, phase="Running"))
                self.handlers.update_pod(outcome.queued.pod, placed)
            else:
                refused = Condition(
                    type="PodScheduled",
                    status="False",
                    reason="Unschedulable",
                    message=outcome.message,
                )
                status = replace(outcome.pod.status, conditions=(refused,))
                self.handlers.update_pod(outcome.pod, replace(outcome.pod, status=status))

    @asynccontextmanager
    async def served(self, port: int = 0) -> AsyncIterator[str]:
        """The address of the console; a second time, as after a restart of the process."""
        await self.console.start(socket.create_server(("127.0.0.1", port)))
        try:
            yield self.console.url
        finally:
            await self.console.stop()
            self.console = self._new_console()


def busy_stage(*, nodes: int = 240, seconds: int = 0, seed: int = 7) -> Stage:
    """Three zones, machines of three sizes, some tainted or cordoned, and pods that do not fit."""
    rng = Random(seed)
    stage = Stage(began_s_ago=seconds)
    sizes = ((8, "32Gi"), (16, "64Gi"), (32, "128Gi"))
    stage.add_nodes(
        node(
            f"worker-{number:04d}",
            cpu=cpu,
            memory=memory,
            zone=f"eu-west-1{'abc'[number % 3]}",
            labels={"node.kubernetes.io/instance-type": f"m.{cpu}x"},
            resources={"nvidia.com/gpu": 4} if number % 12 == 5 else {},
            taints=["nvidia.com/gpu=present:NoSchedule"] if number % 12 == 5 else [],
            unschedulable=number % 53 == 9,
            conditions=(Condition(type="Ready", status="False" if number % 97 == 40 else "True"),),
        )
        for number in range(nodes)
        for cpu, memory in (sizes[(number // 3) % 3],)
    )
    for second in range(max(seconds, 1)):
        share = 1 + 0.6 * ((second // 20) % 3)
        count = round(rng.uniform(2, 7) * share * nodes / 240)
        stage.add_pods([_workload(rng) for _ in range(count)])
        if second == seconds // 2:
            stage.add_pods(_misfits())
        stage.clock.shift += 1
        stage.console.flow.sample()
    return stage


def _misfits() -> list[Pod]:
    gpus = {"nvidia.com/gpu": 8}
    return [
        *(pod(f"trainer-{n}", namespace="ml", cpu=12, requests=gpus) for n in range(7)),
        *(pod(f"report-{n}", namespace="batch", cpu=60) for n in range(3)),
        pod("db-0", namespace="shop", cpu=2, node_selector={"disk": "nvme"}),
        pod("canary", namespace="shop", gates=["example.com/approval"]),
    ]


def _workload(rng: Random) -> Pod:
    name, namespace, cpu, memory = rng.choice(
        [
            ("web", "shop", "500m", "512Mi"),
            ("api", "shop", "1", "2Gi"),
            ("cache", "shop", "250m", "4Gi"),
            ("worker", "batch", "2", "3Gi"),
            ("etl", "batch", "4", "8Gi"),
        ]
    )
    return pod(f"{name}-{rng.randrange(16**6):06x}", namespace=namespace, cpu=cpu, memory=memory)
