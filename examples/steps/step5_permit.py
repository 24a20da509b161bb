"""Step 5, permit plugins: the node is chosen, but may the pod go there yet?

New here: a Permit plugin lets the pod go, refuses it, or holds it for a while; NodeNumber holds it
for as many seconds as the node's digit says. Nobody else should have to wait for that, so the end
of an attempt, the binding cycle, runs in a task of its own beside the next pod's attempt.

    python step5_permit.py [SCHEDULER_NAME]
"""

import asyncio
import logging
import random
import sys
import time

from stowplan import Cycle, NodeView, Plugin, Pod, Status
from stowplan.api.client import ApiClient
from stowplan.api.informer import Informer
from stowplan.api.kubeconfig import load_cluster_config
from stowplan.api.resources import NODES, PODS
from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.pod_info import compile_pod
from stowplan.errors import StowplanError
from stowplan.framework.handle import Handle
from stowplan.framework.status import SUCCESS, wait
from stowplan.framework.waiting import WaitingPod
from stowplan.plugins.node_unschedulable import NodeUnschedulable

log = logging.getLogger("minischeduler")


class NodeNumber(Plugin):
    """pod1 likes node1, and is held for one second before it may go there."""

    name = "NodeNumber"

    def pre_score(self, cycle: Cycle) -> None:
        cycle.write("PreScoreNodeNumber", last_digit(cycle.pod.metadata.name))

    def score(self, pod: Pod, node: NodeView, cycle: Cycle) -> int:
        return 10 if cycle.read("PreScoreNodeNumber") == last_digit(node.name) != "" else 0

    def permit(self, cycle: Cycle, pod: Pod, node: str) -> tuple[Status, float]:
        delay = int(last_digit(node) or 0)
        if not delay:
            return SUCCESS, 0
        HANDLE.call_later(delay, lambda: self.allow(pod.uid))
        return wait(), 10.0

    def allow(self, uid: str) -> None:
        if (waiting := HANDLE.waiting.get(uid)) is not None:
            waiting.allow(self.name)


def last_digit(name: str) -> str:
    return name[-1] if name[-1].isdigit() else ""


HANDLE = Handle(call_later=lambda s, call: asyncio.get_running_loop().call_later(s, call))
FILTERS = [NodeUnschedulable()]
NUMBER = NodeNumber()
PRE_SCORERS = [NUMBER]
SCORERS = [NUMBER]
PERMITS = [NUMBER]


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
                pod = await self.queue.get()
                if (node := self.schedule_one(pod)) is not None:
                    tasks.create_task(self.binding_cycle(pod, node))

    def schedule_one(self, pod: Pod) -> str | None:
        log.info("minischeduler: Start schedule: pod name:%s", pod.metadata.name)
        table = self.cluster.table
        nodes = [NodeView(table, row) for row in table.order.tolist()]
        log.info("minischeduler: Get Nodes successfully")
        feasible = self.run_filters(pod, nodes)
        if not feasible:
            return None
        cycle = Cycle(table, compile_pod(pod))
        for plugin in PRE_SCORERS:
            plugin.pre_score(cycle)
        log.info("minischeduler: ran pre score plugins successfully")
        node = select_host(self.run_scorers(pod, feasible, cycle))
        return node if self.run_permits(cycle, pod, node) else None

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

    def run_permits(self, cycle: Cycle, pod: Pod, node: str) -> bool:
        now, deadlines = time.monotonic(), {}
        for plugin in PERMITS:
            status, patience_s = plugin.permit(cycle, pod, node)
            if status.is_wait:
                deadlines[plugin.name] = now + patience_s
            elif not status.is_success:
                log.info("minischeduler: Pod rejected by permit plugin: %s", status.message)
                return False
        if deadlines:
            log.info("minischeduler: Pod waiting on permit: %s", pod.metadata.name)
            HANDLE.waiting.add(WaitingPod(pod, node, deadlines, started=now))
        return True

    async def binding_cycle(self, pod: Pod, node: str) -> None:
        status = await self.wait_on_permit(pod)
        if status.is_success:
            await self.bind(pod, node)
        else:
            log.info("minischeduler: Pod rejected by permit plugin: %s", status.message)

    async def wait_on_permit(self, pod: Pod) -> Status:
        waiting = HANDLE.waiting.get(pod.uid)
        if waiting is None:
            return SUCCESS
        decided = asyncio.Event()
        waiting.on_decided = decided.set
        while waiting.status is None:
            try:
                await asyncio.wait_for(decided.wait(), waiting.next_deadline - time.monotonic())
            except TimeoutError:
                waiting.expire(time.monotonic())
        HANDLE.waiting.remove(pod.uid)
        return waiting.status

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
