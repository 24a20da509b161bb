"""The random scheduler, stage 3, choose: see `stowplan learn read 7`."""

import asyncio
import logging
import random
import signal
import sys
from collections.abc import Callable

from stowplan import NODES, PODS, ApiClient, Informer, Node, Pod, StowplanError, load_cluster_config

SCHEDULER_NAME = "random-scheduler"
log = logging.getLogger(SCHEDULER_NAME)


def random_predicate(node: Node, pod: Pod) -> bool:
    return random.randrange(2) == 0


def random_priority(node: Node, pod: Pod) -> int:
    return random.randrange(100)


class Scheduler:
    def __init__(self, api: ApiClient) -> None:
        self.api = api
        self.queue: asyncio.Queue[Pod] = asyncio.Queue()
        self.predicates: list[Callable[[Node, Pod], bool]] = [random_predicate]
        self.priorities: list[Callable[[Node, Pod], int]] = [random_priority]
        self.nodes = Informer(
            api,
            NODES,
            on_add=self.add_node,
            on_update=lambda old, new: None,
            on_delete=lambda node: None,
        )
        self.pods = Informer(
            api,
            PODS,
            on_add=self.add_pod,
            on_update=lambda old, new: None,
            on_delete=lambda pod: None,
        )

    def add_node(self, node: Node) -> None:
        log.info("New node is added. %s", node.name)

    def add_pod(self, pod: Pod) -> None:
        if not pod.spec.node_name and pod.spec.scheduler_name == SCHEDULER_NAME:
            self.queue.put_nowait(pod)

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set."""
        log.info("Run is called")
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self.nodes.run()),
                group.create_task(self.pods.run()),
                group.create_task(self.schedule()),
            ]
            await stop.wait()
            for task in tasks:
                task.cancel()

    async def schedule(self) -> None:
        """One pod after the other, once the nodes are known."""
        await self.nodes.synced.wait()
        while True:
            await self.schedule_one(await self.queue.get())

    async def schedule_one(self, pod: Pod) -> None:
        log.info("found a pod to schedule: [%s]", pod.key)
        node = self.find_node(pod)
        if not node:
            log.info("cannot find node that fits pod [%s]", pod.key)
            return
        log.info("node %s is chosen for Pod [%s]", node, pod.key)

    def find_node(self, pod: Pod) -> str:
        """The name of the best node; "" if none fits."""
        nodes = list(self.nodes.store.values())
        fitting = [node for node in nodes if all(fits(node, pod) for fits in self.predicates)]
        return self.find_best_node(self.prioritize(fitting, pod))

    def prioritize(self, nodes: list[Node], pod: Pod) -> dict[str, int]:
        """The sum of the priorities of each node."""
        priorities = {
            node.name: sum(priority(node, pod) for priority in self.priorities) for node in nodes
        }
        log.info("calculated priorities: %s", priorities)
        return priorities

    def find_best_node(self, priorities: dict[str, int]) -> str:
        """The name with the highest sum; "" if there is none."""
        return max(priorities, key=lambda name: priorities[name], default="")


async def main() -> None:
    log.info("Start a scheduler")
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, stop.set)  # Ctrl-C
    async with ApiClient(load_cluster_config()) as api:
        await Scheduler(api).run(stop)


if __name__ == "__main__":
    logging.basicConfig(level="INFO", format="%(asctime)s %(message)s", datefmt="%Y/%m/%d %H:%M:%S")
    try:
        asyncio.run(main())
    except StowplanError as problem:
        sys.exit(str(problem) or 130)  # Ctrl-C has no text
