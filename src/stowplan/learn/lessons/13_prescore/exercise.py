"""Lesson 13, prescore plugins: `stowplan learn read 13`, then `stowplan learn check 13`."""

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
)

log = logging.getLogger("minischeduler")

#: What plugins note down during one attempt; kube-scheduler calls it CycleState.
Cycle = dict[str, str]

CORDON = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


class NodeUnschedulable:
    """Filter: a cordoned node takes only pods that tolerate that."""

    name = "NodeUnschedulable"

    def filter(self, pod: Pod, node: Node) -> Status:
        is_tolerated = any(tolerates(one, CORDON) for one in pod.spec.tolerations or ())
        if node.spec.unschedulable and not is_tolerated:
            return unschedulable("node(s) were unschedulable")
        return SUCCESS


class NodeNumber:
    """Score: pod1 likes node1, and any other node whose name ends in 1."""

    name = "NodeNumber"
    note = "PreScoreNodeNumber"

    def pre_score(self, cycle: Cycle, pod: Pod, nodes: list[Node]) -> None:
        # TODO: note the last digit of the pod's name in the cycle.
        pass

    def score(self, cycle: Cycle, pod: Pod, node: Node) -> int:
        # TODO: read the note instead.
        digit = last_digit(pod.metadata.name)
        return 10 if digit and digit == last_digit(node.name) else 0


def last_digit(name: str) -> str:
    """Of pod1 it is "1", of node10 "0", and "" where the name ends in no digit."""
    return name[-1] if name[-1].isdigit() else ""


class MiniScheduler:
    def __init__(self, api: ApiClient, name: str = "default-scheduler") -> None:
        self.api = api
        self.name = name
        self.filters = [NodeUnschedulable()]
        number = NodeNumber()
        self.pre_scorers = [number]
        self.scorers = [number]
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
        feasible = self.run_filters(pod, list(self.nodes.store.values()))
        if not feasible:
            log.info("no node for pod %s", pod.key)
            return
        # TODO: a cycle for this attempt; let plugins make their notes in it, then score.
        scores = self.run_scorers({}, pod, feasible)
        log.info("scores for pod %s: %s", pod.key, scores)
        await self.bind(pod, self.select_node(scores))

    def run_filters(self, pod: Pod, nodes: list[Node]) -> list[Node]:
        """The nodes that every filter plugin accepts for the pod."""
        return [
            node
            for node in nodes
            if all(plugin.filter(pod, node).is_success for plugin in self.filters)
        ]

    def run_pre_scorers(self, cycle: Cycle, pod: Pod, nodes: list[Node]) -> None:
        """Once an attempt: plugins may note what is the same for all nodes."""
        # TODO: call pre_score of each of self.pre_scorers.

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
