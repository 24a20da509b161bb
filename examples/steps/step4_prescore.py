"""Step 4, prescore plugins: what is the same for all nodes is computed once.

New here: before nodes are scored, PreScore plugins look at the pod and leave notes in the `Cycle`,
which lives as long as this one attempt. NodeNumber notes the pod's digit there, and Score only has
to compare it.

    python step4_prescore.py [SCHEDULER_NAME]
"""

import asyncio
import logging
import random
import sys

from stowplan import Cycle, NodeView, Plugin, Pod
from stowplan.api.client import ApiClient
from stowplan.api.informer import Informer
from stowplan.api.kubeconfig import load_cluster_config
from stowplan.api.resources import NODES, PODS
from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.pod_info import compile_pod
from stowplan.errors import StowplanError
from stowplan.plugins.node_unschedulable import NodeUnschedulable

log = logging.getLogger("minischeduler")


class NodeNumber(Plugin):
    """pod1 likes node1."""

    name = "NodeNumber"

    def pre_score(self, cycle: Cycle) -> None:
        cycle.write("PreScoreNodeNumber", last_digit(cycle.pod.metadata.name))

    def score(self, pod: Pod, node: NodeView, cycle: Cycle) -> int:
        return 10 if cycle.read("PreScoreNodeNumber") == last_digit(node.name) != "" else 0


def last_digit(name: str) -> str:
    return name[-1] if name[-1].isdigit() else ""


FILTERS = [NodeUnschedulable()]
NUMBER = NodeNumber()
PRE_SCORERS = [NUMBER]
SCORERS = [NUMBER]


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
            return
        cycle = Cycle(table, compile_pod(pod))
        for plugin in PRE_SCORERS:
            plugin.pre_score(cycle)
        log.info("minischeduler: ran pre score plugins successfully")
        scores = self.run_scorers(pod, feasible, cycle)
        await self.bind(pod, select_host(scores))

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

    def run_scorers(self, pod: Pod, nodes: list[NodeView], cycle: Cycle) -> dict[str, int]:
        scores = {
            node.name: sum(plugin.score(pod, node, cycle) for plugin in SCORERS) for node in nodes
        }
        log.info("minischeduler: score results: %s", scores)
        return scores

    async def bind(self, pod: Pod, node: str) -> None:
        log.info("minischeduler: pod %s will be bound to node %s", pod.metadata.name, node)
        try:
            await self.api.bind(pod.metadata.namespace, pod.metadata.name, pod.uid, node)
        except StowplanError as problem:
            log.info("minischeduler: failed to bind %s: %s", pod.key, problem)
        else:
            log.info("minischeduler: Bind Pod successfully")


def select_host(scores: dict[str, int]) -> str:
    best = max(scores.values())
    return random.choice([node for node, score in scores.items() if score == best])


async def main(name: str = "default-scheduler") -> None:
    async with ApiClient(load_cluster_config()) as api:
        await MiniScheduler(api, name).run()


if __name__ == "__main__":
    logging.basicConfig(level="INFO", format="%(message)s")
    try:
        asyncio.run(main(*sys.argv[1:]))
    except (StowplanError, KeyboardInterrupt) as problem:
        sys.exit(str(problem))
