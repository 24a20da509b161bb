"""Lesson 11, filter plugins: `stowplan learn read 11`, then `stowplan learn check 11`."""

import asyncio
import logging
import random
import sys

from stowplan import (
    NODES,
    PODS,
    SUCCESS,
    ApiClient,
    Informer,
    Node,
    Pod,
    Status,
    StowplanError,
    Taint,
    load_cluster_config,
    tolerates,
    unschedulable,
)

log = logging.getLogger("minischeduler")

CORDON = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


class NodeUnschedulable:
    """Filter: a cordoned node takes only pods that tolerate that."""

    name = "NodeUnschedulable"

    def filter(self, pod: Pod, node: Node) -> Status:
        is_tolerated = any(tolerates(one, CORDON) for one in pod.spec.tolerations or ())
        if node.spec.unschedulable and not is_tolerated:
            return unschedulable("node(s) were unschedulable")
        return SUCCESS


class MiniScheduler:
    def __init__(self, api: ApiClient, name: str = "default-scheduler") -> None:
        self.api = api
        self.name = name
        self.filters = [NodeUnschedulable()]
        self.queue: asyncio.Queue[Pod] = asyncio.Queue()
        # An informer lists once, then watches: `store` is a copy of what the server has.
        self.nodes = Informer(api, NODES, on_add=ignore, on_update=ignore, on_delete=ignore)
        self.pods = Informer(api, PODS, on_add=self.add_pod, on_update=ignore, on_delete=ignore)

    def add_pod(self, pod: Pod) -> None:
        """A pod that has no node yet and asks for us waits for its turn."""
        if not pod.spec.node_name and pod.spec.scheduler_name == self.name:
            self.queue.put_nowait(pod)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.nodes.run())
            tasks.create_task(self.pods.run())
            await self.nodes.synced.wait()
            while True:
                await self.schedule_one(await self.queue.get())

    async def schedule_one(self, pod: Pod) -> None:
        """One attempt: find a node for the pod, and bind it."""
        feasible = self.run_filters(pod, list(self.nodes.store.values()))
        if not feasible:
            log.info("no node for pod %s", pod.key)
            return
        await self.bind(pod, random.choice(feasible).name)

    def run_filters(self, pod: Pod, nodes: list[Node]) -> list[Node]:
        """The nodes that every filter plugin accepts for the pod."""
        return [
            node
            for node in nodes
            if all(plugin.filter(pod, node).is_success for plugin in self.filters)
        ]

    async def bind(self, pod: Pod, node: str) -> None:
        log.info("pod %s will be bound to node %s", pod.key, node)
        try:
            await self.api.bind(pod.metadata.namespace, pod.metadata.name, pod.uid, node)
        except StowplanError as problem:
            log.info("could not bind pod %s: %s", pod.key, problem)


def ignore(*_: object) -> None:
    """A handler for what does not matter to us."""


async def main(name: str = "default-scheduler") -> None:
    async with ApiClient(load_cluster_config()) as api:
        await MiniScheduler(api, name).run()


if __name__ == "__main__":
    logging.basicConfig(level="INFO", format="minischeduler: %(message)s")
    try:
        asyncio.run(main(*sys.argv[1:]))
    except (StowplanError, KeyboardInterrupt) as problem:
        sys.exit(str(problem) or 130)  # Ctrl-C has no text
