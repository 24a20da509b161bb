"""Step 7, event handlers: what happens in the cluster brings pods back.

New here: every change of a node or a pod is told to the queue as an event. Each plugin has said
which events may help the pods that it refused (`events()`), and may look closer (its hints): a pod
comes back when one of those who refused it thinks that it could fit now, and nobody tries in vain.
The queue is the real one by now, `stowplan.queue`: step 6's three places, with backoff for pods
that come back too often and a memory for events that happen while a pod is being tried.

    python step7_event_handlers.py [SCHEDULER_NAME]
"""

import asyncio
import logging
import random
import sys
import time

from stowplan import Cycle, Node, NodeView, Pod, Status
from stowplan.api.client import ApiClient
from stowplan.api.informer import Informer
from stowplan.api.kubeconfig import load_cluster_config
from stowplan.api.resources import NODES, PODS
from stowplan.clock import SystemClock
from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.pod_info import compile_pod
from stowplan.errors import StowplanError
from stowplan.framework.handle import Handle
from stowplan.framework.status import SUCCESS
from stowplan.framework.waiting import WaitingPod
from stowplan.plugins.node_number import NodeNumber
from stowplan.plugins.node_unschedulable import NodeUnschedulable
from stowplan.plugins.priority_sort import PrioritySort
from stowplan.queue.changes import node_changes
from stowplan.queue.events import ASSIGNED_POD_ADD, ASSIGNED_POD_DELETE, NODE_ADD, NODE_DELETE
from stowplan.queue.hints import complete_hints
from stowplan.queue.pod import QueuedPod
from stowplan.queue.queue import SchedulingQueue

log = logging.getLogger("minischeduler")

HANDLE = Handle(call_later=lambda s, call: asyncio.get_running_loop().call_later(s, call))
NUMBER = NodeNumber(handle=HANDLE)
FILTERS = [NodeUnschedulable()]
PRE_SCORERS = SCORERS = PERMITS = [NUMBER]


class MiniScheduler:
    def __init__(self, api: ApiClient, name: str) -> None:
        self.api, self.name, self.cluster = api, name, ClusterCache()
        wishes = {plugin.name: plugin.events() for plugin in (*FILTERS, *PERMITS)}
        self.queue = SchedulingQueue(
            clock=SystemClock(), key=PrioritySort().sort_key, hints={name: complete_hints(wishes)}
        )
        self.ready = asyncio.Event()
        self.queue.on_ready = self.ready.set
        self.nodes = Informer(
            api, NODES, on_add=self.add_node, on_update=self.update_node, on_delete=self.delete_node
        )
        self.pods = Informer(
            api, PODS, on_add=self.add_pod, on_update=self.update_pod, on_delete=self.delete_pod
        )

    def add_node(self, node: Node) -> None:
        self.cluster.set_node(node)
        self.queue.move_all(NODE_ADD, None, node)

    def update_node(self, old: Node, new: Node) -> None:
        self.cluster.set_node(new)
        for event in node_changes(old, new):
            self.queue.move_all(event, old, new)

    def delete_node(self, node: Node) -> None:
        self.cluster.remove_node(node.name)
        self.queue.move_all(NODE_DELETE, node, None)

    def add_pod(self, pod: Pod) -> None:
        if pod.spec.node_name:
            self.queue.move_all(ASSIGNED_POD_ADD, None, pod)
        elif pod.spec.scheduler_name == self.name:
            self.queue.add(pod)

    def update_pod(self, old: Pod, new: Pod) -> None:
        if new.spec.node_name and not old.spec.node_name:
            self.queue.delete(new)
            self.add_pod(new)
        elif not new.spec.node_name and new.spec.scheduler_name == self.name:
            self.queue.update(old, new)

    def delete_pod(self, pod: Pod) -> None:
        self.queue.delete(pod)
        if pod.spec.node_name:
            self.queue.move_all(ASSIGNED_POD_DELETE, pod, None)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.nodes.run())
            tasks.create_task(self.pods.run())
            tasks.create_task(self.flush())
            await self.nodes.synced.wait()
            while True:
                if (queued := self.queue.pop()) is None:
                    self.ready.clear()
                    await self.ready.wait()
                elif (node := self.schedule_one(queued)) is None:
                    self.refused(queued)
                else:
                    tasks.create_task(self.binding_cycle(queued, node))

    async def flush(self) -> None:
        while True:
            await asyncio.sleep(1)
            self.queue.flush_backoff()
            self.queue.flush_unschedulable()

    def refused(self, queued: QueuedPod) -> None:
        name, plugins = queued.pod.metadata.name, sorted(queued.unschedulable_plugins)
        log.info("queue: pod added to unschedulableQ: %s. It is unscheduled by %s", name, plugins)
        self.queue.add_unschedulable(queued)

    def schedule_one(self, queued: QueuedPod) -> str | None:
        pod, table = queued.pod, self.cluster.table
        log.info("minischeduler: Start schedule: pod name:%s", pod.metadata.name)
        cycle = Cycle(table, compile_pod(pod))
        feasible = []
        queued.clear_rejectors()
        for node in (NodeView(table, row) for row in table.order.tolist()):
            refused_by = {plugin.name for plugin in FILTERS if plugin.filter(pod, node) is not None}
            queued.unschedulable_plugins |= refused_by
            feasible += [] if refused_by else [node]
        log.info("minischeduler: feasible nodes: %s", [node.name for node in feasible])
        if not feasible:
            return None
        for plugin in PRE_SCORERS:
            plugin.pre_score(cycle, feasible)
        scores = {n.name: sum(p.score(pod, n, cycle) for p in SCORERS) for n in feasible}
        log.info("minischeduler: score results: %s", scores)
        best = max(scores.values())
        node_name = random.choice([name for name, score in scores.items() if score == best])
        return node_name if self.run_permits(cycle, queued, node_name) else None

    def run_permits(self, cycle: Cycle, queued: QueuedPod, node: str) -> bool:
        now, deadlines = time.monotonic(), {}
        for plugin in PERMITS:
            status, patience_s = plugin.permit(cycle, queued.pod, node)
            if status.is_wait:
                deadlines[plugin.name] = now + patience_s
            elif not status.is_success:
                queued.unschedulable_plugins.add(plugin.name)
                return False
        if deadlines:
            HANDLE.waiting.add(WaitingPod(queued.pod, node, deadlines, started=now))
        return True

    async def binding_cycle(self, queued: QueuedPod, node: str) -> None:
        pod = queued.pod
        status = await self.wait_on_permit(pod)
        if not status.is_success:
            queued.unschedulable_plugins.add(status.plugin)
            self.refused(queued)
            return
        log.info("minischeduler: pod %s will be bound to node %s", pod.metadata.name, node)
        try:
            await self.api.bind(pod.metadata.namespace, pod.metadata.name, pod.uid, node)
        except StowplanError as problem:
            log.info("minischeduler: failed to bind %s: %s", pod.key, problem)
            self.queue.add_unschedulable(queued)
        else:
            self.queue.done(queued.uid)
            log.info("minischeduler: Bind Pod successfully")

    async def wait_on_permit(self, pod: Pod) -> Status:
        waiting = HANDLE.waiting.get(pod.uid)
        if waiting is None:
            return SUCCESS
        log.info("minischeduler: Pod waiting on permit: %s", pod.metadata.name)
        decided = asyncio.Event()
        waiting.on_decided = decided.set
        while waiting.status is None:
            try:
                await asyncio.wait_for(decided.wait(), waiting.next_deadline - time.monotonic())
            except TimeoutError:
                waiting.expire(time.monotonic())
        HANDLE.waiting.remove(pod.uid)
        return waiting.status


async def main(name: str = "default-scheduler") -> None:
    async with ApiClient(load_cluster_config()) as api:
        await MiniScheduler(api, name).run()


if __name__ == "__main__":
    logging.basicConfig(level="INFO", format="%(message)s")
    try:
        asyncio.run(main(*sys.argv[1:]))
    except (StowplanError, KeyboardInterrupt) as problem:
        sys.exit(str(problem))
