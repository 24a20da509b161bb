"""Step 1, the initial scheduler: any pod, any node, at random.

A scheduler is a client of the API server like any other. It watches pods and nodes; when a pod has
no node yet it picks one and says so, by creating a Binding. That is all there is to it, and every
later step only makes the picking wiser.

    python step1_random.py [SCHEDULER_NAME]
"""

import asyncio
import logging
import random
import sys

from stowplan import Pod
from stowplan.api.client import ApiClient
from stowplan.api.informer import Informer
from stowplan.api.kubeconfig import load_cluster_config
from stowplan.api.resources import NODES, PODS
from stowplan.errors import StowplanError

log = logging.getLogger("minischeduler")


class MiniScheduler:
    def __init__(self, api: ApiClient, name: str) -> None:
        self.api = api
        self.name = name
        self.queue: asyncio.Queue[Pod] = asyncio.Queue()
        # An informer lists once, then watches: its store is a local copy of what the server has.
        self.nodes = Informer(
            api,
            NODES,
            on_add=lambda node: None,
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

    def add_pod(self, pod: Pod) -> None:
        if not pod.spec.node_name and pod.spec.scheduler_name == self.name:
            self.queue.put_nowait(pod)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.nodes.run())
            tasks.create_task(self.pods.run())
            await self.nodes.synced.wait()
            while True:
                log.info("minischeduler: Try to get pod from queue....")
                await self.schedule_one(await self.queue.get())

    async def schedule_one(self, pod: Pod) -> None:
        log.info("minischeduler: Start schedule: pod name:%s", pod.metadata.name)
        nodes = list(self.nodes.store)
        log.info("minischeduler: Get Nodes successfully")
        if not nodes:
            log.info("minischeduler: no nodes, so %s is not scheduled", pod.key)
            return
        await self.bind(pod, random.choice(nodes))

    async def bind(self, pod: Pod, node: str) -> None:
        log.info("minischeduler: pod %s will be bound to node %s", pod.metadata.name, node)
        try:
            await self.api.bind(pod.metadata.namespace, pod.metadata.name, pod.uid, node)
        except StowplanError as problem:
            log.info("minischeduler: failed to bind %s: %s", pod.key, problem)
        else:
            log.info("minischeduler: Bind Pod successfully")


async def main(name: str = "default-scheduler") -> None:
    async with ApiClient(load_cluster_config()) as api:
        await MiniScheduler(api, name).run()


if __name__ == "__main__":
    logging.basicConfig(level="INFO", format="%(message)s")
    try:
        asyncio.run(main(*sys.argv[1:]))
    except (StowplanError, KeyboardInterrupt) as problem:
        sys.exit(str(problem))
