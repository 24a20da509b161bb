"""Step 2, filter plugins: which nodes may take the pod at all?

New here: the scheduler keeps a picture of the cluster (`ClusterCache`) and shows plugins one node
of it after the other. A Filter plugin says None for yes, or a Status that says why not. The only
one enabled is NodeUnschedulable, which respects `kubectl cordon`.

    python step2_filter.py [SCHEDULER_NAME]
"""

import asyncio
import logging
import random
import sys

from stowplan import NodeView, Pod
from stowplan.api.client import ApiClient
from stowplan.api.informer import Informer
from stowplan.api.kubeconfig import load_cluster_config
from stowplan.api.resources import NODES, PODS
from stowplan.cluster.cache import ClusterCache
from stowplan.errors import StowplanError
from stowplan.plugins.node_unschedulable import NodeUnschedulable

log = logging.getLogger("minischeduler")

FILTERS = [NodeUnschedulable()]


class MiniScheduler:
    def __init__(self, api: ApiClient, name: str) -> None:
        self.api = api
        self.name = name
        self.cluster = ClusterCache()
        self.queue: asyncio.Queue[Pod] = asyncio.Queue()
        self.nodes = Informer(
            api,
            NODES,
            on_add=self.cluster.set_node,
            on_update=lambda old, new: self.cluster.set_node(new),
            on_delete=lambda node: self.cluster.remove_node(node.name),
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
        table = self.cluster.table
        nodes = [NodeView(table, row) for row in table.order.tolist()]
        log.info("minischeduler: Get Nodes successfully")
        feasible = self.run_filters(pod, nodes)
        if not feasible:
            # Nobody looks at the pod again: step 6 gives it a place to wait.
            return
        await self.bind(pod, random.choice(feasible).name)

    def run_filters(self, pod: Pod, nodes: list[NodeView]) -> list[NodeView]:
        feasible = []
        for node in nodes:
            for plugin in FILTERS:
                status = plugin.filter(pod, node)
                if status is not None:
                    log.info("minischeduler: %s: %s", node.name, status.message)
                    break
            else:
                feasible.append(node)
        log.info("minischeduler: ran filter plugins successfully")
        log.info("minischeduler: feasible nodes: %s", [node.name for node in feasible])
        return feasible

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
