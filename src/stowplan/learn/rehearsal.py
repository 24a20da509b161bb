"""What the checks of the tutorial's five stages share: the learner's random scheduler at work.

A `Rehearsal` starts it on a cluster, with a client in between that remembers each binding, and
puts predicates and priorities of its own in place of the random ones, so that what should come of
it is known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, TypeVar

from stowplan import Node, Pod
from stowplan.api.resources import PODS
from stowplan.learn.checking import Mistake, call, part, start
from stowplan.learn.stage import WatchedClient
from stowplan.sim.scenarios import Cluster

T = TypeVar("T")

SCHEDULER_NAME: Final = "random-scheduler"
_TIME_TO_STOP_S: Final = 3.0


class Rehearsal:
    """The learner's random scheduler at work; the module's docstring explains it."""

    def __init__(self, work: Any, cluster: Cluster) -> None:
        self.cluster = cluster
        self.api = WatchedClient(cluster)
        self.scheduler = call(part(work, "Scheduler"), self.api)
        self.stop = asyncio.Event()
        self._pods: list[str] = []

    def method(self, name: str) -> Any:
        found = getattr(self.scheduler, name, None)
        if not callable(found):
            raise Mistake("part_is_gone", name=f"Scheduler.{name}")
        return found

    def attribute(self, name: str, kind: type[T]) -> T:
        found = getattr(self.scheduler, name, None)
        if not isinstance(found, kind):
            raise Mistake("part_is_gone", name=f"self.{name}, of type {kind.__name__}")
        return found

    def judge_by(
        self,
        predicates: list[Callable[[Node, Pod], bool]],
        priorities: list[Callable[[Node, Pod], int]],
    ) -> None:
        """Use these predicates and priorities instead of the random ones."""
        for name, functions in (("predicates", predicates), ("priorities", priorities)):
            self.attribute(name, list)
            setattr(self.scheduler, name, functions)

    async def begin(self) -> None:
        """Start the scheduler and give it a moment."""
        self.program = start(self.cluster, self.method("run"), self.stop)
        await self.cluster.sleep(2)

    async def create_pod(self, name: str, **fields: Any) -> None:
        """Create a pod, and wait a moment for the scheduler to see it."""
        await self.cluster.create_pod(name, schedulerName=SCHEDULER_NAME, **fields)
        await self.cluster.sleep(2)

    async def pod(self, name: str) -> Pod:
        return await self.cluster.client.get(PODS, name, namespace=self.cluster.namespace)

    def queued(self) -> list[str]:
        """The names of all pods that have come into the queue so far."""
        queue = self.attribute("queue", asyncio.Queue)
        while not queue.empty():
            pod = queue.get_nowait()
            self._pods.append(pod.metadata.name if isinstance(pod, Pod) else repr(pod))
        return self._pods

    async def end(self) -> None:
        """The scheduler must stop when `stop` is set."""
        self.stop.set()
        await self.cluster.sleep(_TIME_TO_STOP_S)
        if not self.program.has_ended:
            told = {"name": "run", "seconds": f"{_TIME_TO_STOP_S:g}"}
            raise Mistake("does_not_stop", at=self.method("run"), **told)
