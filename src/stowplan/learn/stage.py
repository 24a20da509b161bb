"""What the checks of the framework's lessons share: the learner's scheduler at work, and watched.

A `Stage` starts it on a cluster, through a client that records each binding and fails on demand.
The names of plugins that a check adds to the learner's begin with `Planted`. Checks never read the
learner's source: they create pods and compare the results.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import Any

from stowplan import SUCCESS, Node, Pod, Status
from stowplan.api.client import ApiClient
from stowplan.api.resources import NODES, PODS
from stowplan.errors import ApiUnavailable
from stowplan.learn.checking import Mistake, call, part, start
from stowplan.sim.scenarios import Cluster

SCHEDULER_NAME = "minischeduler"
#: Extra time in real time, so that a slow machine is no mistake.
TOLERANCE_S = 0.8


@dataclass(frozen=True, slots=True)
class Try:
    """The learner's scheduler asked for a binding."""

    pod: str
    node: str
    at: float


class WatchedClient:
    """A client that records bindings and fails some of them on purpose."""

    def __init__(self, cluster: Cluster) -> None:
        self.tries: list[Try] = []
        #: How many bindings of a pod are still to fail.
        self.failures: Counter[str] = Counter()
        self._cluster = cluster
        self._client: ApiClient = cluster.client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def bind(
        self, pod_namespace: str, pod_name: str, pod_uid: str, node: str, **rest: Any
    ) -> None:
        self.tries.append(Try(pod_name, node, self._cluster.now()))
        if self.failures[pod_name] > 0:
            self.failures[pod_name] -= 1
            raise ApiUnavailable("the API server did not answer (it was told to, for this lesson)")
        await self._client.bind(pod_namespace, pod_name, pod_uid, node, **rest)

    def times(self, pod: str) -> list[float]:
        return [each.at for each in self.tries if each.pod == pod]


def needed(owner: Any, name: str) -> Any:
    """Something that the learner's object must have; a Mistake where it is gone."""
    try:
        return getattr(owner, name)
    except AttributeError:
        raise Mistake("part_is_gone", name=f"{type(owner).__name__}.{name}") from None


class Stage:
    """The learner's scheduler at work on a cluster."""

    def __init__(self, work: Any, cluster: Cluster) -> None:
        self.cluster = cluster
        self.api = WatchedClient(cluster)
        self.scheduler = call(part(work, "MiniScheduler"), self.api, SCHEDULER_NAME)
        self.program = start(cluster, self.method("run"))

    def method(self, name: str) -> Any:
        """A method of the learner's scheduler; a Mistake where it is gone."""
        return needed(self.scheduler, name)

    @property
    def queue(self) -> Any:
        return needed(self.scheduler, "queue")

    def plugins(self, point: str) -> list[Any]:
        """The list of plugins that the scheduler asks at one point, to plant some in it."""
        found = getattr(self.scheduler, point, None)
        if not isinstance(found, list):
            raise Mistake("part_is_gone", name=f"self.{point}")
        return found

    def plugin(self, point: str, name: str) -> Any:
        """The learner's plugin of that name."""
        for each in self.plugins(point):
            if getattr(each, "name", "") == name:
                return each
        raise Mistake("part_is_gone", name=f"{name} in self.{point}")

    async def create_nodes(self, *names: str, unschedulable: bool = False) -> None:
        """Nodes, and a moment for the news of them to arrive."""
        for name in names:
            await self.cluster.create_node(name, unschedulable=unschedulable)
        await self.cluster.sleep(1)

    async def create_pods(self, *names: str, **fields: Any) -> None:
        for name in names:
            await self.cluster.create_pod(name, schedulerName=SCHEDULER_NAME, **fields)

    async def placed(self, *pods: str, within_s: float = 3.0) -> dict[str, str]:
        """The node of each pod, after some time; "" for those that have none."""
        await self.cluster.sleep(within_s)
        self.must_run()
        return {pod: await self.cluster.node_of(pod) for pod in pods}

    def must_run(self) -> None:
        """Raise a Mistake if the scheduler has ended."""
        if self.program.has_ended:
            raise Mistake("stopped", at=self.method("run"))

    async def pod(self, name: str) -> Pod:
        return await self.cluster.client.get(PODS, name, namespace=self.cluster.namespace)

    async def node(self, name: str) -> Node:
        return await self.cluster.client.get(NODES, name)


class PlantedCounter:
    """A filter plugin that accepts all nodes and counts the attempts of each pod."""

    name = "PlantedCounter"
    events: frozenset[str] = frozenset()
    most = 50

    def __init__(self, node: str) -> None:
        #: Counted when this node is looked at, so once an attempt.
        self.node = node
        self.attempts: Counter[str] = Counter()

    def filter(self, pod: Pod, node: Node) -> Status:
        if node.name == self.node:
            self.attempts[pod.metadata.name] += 1
            if self.attempts[pod.metadata.name] > self.most:
                # It would go on without end. To be cancelled ends it without a word.
                raise asyncio.CancelledError
        return SUCCESS
