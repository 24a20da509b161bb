"""Lesson 14, permit plugins: `stowplan learn read 14`, then `stowplan learn check 14`."""

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
    wait,
)

log = logging.getLogger("minischeduler")

#: What plugins note down during one attempt; kube-scheduler calls it CycleState.
Cycle = dict[str, str]

#: How long permit plugins may hold a pod.
PERMIT_TIMEOUT_S = 10.0

CORDON = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


class NodeUnschedulable:
    """Filter: a cordoned node takes only pods that tolerate that."""

    name = "NodeUnschedulable"

    def filter(self, pod: Pod, node: Node) -> Status:
        is_tolerated = any(tolerates(one, CORDON) for one in pod.spec.tolerations or ())
        if node.spec.unschedulable and not is_tolerated:
            return unschedulable("node(s) were unschedulable")
        return SUCCESS


class WaitingPod:
    """A pod that permit plugins hold: which of them still do, and whether it may go."""

    def __init__(self, held_by: set[str]) -> None:
        self.held_by = held_by
        self.allowed = asyncio.Event()

    def allow(self, plugin: str) -> None:
        self.held_by.discard(plugin)
        if not self.held_by:
            self.allowed.set()


class NodeNumber:
    """Score: pod1 likes node1. Permit: it is held for one second before it may go there."""

    name = "NodeNumber"
    note = "PreScoreNodeNumber"

    def __init__(self, waiting: dict[str, WaitingPod]) -> None:
        self.waiting = waiting

    def pre_score(self, cycle: Cycle, pod: Pod, nodes: list[Node]) -> None:
        cycle[self.note] = last_digit(pod.metadata.name)

    def score(self, cycle: Cycle, pod: Pod, node: Node) -> int:
        digit = cycle[self.note]
        return 10 if digit and digit == last_digit(node.name) else 0

    def permit(self, pod: Pod, node: str) -> Status:
        """SUCCESS: the pod may go. wait(): it is held until `allow`, or until time is up."""
        delay_s = int(last_digit(node) or 0)
        if delay_s == 0:
            return SUCCESS
        asyncio.get_running_loop().call_later(delay_s, self.allow, pod.uid)
        return wait()

    def allow(self, uid: str) -> None:
        if uid in self.waiting:
            self.waiting[uid].allow(self.name)


def last_digit(name: str) -> str:
    """Of pod1 it is "1", of node10 "0", and "" where the name ends in no digit."""
    return name[-1] if name[-1].isdigit() else ""


class MiniScheduler:
    def __init__(self, api: ApiClient, name: str = "default-scheduler") -> None:
        self.api = api
        self.name = name
        self.filters = [NodeUnschedulable()]
        self.waiting: dict[str, WaitingPod] = {}  # by the pod's UID
        number = NodeNumber(self.waiting)
        self.pre_scorers = [number]
        self.scorers = [number]
        self.permits = [number]
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
                pod = await self.queue.get()
                node = self.schedule_one(pod)
                if node is not None:
                    tasks.create_task(self.binding_cycle(pod, node))

    def schedule_one(self, pod: Pod) -> str | None:
        """The scheduling cycle, one pod after the other: its node, or None."""
        feasible = self.run_filters(pod, list(self.nodes.store.values()))
        if not feasible:
            log.info("no node for pod %s", pod.key)
            return None
        cycle: Cycle = {}
        self.run_pre_scorers(cycle, pod, feasible)
        scores = self.run_scorers(cycle, pod, feasible)
        log.info("scores for pod %s: %s", pod.key, scores)
        node = self.select_node(scores)
        return node if self.run_permits(pod, node) else None

    def run_filters(self, pod: Pod, nodes: list[Node]) -> list[Node]:
        """The nodes that every filter plugin accepts for the pod."""
        return [
            node
            for node in nodes
            if all(plugin.filter(pod, node).is_success for plugin in self.filters)
        ]

    def run_pre_scorers(self, cycle: Cycle, pod: Pod, nodes: list[Node]) -> None:
        """Once an attempt: plugins may note what is the same for all nodes."""
        for plugin in self.pre_scorers:
            plugin.pre_score(cycle, pod, nodes)

    def run_scorers(self, cycle: Cycle, pod: Pod, nodes: list[Node]) -> dict[str, int]:
        """By the name of the node: what all score plugins say about it, added up."""
        scores = {}
        for node in nodes:
            scores[node.name] = sum(plugin.score(cycle, pod, node) for plugin in self.scorers)
        return scores

    def select_node(self, scores: dict[str, int]) -> str:
        """The node with the highest score; among equals, chance decides."""
        best = max(scores.values())
        return random.choice([name for name, score in scores.items() if score == best])

    def run_permits(self, pod: Pod, node: str) -> bool:
        """True if no plugin refuses the pod; one that a plugin holds waits from now on."""
        answers = {plugin.name: plugin.permit(pod, node) for plugin in self.permits}
        if any(status.is_rejected for status in answers.values()):
            return False
        held_by = {name for name, status in answers.items() if status.is_wait}
        if held_by:
            self.waiting[pod.uid] = WaitingPod(held_by)
        return True

    async def binding_cycle(self, pod: Pod, node: str) -> None:
        """The rest of an attempt. It may take long, so it runs beside the attempts of others."""
        if await self.wait_on_permit(pod):
            await self.bind(pod, node)

    async def wait_on_permit(self, pod: Pod) -> bool:
        """True once no plugin holds the pod any more, False if it timed out first."""
        waiting = self.waiting.get(pod.uid)
        if waiting is None:
            return True
        log.info("pod %s is held by %s", pod.key, waiting.held_by)
        try:
            await asyncio.wait_for(waiting.allowed.wait(), PERMIT_TIMEOUT_S)
        except TimeoutError:
            log.info("pod %s was held for too long by %s", pod.key, waiting.held_by)
            return False
        finally:
            del self.waiting[pod.uid]
        return True

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
