"""Is each pod of PrgContSched bound, to a node that may take it, and are the others left alone?"""

from typing import Any

from stowplan.learn.checking import Mistake, part, play, start
from stowplan.scenarios import Cluster

SCHEDULER_NAME = "PrgContSched"
NODES = ("alpha", "bravo", "charlie")
CORDONED = "alpha"


def check(work: Any, on: str) -> None:
    schedule = part(work, "schedule", is_async=True)

    async def scenario(cluster: Cluster) -> None:
        for name in NODES:
            await cluster.create_node(name, unschedulable=name == CORDONED)
        await cluster.create_pod("hello", schedulerName=SCHEDULER_NAME)
        await cluster.create_pod("visitor")
        program = start(cluster, schedule, cluster.client, cluster.namespace)
        await cluster.sleep(5)
        await must_be_bound(cluster, "hello", "not_bound")
        await cluster.create_pod("hello-again", schedulerName=SCHEDULER_NAME)
        await cluster.sleep(5)
        program.must_go_on()
        await must_be_bound(cluster, "hello-again", "later_not_bound")
        if node := await cluster.node_of("visitor"):
            taken = {"pod": "visitor", "scheduler": "default-scheduler", "node": node}
            raise Mistake("taken", at=schedule, **taken)

    async def must_be_bound(cluster: Cluster, pod: str, otherwise: str) -> None:
        node = await cluster.node_of(pod)
        if not node:
            found = await cluster.get("Pod", pod)
            scheduler, phase = found["spec"]["schedulerName"], found["status"]["phase"]
            fields = {"pod": pod, "phase": phase, "scheduler": scheduler, "node": node}
            raise Mistake(otherwise, at=schedule, **fields)
        if node not in NODES:
            raise Mistake("no_such_node", at=schedule, pod=pod, node=node)
        if node == CORDONED:
            raise Mistake("cordoned_node", at=schedule, pod=pod, node=node)

    play(scenario, on)
