"""Lesson 10, random: `stowplan learn read 10`, then `stowplan learn check 10`."""

import asyncio
import logging
import random
import sys

from stowplan import NODES, PODS, ApiClient, Informer, Pod, StowplanError, load_cluster_config

log = logging.getLogger("minischeduler")


class MiniScheduler:
    def __init__(self, api: ApiClient, name: str = "default-scheduler") -> None:
        self.api = api
        self.name = name
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
        # TODO: take one of the nodes at random (`self.nodes.store` has them by name) and bind the
        # pod to it. Without any node there is nothing to do.

    async def bind(self, pod: Pod, node: str) -> None:
        log.info("pod %s will be bound to node %s", pod.key, node)
        try:
            # TODO: say it to the API server: await self.api.bind(namespace, name, uid, node)
            pass
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
