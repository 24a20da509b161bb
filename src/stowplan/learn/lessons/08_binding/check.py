"""Is the pod bound to the node that was chosen, and does one failure leave the others alone?"""

from typing import Any

from stowplan import Node, Pod
from stowplan.learn.checking import Mistake, logged, play
from stowplan.learn.rehearsal import Rehearsal
from stowplan.scenarios import Cluster

BEST, OTHER = "bravo", "alpha"
UNLUCKY = "unlucky"


def fits(node: Node, pod: Pod) -> bool:
    return True


def prefers_the_best(node: Node, pod: Pod) -> int:
    return 10 if node.name == BEST else 0


def check(work: Any, on: str) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create_node(OTHER)
        await cluster.create_node(BEST)
        rehearsal = Rehearsal(work, cluster)
        rehearsal.judge_by([fits], [prefers_the_best])
        rehearsal.api.failures[UNLUCKY] = 1
        with logged() as messages:
            await rehearsal.begin()
            for pod in ("nginx", "web-1", "web-2"):
                await rehearsal.create_pod(pod)
                await must_be_bound(rehearsal, messages, pod)
            await rehearsal.create_pod(UNLUCKY)
            rehearsal.program.must_go_on()
            await must_have_failed(rehearsal, messages)
            await rehearsal.create_pod("after")
            rehearsal.program.must_go_on()
            await must_be_bound(rehearsal, messages, "after")
        await rehearsal.end()

    play(scenario, on)


async def must_be_bound(rehearsal: Rehearsal, messages: list[str], pod: str) -> None:
    schedule_one = rehearsal.method("schedule_one")
    node = await rehearsal.cluster.node_of(pod)
    if not node:
        failures = [message for message in messages if "failed to bind" in message]
        if failures:
            raise Mistake("refused", at=rehearsal.method("bind_pod"), pod=pod, why=failures[-1])
        raise Mistake("not_bound", at=schedule_one, pod=pod, best=BEST)
    if node != BEST:
        raise Mistake("elsewhere", at=schedule_one, pod=pod, node=node, best=BEST)
    if not any(says_success(message, pod) for message in messages):
        raise Mistake("not_told", at=schedule_one, pod=pod, node=node)


async def must_have_failed(rehearsal: Rehearsal, messages: list[str]) -> None:
    schedule_one = rehearsal.method("schedule_one")
    if any(says_success(message, UNLUCKY) for message in messages):
        raise Mistake("untrue", at=schedule_one, pod=UNLUCKY)
    if not any("failed to bind" in message and UNLUCKY in message for message in messages):
        raise Mistake("failure_not_told", at=schedule_one, pod=UNLUCKY)


def says_success(message: str, pod: str) -> bool:
    return pod in message and "successfully scheduled" in message
