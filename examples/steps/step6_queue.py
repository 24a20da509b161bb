"""Step 6, the scheduling queue: a pod that could not be placed is not forgotten.

New here: a queue with three places to wait. A pod that no node would take is *unschedulable*,
together with the plugins that refused it: trying again at once would change nothing. A pod whose
attempt broke (the API server was away) is in *backoff*, for 1, 2, 4, 8 and then 10 seconds. All
others are *active*. What brings unschedulable pods back is the subject of step 7. NodeNumber has
moved to `stowplan.plugins`, it does what it did before.

    python step6_queue.py [SCHEDULER_NAME]
"""

import asyncio
import heapq
import logging
import random
import sys
import time
from collections import deque
from dataclasses import dataclass, field

from stowplan import Cycle, NodeView, Pod, Status
from stowplan.api.client import ApiClient
from stowplan.api.informer import Informer
from stowplan.api.kubeconfig import load_cluster_config
from stowplan.api.resources import NODES, PODS
from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.pod_info import compile_pod
from stowplan.errors import StowplanError
from stowplan.framework.handle import Handle
from stowplan.framework.status import SUCCESS
from stowplan.framework.waiting import WaitingPod
from stowplan.plugins.node_number import NodeNumber
from stowplan.plugins.node_unschedulable import NodeUnschedulable

log = logging.getLogger("minischeduler")

HANDLE = Handle(call_later=lambda s, call: asyncio.get_running_loop().call_later(s, call))
NUMBER = NodeNumber(handle=HANDLE)
FILTERS = [NodeUnschedulable()]
PRE_SCORERS = SCORERS = PERMITS = [NUMBER]


@dataclass
class Queued:
    """A pod, how often it was tried, and who refused it."""

    pod: Pod
    attempts: int = 0
    refused_by: set[str] = field(default_factory=set)


class SchedulingQueue:
    def __init__(self) -> None:
        self.active: deque[Queued] = deque()
        self.backoff: list[tuple[float, str, Queued]] = []
        self.unschedulable: dict[str, Queued] = {}
        self.changed = asyncio.Event()

    def add(self, queued: Queued) -> None:
        self.active.append(queued)
        self.changed.set()

    def add_unschedulable(self, queued: Queued) -> None:
        name, plugins = queued.pod.metadata.name, sorted(queued.refused_by)
        log.info("queue: pod added to unschedulableQ: %s. It is unscheduled by %s", name, plugins)
        self.unschedulable[queued.pod.uid] = queued

    def add_backoff(self, queued: Queued) -> None:
        pause_s = min(2 ** (queued.attempts - 1), 10)
        log.info("queue: pod added to backoffQ: %s, %d s", queued.pod.metadata.name, pause_s)
        heapq.heappush(self.backoff, (time.monotonic() + pause_s, queued.pod.uid, queued))
        self.changed.set()

    async def pop(self) -> Queued:
        while True:
            while self.backoff and self.backoff[0][0] <= time.monotonic():
                self.add(heapq.heappop(self.backoff)[2])
            if self.active:
                queued = self.active.popleft()
                queued.attempts += 1
                return queued
            self.changed.clear()
            pause_s = self.backoff[0][0] - time.monotonic() if self.backoff else None
            try:
                await asyncio.wait_for(self.changed.wait(), pause_s)
            except TimeoutError:
                pass


class MiniScheduler:
    def __init__(self, api: ApiClient, name: str) -> None:
        self.api, self.name = api, name
        self.cluster, self.queue = ClusterCache(), SchedulingQueue()
        self.nodes = Informer(
            api,
            NODES,
            on_add=self.cluster.set_node,
            on_update=lambda old, new: self.cluster.set_node(new),
            on_delete=lambda node: self.cluster.remove_node(node.name),
        )
        nothing = lambda *_: None  # noqa: E731
        self.pods = Informer(api, PODS, on_add=self.add_pod, on_update=nothing, on_delete=nothing)

    def add_pod(self, pod: Pod) -> None:
        if not pod.spec.node_name and pod.spec.scheduler_name == self.name:
            self.queue.add(Queued(pod))

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.nodes.run())
            tasks.create_task(self.pods.run())
            await self.nodes.synced.wait()
            while True:
                log.info("minischeduler: Try to get pod from queue....")
                queued = await self.queue.pop()
                if (node := self.schedule_one(queued)) is None:
                    self.queue.add_unschedulable(queued)
                else:
                    tasks.create_task(self.binding_cycle(queued, node))

    def schedule_one(self, queued: Queued) -> str | None:
        pod, table = queued.pod, self.cluster.table
        log.info("minischeduler: Start schedule: pod name:%s", pod.metadata.name)
        cycle = Cycle(table, compile_pod(pod))
        feasible = []
        queued.refused_by.clear()
        for node in (NodeView(table, row) for row in table.order.tolist()):
            refused_by = {plugin.name for plugin in FILTERS if plugin.filter(pod, node) is not None}
            queued.refused_by |= refused_by
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

    def run_permits(self, cycle: Cycle, queued: Queued, node: str) -> bool:
        now, deadlines = time.monotonic(), {}
        for plugin in PERMITS:
            status, patience_s = plugin.permit(cycle, queued.pod, node)
            if status.is_wait:
                deadlines[plugin.name] = now + patience_s
            elif not status.is_success:
                queued.refused_by.add(plugin.name)
                return False
        if deadlines:
            HANDLE.waiting.add(WaitingPod(queued.pod, node, deadlines, started=now))
        return True

    async def binding_cycle(self, queued: Queued, node: str) -> None:
        pod = queued.pod
        status = await self.wait_on_permit(pod)
        if not status.is_success:
            queued.refused_by.add(status.plugin)
            self.queue.add_unschedulable(queued)
            return
        log.info("minischeduler: pod %s will be bound to node %s", pod.metadata.name, node)
        try:
            await self.api.bind(pod.metadata.namespace, pod.metadata.name, pod.uid, node)
        except StowplanError as problem:
            log.info("minischeduler: failed to bind %s: %s", pod.key, problem)
            self.queue.add_backoff(queued)
        else:
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
