"""The random scheduler, stage 2, informers: see `stowplan learn read 6`."""

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
        # TODO: log "New node is added. " and the node's name.
        pass

    def add_pod(self, pod: Pod) -> None:
        # TODO: put the pod into the queue if it has no node and asks for SCHEDULER_NAME.
        pass

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set."""
        log.info("Run is called")
        # TODO: run both informers, as tasks, until `stop` is set; then cancel them.
        await stop.wait()


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
